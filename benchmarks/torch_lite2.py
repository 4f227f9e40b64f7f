"""EfficientNet-Lite2 in PyTorch, with the same weights, for a comparison of speed."""

import math

import numpy as np
import torch
from torch import nn

from clarel_tf.images import efficientnet_lite2 as lite2
from clarel_tf.images.torch_weights import read_torch_weights


class Same(nn.Module):
    """A convolution with the padding of TensorFlow, batch norm folded in."""

    def __init__(self, kernel, bias, stride, depthwise, activation):
        super().__init__()
        self.kernel = nn.Parameter(kernel.contiguous(memory_format=torch.channels_last))
        self.bias = nn.Parameter(bias)
        self.stride, self.activation = stride, activation
        self.groups = kernel.shape[0] if depthwise else 1

    def forward(self, x):
        size = self.kernel.shape[2]
        whole = max((math.ceil(x.shape[2] / self.stride) - 1) * self.stride + size - x.shape[2], 0)
        padding = whole // 2
        if whole % 2:
            x = nn.functional.pad(x, [padding, padding + 1] * 2)
            padding = 0
        x = nn.functional.conv2d(
            x, self.kernel, self.bias, self.stride, padding, groups=self.groups
        )
        return nn.functional.relu6(x, inplace=True) if self.activation else x


class TorchLite2(nn.Module):
    """Pixels [B, 3, S, S] from 0 to 255 to features [B, 1280].

    If `mirrored`, the features are the mean over a picture and its mirror image.
    """

    def __init__(self, mirrored=False):
        super().__init__()
        self.mirrored = mirrored
        self.arrays = read_torch_weights(lite2.weights_path(), lite2.WEIGHTS_SHA256)
        self.stem = self._layer("_conv_stem", "_bn0", 2)
        blocks, number, filters = [], 0, lite2._STEM
        for stage, (_, stride, expansion, width, repeats) in enumerate(lite2._STAGES):
            if 0 < stage < len(lite2._STAGES) - 1:
                repeats = math.ceil(repeats * lite2._DEPTH)
            for repeat in range(repeats):
                steps, name = (stride if repeat == 0 else 1), f"_blocks.{number}."
                layers = []
                if expansion > 1:
                    layers.append(self._layer(f"{name}_expand_conv", f"{name}_bn0"))
                layers.append(self._layer(f"{name}_depthwise_conv", f"{name}_bn1", steps, True))
                layers.append(self._layer(f"{name}_project_conv", f"{name}_bn2", activation=False))
                out = lite2._scaled(width)
                blocks.append((nn.Sequential(*layers), steps == 1 and filters == out))
                filters, number = out, number + 1
        self.blocks = nn.ModuleList(block for block, _ in blocks)
        self.residual = [residual for _, residual in blocks]
        self.head = self._layer("_conv_head", "_bn1")
        self.eval()

    def _layer(self, name, norm, stride=1, depthwise=False, activation=True):
        arrays = {key: np.asarray(value) for key, value in self.arrays.items()}
        scale = arrays[f"{norm}.weight"] / np.sqrt(arrays[f"{norm}.running_var"] + lite2._EPSILON)
        bias = arrays[f"{norm}.bias"] - arrays[f"{norm}.running_mean"] * scale
        kernel = arrays[f"{name}.weight"] * scale[:, None, None, None]
        parts = torch.from_numpy(kernel), torch.from_numpy(bias)
        return Same(*parts, stride, depthwise, activation)

    def forward(self, pixels):
        if not self.mirrored:
            return self.features(pixels)
        both = torch.cat([pixels, pixels.flip(3)]).contiguous(memory_format=torch.channels_last)
        plain, mirrored = self.features(both).chunk(2)
        return (plain + mirrored) / 2

    def features(self, pixels):
        x = self.stem((pixels - 127) / 128)
        for block, residual in zip(self.blocks, self.residual, strict=True):
            x = block(x) + x if residual else block(x)
        return self.head(x).mean([2, 3])
