"""The same experiment with several seeds: mean and 95 % interval of each measure."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.evaluation.records import Results
from clarel_tf.experiments.ensemble_run import run_ensemble
from clarel_tf.experiments.experiment import follow_experiment, run_experiment
from clarel_tf.experiments.run_folder import holds_older_runs
from clarel_tf.experiments.training_phase import MakeTowers
from clarel_tf.reporting.results_table import number
from clarel_tf.reporting.statistics import MeanAndInterval, mean_and_interval
from clarel_tf.storage import files, ownership
from clarel_tf.storage.records import without_nan
from clarel_tf.training.distributed.distribution import Distribution

_OWN_NAMES = re.compile(r"repeats\.json|seed_\d+(\.old-\d+)?|ensemble(\.old-\d+)?")


_MEASURES: dict[str, Callable[[Results], float]] = {
    "zsl": lambda run: run.zsl.top1,
    "alpha0_u": lambda run: run.gzsl_alpha0.u,
    "alpha0_s": lambda run: run.gzsl_alpha0.s,
    "alpha0_h": lambda run: run.gzsl_alpha0.h,
    "u": lambda run: run.gzsl.u,
    "s": lambda run: run.gzsl.s,
    "h": lambda run: run.gzsl.h,
    "ausuc": lambda run: run.ausuc,
    "alpha": lambda run: run.alpha,
}


@dataclasses.dataclass(frozen=True)
class RepeatsSummary:
    """`repeats.json`: the measures of several seeds.

    Attributes:
      ensemble: the same measures of the ensemble of all seeds, if there is one.
    """

    dataset: str
    dataset_config: str
    protocol: str
    steps: int
    seeds: list[int]
    measures: dict[str, MeanAndInterval]
    ensemble: dict[str, float] | None = None


def run_repeats(
    config: Config,
    splits: dict[str, Split],
    run_dir: str | Path,
    repeats: int,
    class_names: Sequence[str] | None = None,
    restart: bool = False,
    distribution: Distribution | None = None,
    ensemble: bool = False,
    make_towers: MakeTowers | None = None,
) -> RepeatsSummary:
    """Runs seeds `config.seed`, `config.seed` + 1, ... each in its own folder, and summarises them.

    What is finished is not run again, so a broken series continues where it stopped.

    Args:
      ensemble: test the ensemble of all seeds as well, in the folder `ensemble`.
      make_towers: makes the towers of each seed, see `run_experiment`.
    """
    ownership.make(Path(run_dir), "series of repeats", "run_dir", _is_older)
    runs: list[Results] = []
    folders: list[Path] = []
    for one in _with_seeds(config, repeats):
        print(f"Repeat {len(runs) + 1} of {repeats}, seed {one.seed}")
        folders.append(Path(run_dir) / f"seed_{one.seed}")
        results = run_experiment(
            one, splits, folders[-1], class_names, restart, distribution, make_towers
        )
        runs.append(results)
    summary = summarize(runs)
    if ensemble:
        folder = Path(run_dir) / "ensemble"
        together = run_ensemble(config, splits, folder, folders, class_names, restart)
        of_ensemble = {name: value(together) for name, value in _MEASURES.items()}
        summary = dataclasses.replace(summary, ensemble=of_ensemble)
    files.write_json(Path(run_dir) / "repeats.json", without_nan(dataclasses.asdict(summary)))
    return summary


def follow_repeats(
    config: Config,
    splits: dict[str, Split],
    repeats: int,
    distribution: Distribution,
    make_towers: MakeTowers | None = None,
    final: str = "none",
) -> None:
    """Runs `run_repeats` or `run_experiment` on a worker that is not the chief."""
    for one in _with_seeds(config, repeats):
        follow_experiment(one, splits, distribution, make_towers, final)


def _is_older(folder: Path) -> bool:
    return holds_older_runs(folder, _OWN_NAMES)


def _with_seeds(config: Config, repeats: int) -> list[Config]:
    seeds = range(config.seed, config.seed + repeats)
    return [config.override({"seed": seed}) for seed in seeds]


def summarize(runs: Sequence[Results]) -> RepeatsSummary:
    """Mean and 95 % interval (Student's t) of the measures of several runs."""
    measures = {
        name: mean_and_interval([value(run) for run in runs]) for name, value in _MEASURES.items()
    }
    first = runs[0]
    return RepeatsSummary(
        first.dataset,
        first.dataset_config,
        first.protocol,
        first.steps,
        [run.seed for run in runs],
        measures,
    )


def repeats_table(summary: RepeatsSummary) -> str:
    """The summary as text."""
    seeds = summary.seeds
    lines = [f"{len(seeds)} repeats, seeds {seeds[0]} to {seeds[-1]}; mean and 95 % interval", ""]
    together = summary.ensemble
    if together:
        lines[1:] = ["The last column is their ensemble.", ""]
    for name, value in summary.measures.items():
        interval = "" if value.interval is None else f" +- {number(value.interval, 2)}"
        beside = f"{number(together[name], 2):>8}" if together else ""
        lines.append(f"  {name:12}{number(value.mean, 2):>8}{interval:12}{beside}".rstrip())
    return "\n".join(lines)
