"""The training phases of a run: which images each of them sees, and for how many steps."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from clarel_tf.config import Config
from clarel_tf.data.schema import SPLITS
from clarel_tf.data.split import Split

FINAL_CHOICES = ("none", "all")


class Phase(NamedTuple):
    """One phase.

    Attributes:
      split: the images that it trains on.
      config: the run's config with the steps of this phase.
      title: of the progress bar.
      later_steps: steps of the phases after this one.
    """

    split: Split
    config: Config
    title: str
    later_steps: int


def phases_of(config: Config, splits: dict[str, Split], final: str = "none") -> list[Phase]:
    """The phases `train` and `trainval`, and with final="all" a last one on all images."""
    found = [(splits[name], phase_config(config, splits, name)) for name in ("train", "trainval")]
    if final == "all":
        everything = all_images(splits)
        found.append((everything, _final_config(config, splits, everything)))
    steps = [of_phase.training.steps for _, of_phase in found]
    return [
        Phase(split, of_phase, f"{i + 1}/{len(found)} {split.name}", sum(steps[i + 1 :]))
        for i, (split, of_phase) in enumerate(found)
    ]


def phase_config(config: Config, splits: dict[str, Split], split: str) -> Config:
    """The config for training on `split`: the second phase may need more steps.

    Alpha is chosen with the model of the first phase, and serves that of the second. It fits both
    if both have seen their images equally often.
    """
    if not config.training.equal_passes:
        return config
    steps = round(config.training.steps * len(splits[split]) / len(splits["train"]))
    return config.override({"steps": max(steps, config.training.warmup_steps + 1)})


def _final_config(config: Config, splits: dict[str, Split], everything: Split) -> Config:
    """As many passes over all images as the second phase makes over `trainval`."""
    before = phase_config(config, splits, "trainval").training
    more = len(everything) / len(splits["trainval"])
    decay_every = max(1, round(before.decay_every * more))
    return config.override({"steps": round(before.steps * more), "decay_every": decay_every})


def all_images(splits: dict[str, Split]) -> Split:
    """Every image of every split, once, as the split `all`."""
    whole = [
        splits[name] for name in dict.fromkeys(("trainval", "test_seen", "test_unseen", *SPLITS))
    ]
    parts: list[Split] = []
    known = np.array([], dtype=str)
    for split in whole:
        parts.append(split.select(~np.isin(split.image_ids, known)))
        known = np.concatenate([known, parts[-1].image_ids])
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Split):
        of_parts = [getattr(part, field.name) for part in parts]
        if isinstance(of_parts[0], np.ndarray):
            values[field.name] = np.concatenate(of_parts)
        elif isinstance(of_parts[0], list):
            values[field.name] = [row for rows in of_parts for row in rows]
        elif isinstance(of_parts[0], dict):
            # By class: what is known of a class without images belongs to no image.
            of_whole = [getattr(split, field.name) for split in whole]
            values[field.name] = {key: row for rows in of_whole for key, row in rows.items()}
        else:
            values[field.name] = of_parts[0]
    return Split(**values | {"name": "all"})
