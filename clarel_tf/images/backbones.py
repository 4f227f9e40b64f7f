"""`Backbone`, a network that turns pixels into features, with all that belongs to it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord

Network = Callable[[tf.Tensor], tf.Tensor]


class Views(NamedTuple):
    """What of a picture the network sees.

    Attributes:
      mirrored: also its mirror image; the features are the mean of both.
      cropped: only the middle, seven eighths of the height and of the width.
    """

    mirrored: bool = True
    cropped: bool = False


class Backbone:
    """A frozen network with its preprocessing inside.

    Attributes:
      record: which network it is, to be stored beside its features.
      input_size: height and width of the pixels that `features` takes. A cropping backbone takes
        more than its network.

    Example:

    >>> from clarel_tf.images.loading import load_backbone
    >>> backbone = load_backbone()
    >>> backbone.input_size, backbone.feature_width
    (320, 1280)
    >>> backbone.features(tf.zeros([1, 320, 320, 3])).shape
    TensorShape([1, 1280])
    """

    def __init__(
        self,
        name: str,
        weights_sha256: str,
        input_size: int,
        preprocessing: str,
        network: Network,
        views: Views = Views(),
        resources: Sequence[Any] = (),
    ):
        """Runs the network once, on a black picture, and refuses one that gives no features.

        Args:
          network: pixels [B, S, S, 3], float32 from 0 to 255, to features [B, D] or to a map
            [B, h, w, D], over which the mean is taken.
          resources: what a Keras `ExportArchive` must track.
        """
        self._network, self._views, self._resources = network, views, list(resources)
        self._margin = input_size // 14 if views.cropped else 0
        self.input_size = input_size + 2 * self._margin
        try:
            probe = self.features(tf.zeros([1, self.input_size, self.input_size, 3]))
        except ClarelError as error:
            raise ClarelError(f"backbone {name}: {error}") from error
        if not np.isfinite(probe.numpy()).all():
            raise ClarelError(f"backbone {name} gives NaN or infinity for a black picture")
        self.record = BackboneRecord(
            name,
            weights_sha256,
            input_size,
            preprocessing,
            views.mirrored,
            int(probe.shape[1]),
            cropped=views.cropped,
        )

    @property
    def feature_width(self) -> int:
        return self.record.feature_width

    def features(self, pixels: tf.Tensor) -> tf.Tensor:
        """Features of B pictures, float32 [B, D].

        Args:
          pixels: float32 [B, input_size, input_size, 3] from 0 to 255, as `decode_pictures` gives
            them.
        """
        if margin := self._margin:
            pixels = pixels[:, margin:-margin, margin:-margin]
        if not self._views.mirrored:
            return self._pooled(pixels)
        both = self._pooled(tf.concat([pixels, tf.reverse(pixels, [2])], 0))
        plain, mirrored = tf.split(both, 2)
        return (plain + mirrored) / 2

    def export_resources(self) -> list[Any]:
        """What a Keras `ExportArchive` must track besides the weights that a trace finds."""
        return self._resources

    def _pooled(self, pixels: tf.Tensor) -> tf.Tensor:
        found = self._network(pixels)
        if not tf.is_tensor(found) or found.shape.rank not in (2, 4) or not found.dtype.is_floating:
            shown = getattr(found, "shape", type(found).__name__)
            raise ClarelError(
                f"the network gives {shown}, not features [B, D] or a map [B, h, w, D] of floats"
            )
        found = tf.cast(found, tf.float32)
        return tf.reduce_mean(found, [1, 2]) if found.shape.rank == 4 else found
