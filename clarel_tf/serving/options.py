"""What a request to classify asks for: its inputs, and what its answer must fit."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clarel_tf.data.schema import alike
from clarel_tf.errors import ClarelError
from clarel_tf.serving.calls import ServingError
from clarel_tf.serving.new_class_answers import NEW_CLASS_OUTPUTS
from clarel_tf.serving.parts import Images, as_texts
from clarel_tf.serving.versions import CLASSIFY_WITH_OPTIONS, OF_PICTURES

# A new class with a smaller share of known words gets a warning. Of the sentences of CUB's
# validation classes, one in a thousand is below (docs/serving.md).
LOW_KNOWN_SHARE = 0.8
_LARGEST_K = (1 << 31) - 1

Inputs = dict[str, np.ndarray | Sequence[str] | Sequence[bytes]]


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of one request; see `ServingClient.classify`.

    Attributes:
      sentences, class_names: the sentences of new classes, and the class of each.
    """

    alpha: float | None
    k: int | None
    among: list[str]
    sentences: list[str]
    class_names: list[str]
    replaces: list[str]
    extends: list[str]
    threshold: float | None

    @classmethod
    def checked(
        cls,
        alpha: float | None,
        new_classes: Mapping[str, Sequence[str | bytes]] | None,
        k: int | None,
        among: Iterable[str] | None,
        replaces: Iterable[str],
        extends: Iterable[str],
        threshold: float | None = None,
    ) -> "Options":
        """The options, or a ClarelError that names the first one that cannot be meant."""
        described = []
        if new_classes is not None and not isinstance(new_classes, Mapping):
            raise ClarelError(
                "new_classes must be a dictionary of class names and lists of sentences"
            )
        for key, own in (new_classes or {}).items():
            (name,) = as_texts([key], "new_classes")
            if not name.strip():
                raise ClarelError("new_classes has a class without a name")
            texts = as_texts(own, f"the new class {name!r}")
            if not texts:
                raise ClarelError(f"the new class {name!r} has no sentence")
            described += [(name, text) for text in texts]
        refuse_alike(list(dict.fromkeys(name for name, _ in described)))
        options = cls(
            None if alpha is None else checked_alpha(alpha),
            None if k is None else checked_k(k),
            [] if among is None else as_texts(among, "among"),
            [text for _, text in described],
            [name for name, _ in described],
            as_texts(replaces, "replaces"),
            as_texts(extends, "extends"),
            None if threshold is None else checked_threshold(threshold),
        )
        if among is not None and not options.among:
            raise ClarelError("among has no class; name some, or leave it out to offer all classes")
        for option in ("replaces", "extends"):
            for name in getattr(options, option):
                if name not in options.class_names:
                    raise ClarelError(
                        f"{option} names {name!r}, but new_classes has no such class; give the "
                        "sentences for it there"
                    )
        return options

    @property
    def names(self) -> list[str]:
        """The new classes in the order of the answer."""
        return list(dict.fromkeys(self.class_names))

    @property
    def is_only_new_classes(self) -> bool:
        """True if older exports can answer too, though with less."""
        others = self.among or self.replaces or self.extends or self.threshold is not None
        return bool(self.sentences) and self.alpha is None and self.k is None and not others

    def without_validation(self) -> str:
        """What an answer of a run without validation images cannot say, in one sentence."""
        lacking = [] if self.alpha is not None else ["alpha is 0"]
        lacking.append("probabilities are not calibrated")
        if self.threshold is None:
            lacking.append("every image is accepted, because there is no threshold")
        return f"the run had no validation images: {', '.join(lacking)}"

    def request(self, images: Images) -> tuple[str, Inputs]:
        """The signature and its inputs for N images, as `as_images` gives them."""
        [count] = map(len, images.values())
        name, others = self._of_features(count)
        if "image_bytes" in images:
            name = OF_PICTURES["prototype_classifier"][name]
        return name, {**images, **others}

    def _of_features(self, count: int) -> tuple[str, Inputs]:
        """The signature for the features of so many images, and its other inputs."""
        plain = not (self.sentences or self.among or self.k) and self.threshold is None
        if plain and self.alpha is None:
            return "serving_default", {}
        own = 0 if self.alpha is None else count
        inputs: Inputs = {"alpha": np.full(own, self.alpha or 0.0, np.float32)}
        if plain:
            return "classify_with_alpha", inputs
        inputs["k"] = np.full(count if self.k else 0, self.k or 0, np.int32)
        own = 0 if self.threshold is None else count
        inputs["threshold"] = np.full(own, self.threshold or 0.0, np.float32)
        texts = ("among", "sentences", "class_names", "replaces", "extends")
        return CLASSIFY_WITH_OPTIONS, inputs | {name: getattr(self, name) for name in texts}

    def request_of_older(self, images: Images) -> tuple[str, Inputs]:
        """The same for an export without `classify_with_options`."""
        texts = {"sentences": self.sentences, "class_names": self.class_names}
        return "classify_with_new_classes", {**images, **texts}

    def fitted(self, answer: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The answer without what was not asked for; ServingError if it is for another request."""
        outputs = {name: answer[name] for name in answer if name not in NEW_CLASS_OUTPUTS}
        table = answer["class_name"]
        if not len(table):
            return outputs
        if self.k and table.shape[1] > self.k:
            raise ServingError(f"the answer has {table.shape[1]} classes, but k is {self.k}")
        if self.among and (strangers := {*table.ravel()} - {*self.among, *self.names}):
            raise ServingError(f"the answer has {min(strangers)!r:.40}, which is not on offer")
        if not self.sentences:
            return outputs
        if absent := [name for name in NEW_CLASS_OUTPUTS if name not in answer]:
            raise ServingError(f"the answer lacks {', '.join(absent)}; is this a clarel_tf export?")
        if any(row != self.names for row in answer["new_class_name"].tolist()):
            raise ServingError("the answer is for other new classes than those of the request")
        new = {name: answer[name] for name in NEW_CLASS_OUTPUTS}
        return outputs | new | {"new_class_rank": new["new_class_rank"].astype(np.int64)}


def refuse_alike(names: Sequence[str], where: str = "") -> None:
    """Raises ClarelError for two new classes whose names differ only in case or spaces.

    Args:
      where: the names are from, for the message.
    """
    for first, second in alike(names):
        raise ClarelError(
            f"{where}the new classes {names[first]!r} and {names[second]!r} differ only in case or "
            "spaces; give all sentences of one class the same name, or rename one of them"
        )


def checked_alpha(alpha: Any, name: str = "alpha") -> float:
    """`alpha`, if it can rescale distances; the message calls it `name`."""
    is_number = isinstance(alpha, (int, float, np.number)) and not isinstance(alpha, bool)
    if not is_number or not math.isfinite(alpha) or np.float32(alpha) <= -1:
        raise ClarelError(
            f"{name} must be a number above -1, not {alpha!r}: distances to seen classes are "
            "multiplied by 1 + alpha"
        )
    return float(alpha)


def checked_threshold(threshold: Any, name: str = "threshold") -> float:
    """`threshold`, if a strangeness can be compared with it; the message calls it `name`."""
    is_number = isinstance(threshold, (int, float, np.number)) and not isinstance(threshold, bool)
    if not is_number or not math.isfinite(np.float32(threshold)):
        raise ClarelError(f"{name} must be a finite number, not {threshold!r}")
    return float(threshold)


def checked_k(k: Any) -> int:
    """`k`, the number of classes in an answer, if it can be one."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ClarelError(f"k, the number of classes in an answer, must be 1 or more, not {k!r}")
    return min(int(k), _LARGEST_K)


def warnings_of(answer: Mapping[str, np.ndarray]) -> dict[str, str]:
    """A warning for each new class with too many unknown words, by its name."""
    if not len(answer.get("new_class_name", ())):
        return {}
    shares = zip(answer["new_class_name"][0], answer["new_class_known_words"][0], strict=True)
    return {
        name: f"the model knows only {100 * share:.0f} % of the words of the new class {name!r}, "
        "so its distance says little; describe it in words of the training captions"
        for name, share in shares
        if share < LOW_KNOWN_SHARE
    }
