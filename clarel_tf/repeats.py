"""The same experiment with several seeds: mean and 95 % interval of each measure."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from clarel_tf import files
from clarel_tf.config import Config
from clarel_tf.dataset_loading import Split
from clarel_tf.distribution import Distribution
from clarel_tf.experiment import follow_experiment, run_experiment


def run_repeats(
    config: Config,
    splits: dict[str, Split],
    run_dir: str | Path,
    repeats: int,
    class_names: Sequence[str] | None = None,
    restart: bool = False,
    distribution: Distribution | None = None,
) -> dict[str, Any]:
    """Runs seeds `config.seed`, `config.seed` + 1, ... each in a folder of its own, and sums up.

    What is finished is not run again, so a broken series goes on where it stopped.
    """
    runs = []
    for one in _with_seeds(config, repeats):
        print(f"Repeat {len(runs) + 1} of {repeats}, seed {one.seed}")
        folder = Path(run_dir) / f"seed_{one.seed}"
        runs.append(run_experiment(one, splits, folder, class_names, restart, distribution))
    summary = summarize(runs)
    files.write_json(Path(run_dir) / "repeats.json", summary)
    return summary


def follow_repeats(
    config: Config, splits: dict[str, Split], repeats: int, distribution: Distribution
) -> None:
    """The part of a worker that is not the chief in `run_repeats`."""
    for one in _with_seeds(config, repeats):
        follow_experiment(one, splits, distribution)


def _with_seeds(config: Config, repeats: int) -> list[Config]:
    seeds = range(config.seed, config.seed + repeats)
    return [config.override({"seed": seed}) for seed in seeds]


def summarize(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and 95 % interval (Student's t) of the measures of several `results.json`."""
    measures = {
        name: mean_and_interval([value(run) for run in runs])
        for name, value in {
            "zsl": lambda run: run["zsl"]["top1"],
            **{f"alpha0_{key}": lambda run, key=key: run["gzsl_alpha0"][key] for key in "ush"},
            **{key: lambda run, key=key: run["gzsl"][key] for key in "ush"},
            "ausuc": lambda run: run["ausuc"],
            "alpha": lambda run: run["alpha"],
        }.items()
    }
    first = runs[0]
    about = {key: first[key] for key in ("dataset", "dataset_config", "protocol", "steps")}
    return {**about, "seeds": [run["seed"] for run in runs], "measures": measures}


def mean_and_interval(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, and half the width of the 95 % interval of the mean (None for a single value)."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return {"mean": mean, "interval": None}
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return {"mean": mean, "interval": float(scipy.stats.t.ppf(0.975, len(values) - 1)) * spread}


def repeats_table(summary: dict[str, Any]) -> str:
    """The summary as text."""
    seeds = summary["seeds"]
    lines = [f"{len(seeds)} repeats, seeds {seeds[0]} to {seeds[-1]}; mean and 95 % interval", ""]
    for name, value in summary["measures"].items():
        interval = "" if value["interval"] is None else f" +- {value['interval']:.2f}"
        lines.append(f"  {name:12}{value['mean']:8.2f}{interval}")
    return "\n".join(lines)
