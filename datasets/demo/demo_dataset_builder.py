"""The demo dataset: drawn birds with the splits of the real datasets."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.builders import OptionalConfigs
from clarel_tf.data.embedding_builds import EmbeddingBuild
from clarel_tf.data.schema import example_features, make_example

from . import world as demo_world

TRAIN_CLASSES, VALIDATION_CLASSES, UNSEEN_CLASSES = 50, 15, 15
SEEN_CLASSES = TRAIN_CLASSES + VALIDATION_CLASSES
FEATURE_WIDTH = 1280  # of EfficientNet-Lite2


@dataclasses.dataclass(eq=False)
class DemoConfig(tfds.core.BuilderConfig):
    """How many images each class has, and how large they are for the backbone.

    Attributes:
      trained: images of a seen class in `trainval`.
      tested: those in `test_seen`.
      held_out: those that only the validation splits have.
      unseen: images of an unseen class.
      input_size: pixels of an image for the backbone.
    """

    trained: int = 24
    tested: int = 36
    held_out: int = 20
    unseen: int = 140
    input_size: int = 160

    def labels(self) -> np.ndarray:
        """The class of each image, int [N]."""
        seen = self.trained + self.tested + self.held_out
        counts = [seen] * SEEN_CLASSES + [self.unseen] * UNSEEN_CLASSES
        return np.repeat(np.arange(len(counts)), counts)


DEFAULT = DemoConfig(name="default")


class Builder(EmbeddingBuild, OptionalConfigs, tfds.core.GeneratorBasedBuilder):
    """Draws and embeds the demo dataset; nothing is downloaded."""

    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES = {
        "1.0.0": "First release.",
        "2.0.0": "Drawn pictures, embedded by EfficientNet-Lite2; more images for tests.",
    }
    OPTIONAL_CONFIGS = [
        DemoConfig(
            name="small",
            description="Few and small images, for tests of the programs.",
            trained=10,
            tested=3,
            held_out=2,
            unseen=10,
            input_size=96,
        )
    ]

    @property
    def _config(self) -> DemoConfig:
        return self.builder_config or DEFAULT

    def _info(self) -> tfds.core.DatasetInfo:
        classes = _classes()
        names = [demo_world.class_name(i, values) for i, values in enumerate(classes, start=1)]
        return self.dataset_info_from_configs(
            features=example_features(names, FEATURE_WIDTH), supervised_keys=None
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        del dl_manager
        # TensorFlow's network is made only for a build.
        from clarel_tf.images.loading import load_backbone

        from .images import make_images

        labels = self._config.labels()
        backbone = load_backbone(input_size=self._config.input_size, mirrored=False)
        self.made_by = backbone.record
        images = make_images(demo_world.World(), _classes()[labels], backbone)
        members = split_members(self._config)
        return {
            name: self._generate_examples(numbers, labels, images, members["test_seen"])
            for name, numbers in members.items()
        }

    def _generate_examples(self, numbers, labels, images, test_seen) -> Iterator[tuple[int, dict]]:
        for number, is_test in zip(
            numbers.tolist(), np.isin(numbers, test_seen).tolist(), strict=True
        ):
            image = images[number]
            image_id, label = f"demo_{number:05d}", int(labels[number])
            yield (
                number,
                make_example(image_id, image.features, image.captions, label, is_test, image.jpeg),
            )


def _classes() -> np.ndarray:
    """The values of all classes, int [classes, attributes]."""
    return demo_world.make_classes(demo_world.World(), SEEN_CLASSES + UNSEEN_CLASSES)


def split_members(config: DemoConfig) -> dict[str, np.ndarray]:
    """Image numbers of each split, related to each other as in the public zero-shot splits.

    As there, a fifth of `train` is in `test_seen`, and so are images of the validation splits. The
    clean protocol takes them out. Other than there, some images are for validation alone, so that
    it has enough of them.
    """
    rng = np.random.default_rng(20)
    labels = config.labels()
    seen = np.flatnonzero(labels < SEEN_CLASSES).reshape(SEEN_CLASSES, -1)
    seen = rng.permuted(seen, axis=1)
    test, trainval, held_out = np.split(seen, np.cumsum([config.tested, config.trained]), axis=1)
    fifth = round(config.trained / 5)
    own, tested = trainval[:TRAIN_CLASSES], test[:TRAIN_CLASSES]
    members = {
        "train": np.hstack([own[:, fifth:], tested[:, :fifth]]),
        "val_seen": np.hstack(
            [own[:, :fifth], held_out[:TRAIN_CLASSES], tested[:, fifth:][:, :fifth]]
        ),
        "val_unseen": seen[TRAIN_CLASSES:],
        "trainval": trainval,
        "test_seen": test,
        "test_unseen": np.flatnonzero(labels >= SEEN_CLASSES),
    }
    return {name: np.sort(numbers, axis=None) for name, numbers in members.items()}
