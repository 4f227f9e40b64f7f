"""The images of the demo: drawn, packed as JPEG, and embedded by a backbone."""

import dataclasses
import io
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from clarel_tf.images.backbones import Backbone
from clarel_tf.images.decoding import decode_pictures
from clarel_tf.images.extractor import BATCH, in_threads

from .world import World, make_instance

_QUALITY = 85  # of the JPEG files, about 6 kB each


@dataclasses.dataclass(frozen=True)
class DemoImage:
    """An image of the dataset.

    Attributes:
      jpeg: the picture as a file.
      features: of that file, float32 [D].
      captions: sentences about it.
    """

    jpeg: bytes
    features: np.ndarray
    captions: list[str]


def make_images(
    world: World, values: Sequence[np.ndarray], backbone: Backbone
) -> dict[int, DemoImage]:
    """The images of a world by their numbers, with a progress bar.

    The features are those of the JPEG, decoded as in extraction and in exports: whoever takes the
    picture out of the dataset and classifies it gets the answer for these features. A batch is the
    work of one thread: while one of them draws, another one runs the network.

    Args:
      values: the values of each image's class, int [attributes].
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def embed(contents: tf.Tensor) -> tf.Tensor:
        return backbone.features(decode_pictures(contents, backbone.input_size)[0])

    def batch(numbers: range) -> dict[int, DemoImage]:
        instances = [make_instance(world, values[number], number) for number in numbers]
        files = [_packed(instance.picture) for instance in instances]
        features = embed(tf.constant(files)).numpy()
        return {
            number: DemoImage(file, row, instance.captions)
            for number, file, row, instance in zip(numbers, files, features, instances, strict=True)
        }

    images: dict[int, DemoImage] = {}
    numbers = range(len(values))
    work = (numbers[start : start + BATCH] for start in range(0, len(values), BATCH))
    with tfds.core.utils.tqdm_utils.tqdm(
        total=len(values), desc="Drawing and embedding", unit=" images"
    ) as bar:
        for _, done in in_threads(batch, work):
            images |= done
            bar.update(len(done))
    return images


def _packed(picture: np.ndarray) -> bytes:
    """The file of a picture, uint8 [height, width, 3]."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()
