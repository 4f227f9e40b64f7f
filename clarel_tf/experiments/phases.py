"""The training phases of a run: which images each of them sees, and for how many steps."""

from typing import NamedTuple

import numpy as np

from clarel_tf.config import Config
from clarel_tf.data.pictures import JoinedPictures
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
    parts: list[Split] = []
    known = np.array([], dtype=str)
    names = list(dict.fromkeys(("trainval", "test_seen", "test_unseen", *SPLITS)))
    for name in names:
        parts.append(splits[name].select(~np.isin(splits[name].image_ids, known)))
        known = np.concatenate([known, parts[-1].image_ids])
    return Split(
        "all",
        known,
        np.concatenate([part.image_features for part in parts]),
        np.concatenate([part.labels for part in parts]),
        [own for part in parts for own in part.captions],
        # Those of a class are the same in every split that has them.
        {key: own for split in splits.values() for key, own in split.descriptions.items()},
        splits["trainval"].data_dir,
        splits["trainval"].backbone,
        JoinedPictures.of(splits[name] for name in names),
    )
