"""Records of single classes, images and captions, for people who want to see what was measured.

All measures are in percent unless their name says otherwise. Fields with a default are lacking in
files of older versions.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ClassMeasures:
    """A class with test images.

    Attributes:
      training_images: of the class in `trainval`.
      sentences: in its prototype.
      images: of the test.
      accuracy: percent of these images that are given to the class.
      precision: percent of the test images given to the class that are its own; None if there are
        none.
      mistaken_for: the class that most of its other images are given to; None if all are right.
      mistaken_percent: of its images, that are given to that class.
    """

    name: str
    is_seen: bool
    training_images: int
    sentences: int
    images: int
    accuracy: float
    precision: float | None
    mistaken_for: str | None
    mistaken_percent: float


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Images of the class `true` that are given to the class `predicted`.

    Attributes:
      percent: of the true class's images.
      percent_back: of the other class's test images, given to the true one; None without any.
      true_is_seen, predicted_is_seen: whether the model was trained on these classes.
      images: ids of some of these images.
      predicted_images: ids of some images of the class that they are given to.
    """

    true: str
    predicted: str
    percent: float
    percent_back: float | None = None
    true_is_seen: bool = False
    predicted_is_seen: bool | None = None
    images: list[str] = dataclasses.field(default_factory=list)
    predicted_images: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class ExampleCaption:
    """A caption near to an image; `own` if it is one of the image's captions."""

    text: str
    class_name: str
    own: bool


@dataclasses.dataclass(frozen=True)
class Answer:
    """A class with its probability, in percent."""

    class_name: str
    probability: float


@dataclasses.dataclass(frozen=True)
class Example:
    """An image with its class, the class that it was given to, and the nearest captions.

    Attributes:
      is_seen: whether the model was trained on the image's class.
      answers: the most probable classes, the answer first.
      accepted: whether the threshold of rejection accepts the image; None without a threshold.
      predicted_image: id of an image of the class that a wrong answer names.
    """

    image_id: str
    class_name: str
    predicted: str
    right: bool
    captions: list[ExampleCaption]
    is_seen: bool = False
    answers: list[Answer] = dataclasses.field(default_factory=list)
    accepted: bool | None = None
    predicted_image: str | None = None


@dataclasses.dataclass(frozen=True)
class FoundImage:
    """An image near to a caption; `own` if it is the image that the caption describes."""

    image_id: str
    class_name: str
    own: bool


@dataclasses.dataclass(frozen=True)
class CaptionExample:
    """A caption with the nearest images of its split.

    Attributes:
      class_name: of the caption's own image.
      is_seen: whether the model was trained on that class.
      rank: of the caption's own image among all images of the split, from 1.
      among: number of images of the split.
    """

    text: str
    class_name: str
    is_seen: bool
    rank: int
    among: int
    images: list[FoundImage]
