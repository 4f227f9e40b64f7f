"""Presets: named sets of settings, which flags can override."""

from typing import Any

from clarel_tf.config import Config
from clarel_tf.errors import ClarelError

PRESETS: dict[str, dict[str, Any]] = {
    # Every value of the paper: the defaults of config.py.
    "paper": {},
    # A short recipe: large batches with few captions, a narrow text tower with mean and maximum
    # pooling, a high learning rate with cosine decay, mixup and the prototype loss. It takes an
    # hour instead of days. docs/lab_notes.md has the experiments.
    "fast": {
        "filters": (64, 128),
        "lstm_units": 128,
        "text_pooling": "mean_max",
        "steps": 7000,
        "equal_passes": True,
        "lambda_": 0.8,
        "alpha_transfer": "offset",
        "head_evidence": 0.5,
        "discriminant_evidence": 0.35,
        "feature_power": 0.5,
        "batch_size": 128,
        "captions": 2,
        "instances_per_class": 4,
        "similar_classes": 1.0,
        "prototype_share": 0.5,
        "mixture_share": 0.5,
        "distance_scale": 2.0,
        "word_dropout": 0.1,
        "optimizer": "adam",
        "learning_rate": 0.002,
        "schedule": "cosine",
        "warmup_steps": 100,
        "operations_at_once": 2,
        "checkpoint_every": 1000,
    },
    # Small enough to train on the demo data in a minute.
    "tiny": {
        "embedding_size": 128,
        "word_size": 64,
        "filters": (32, 64),
        "lstm_units": 64,
        "steps": 600,
        "batch_size": 64,
        "captions": 3,
        "optimizer": "adam",
        "learning_rate": 0.002,
        "schedule": "cosine",
        "warmup_steps": 30,
        "log_every": 25,
        "checkpoint_every": 100,
    },
}


# The presets of datasets; any other dataset is the user's own, and gets `fast`.
DEFAULT_PRESETS = {"demo": "tiny", "cub": "paper", "flowers": "paper"}

# How often `fast` passes over the images of CUB (7,000 batches of 128, 3,753 images of `train`),
# and bounds of the steps that follow from it.
_PASSES = 240
_LEAST_STEPS, _MOST_STEPS = 1_000, 30_000


def default_preset(dataset: str) -> str:
    """The name of the preset that a dataset is trained with if none is named."""
    return DEFAULT_PRESETS.get(dataset, "fast")


def scaled_to(config: Config, images: int) -> Config:
    """The config with steps for so many training images: the passes of `fast` on CUB, in bounds."""
    steps = round(_PASSES * images / config.training.batch_size)
    return config.override({"steps": min(max(steps, _LEAST_STEPS), _MOST_STEPS)})


def batch_for(config: Config, images: int) -> Config:
    """The config with a batch that few training images can fill: at most a power of two of them."""
    if config.training.batch_size <= images or not images:
        return config
    return config.override({"batch_size": 1 << (images.bit_length() - 1)})


def preset(name: str) -> Config:
    """The config of a named preset.

    Example:

    >>> clarel_tf.preset("fast").training.batch_size
    128
    """
    if name not in PRESETS:
        raise ClarelError(f"unknown preset {name!r}; choose one of: {', '.join(PRESETS)}")
    return Config().override(PRESETS[name])
