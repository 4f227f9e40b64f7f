"""Images with their answers and the captions nearest to them; captions with the nearest images."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.decision.probabilities import Temperatures, exponential_sums, probabilities
from clarel_tf.decision.selected import Selected
from clarel_tf.decision.strangers import ImageDensity
from clarel_tf.evaluation.class_measures import AnsweredImages, images_of
from clarel_tf.evaluation.example_records import (
    Answer,
    CaptionExample,
    Example,
    ExampleCaption,
    FoundImage,
)
from clarel_tf.evaluation.ranked import RankedImages
from clarel_tf.evaluation.retrieval import NearestCaptions
from clarel_tf.evaluation.strangers import served_score, with_doubts
from clarel_tf.evaluation.zero_shot import EmbeddedQueries
from clarel_tf.models.distances import pairwise_distances_numpy
from clarel_tf.models.embedder import Embedder

_CANDIDATES = 200
# Of images of unseen and of seen classes: so many right answers, as many wrong ones, and captions.
_UNSEEN_EXAMPLES, _SEEN_EXAMPLES = 4, 2
_UNSEEN_CAPTIONS, _SEEN_CAPTIONS = 4, 2
_ANSWERS = 3  # of each image
_CAPTIONS = 3  # near to each image
_FOUND_IMAGES = 5  # near to each caption


class TestedRule(NamedTuple):
    """What answers the test images, and its answers.

    Attributes:
      queries: with the rule and the classes on offer.
      density: of the training images.
      training: may show images of a class that has no test images.
    """

    model: Embedder
    queries: EmbeddedQueries
    selected: Selected
    density: ImageDensity | None
    answers: AnsweredImages
    training: Split


class SplitExamples:
    """Examples of a test split, drawn by seed.

    A reader of the split's caption stream: it looks for captions of more images than it will show,
    because only afterwards it is known which of them get right answers.
    """

    def __init__(
        self, model: Embedder, split: Split, is_seen: bool, class_names: Sequence[str], seed: int
    ):
        """`is_seen`: whether the classes of the split are seen ones."""
        self._split, self._is_seen, self._seed = split, is_seen, seed
        self._names = [class_names[label] for label in split.labels]
        self._class_names = class_names
        self._rows = np.random.default_rng(seed).permutation(len(split))[:_CANDIDATES]
        self._nearest = NearestCaptions(
            # Different images may have the same sentence, which is shown once.
            model.embed_images(split.image_features[self._rows]),
            count=4 * _CAPTIONS,
        )
        # The position of each image's first caption in the stream.
        counts = np.array([len(own) for own in split.captions], np.int64)
        self._first = np.cumsum(counts) - counts

    def add(self, embeddings: np.ndarray, instances: np.ndarray) -> None:
        """Takes the next captions of the stream, float32 [b, E]."""
        self._nearest.add(embeddings, instances)

    def images(self, tested: TestedRule, embedded: EmbeddedSplit) -> list[Example]:
        """A few images with right answers, then as many with wrong ones."""
        predicted = tested.answers.predicted[tested.answers.is_seen == self._is_seen]
        count = _SEEN_EXAMPLES if self._is_seen else _UNSEEN_EXAMPLES
        is_right = predicted[self._rows] == self._split.labels[self._rows]
        places = np.concatenate(
            [np.flatnonzero(is_right == wanted)[:count] for wanted in (True, False)]
        )
        if not len(places):
            return []
        rows, selected = self._rows[places], tested.selected
        images = RankedImages.of_images(
            tested.queries, embedded.images[rows], embedded.labels[rows], selected.alpha
        )
        none = selected.none_of_these
        strangeness = served_score(none, tested.density, with_doubts(images, tested.model))
        accepted = (strangeness <= none.distance).tolist()
        answers = self._answers(tested, images)
        return [
            Example(
                image_id=str(self._split.image_ids[row]),
                class_name=self._names[row],
                predicted=self._class_names[predicted[row]],
                right=bool(is_right[place]),
                captions=self._captions(place),
                is_seen=self._is_seen,
                answers=answers[number],
                accepted=None if selected.lacks_validation else accepted[number],
                predicted_image=None if is_right[place] else self._shown(tested, predicted[row]),
            )
            for number, (place, row) in enumerate(zip(places.tolist(), rows.tolist(), strict=True))
        ]

    @staticmethod
    def _shown(tested: TestedRule, label: int) -> str | None:
        """The id of an image of a class, if there is one."""
        return next(iter(images_of(label, tested.answers, tested.training, most=1)), None)

    def _answers(self, tested: TestedRule, images: RankedImages) -> list[list[Answer]]:
        columns, given = most_probable(images, tested.selected.temperatures, _ANSWERS)
        order = np.argsort(~tested.queries.is_seen, kind="stable")  # seen classes come first
        labels = tested.queries.prototypes.classes[order][columns]
        return [
            [Answer(self._class_names[label], 100.0 * p) for label, p in zip(*row, strict=True)]
            for row in zip(labels.tolist(), given.tolist(), strict=True)
        ]

    def _captions(self, place: int) -> list[ExampleCaption]:
        """The captions nearest to the image at this place of the drawn ones, all different."""
        found: dict[bytes, ExampleCaption] = {}
        for number in self._nearest.captions[place].tolist():
            if number < 0:  # the split has fewer captions
                continue
            owner = int(np.searchsorted(self._first, number, side="right")) - 1
            text = self._split.captions[owner][number - self._first[owner]]
            own = bool(owner == self._rows[place])
            if text not in found or own:
                found[text] = ExampleCaption(_as_text(text), self._names[owner], own)
        return list(found.values())[:_CAPTIONS]

    def captions(self, model: Embedder, embedded: EmbeddedSplit) -> list[CaptionExample]:
        """A few captions of different images with the images of the split nearest to them.

        As in the measures of retrieval, the caption's own image comes after equally near ones.
        """
        count = _SEEN_CAPTIONS if self._is_seen else _UNSEEN_CAPTIONS
        draw = np.random.default_rng(self._seed)
        with_captions = np.flatnonzero([bool(own) for own in self._split.captions])
        owners = draw.permutation(with_captions)[:count].tolist()
        if not owners:
            return []
        texts = [
            self._split.captions[row][draw.integers(len(self._split.captions[row]))]
            for row in owners
        ]
        distances = pairwise_distances_numpy(model.embed_texts(texts), embedded.images)
        examples = []
        for owner, text, row in zip(owners, texts, distances, strict=True):
            order = np.lexsort((np.arange(len(row)) == owner, row)).tolist()
            images = [
                FoundImage(str(self._split.image_ids[found]), self._names[found], found == owner)
                for found in order[:_FOUND_IMAGES]
            ]
            examples.append(
                CaptionExample(
                    text=_as_text(text),
                    class_name=self._names[owner],
                    is_seen=self._is_seen,
                    rank=order.index(owner) + 1,
                    among=len(order),
                    images=images,
                )
            )
        return examples


def most_probable(
    images: RankedImages, temperatures: Temperatures, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable classes of N images: (columns, int [N, n]; probabilities, [N, n])."""
    distances = images.distances.astype(np.float64)
    columns = np.argsort(distances, axis=1, kind="stable")[:, :count]
    nearest = np.take_along_axis(distances, columns, axis=1)
    smallest = nearest[:, :1]
    sums = exponential_sums(distances, smallest, temperatures)
    side = images.nearest_is_seen()[:, np.newaxis]
    return columns, probabilities(nearest, smallest, sums, side, temperatures).numpy()


def _as_text(caption: bytes) -> str:
    return caption.decode("utf-8", "replace")
