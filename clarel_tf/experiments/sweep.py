"""The runs of a grid: their configs, and a table with one row for each finished run."""

import csv
import io
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clarel_tf.config import Config, settings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.records import Results, Selection
from clarel_tf.experiments.run_data import BEGIN_ANEW
from clarel_tf.experiments.run_folder import RunFolder, holds_older_runs
from clarel_tf.reporting.sweep_report import MEASURES, REPEATED
from clarel_tf.storage import checksums, files, ownership

_OWN_NAMES = re.compile(r"configs|sweep\.csv|(validation|ablation)\.md|[^/]*\.png")


def parse_grid(items: Sequence[str]) -> dict[str, list[Any]]:
    """`["kappa=0,0.5,1", "seed=0,1"]` -> {"kappa": [0, 0.5, 1], "seed": [0, 1]}.

    Values are JSON where they can be (numbers, true, false, lists), else text. `lambda` stands for
    the setting `lambda_`.
    """
    grid: dict[str, list[Any]] = {}
    for item in items:
        name, _, values = item.partition("=")
        name = "lambda_" if name == "lambda" else name
        if not values or name in grid:
            raise ClarelError(f"--grid={item}: expected NAME=VALUE,VALUE,... and each name once")
        grid[name] = _as_values(values)
    if not grid:
        raise ClarelError("the grid is empty: give at least one --grid=NAME=VALUE,VALUE,...")
    return grid


def _as_values(text: str) -> list[Any]:
    try:  # commas also separate the items of a list
        values = json.loads(f"[{text}]")
    except ValueError:
        values = [_as_value(value) for value in text.split(",")]
    return [tuple(value) if isinstance(value, list) else value for value in values]


def _as_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _in_name(value: Any) -> str:
    text = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text.replace("/", "_")


def grid_configs(
    base: Config, grid: dict[str, list[Any]], one_at_a_time: bool = False
) -> dict[str, Config]:
    """The config of every point of the grid, by the name of its folder.

    Args:
      one_at_a_time: vary each setting alone, with the others as in `base`, instead of combining
        all values; every seed and class division is combined with all of them even so.
    """
    configs: dict[str, Config] = {}
    for point in _around(base, grid) if one_at_a_time else _combined(grid):
        name = ",".join(f"{key}={_in_name(value)}" for key, value in point.items())
        config = base.override(point)
        if configs.setdefault(name, config) != config:
            raise ClarelError(
                f"two points of the grid would share the folder {name!r}; rename a file"
            )
    return configs


def _combined(grid: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _around(base: Config, grid: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Points on the axes through `base`, with its kinds of numbers: a point has one name."""
    centre = {key: value_of(base, key) for key in grid}
    for repetition in _combined({key: grid[key] for key in REPEATED if key in grid}):
        for key in compared(grid):
            for value in grid[key]:
                config = base.override(centre | {key: value} | repetition)
                yield {name: value_of(config, name) for name in grid}


def compared(grid: dict[str, list[Any]]) -> list[str]:
    """The settings of a grid that are compared with each other."""
    return [key for key in grid if key not in REPEATED]


def claim_sweep_dir(sweep_dir: Path) -> None:
    """Makes the folder of a sweep; refuses one that holds anything else."""

    def is_older(folder: Path) -> bool:
        return holds_older_runs(folder, _OWN_NAMES)

    ownership.make(sweep_dir, "sweep", "sweep_dir", is_older)


def collect(
    sweep_dir: Path,
    configs: dict[str, Config],
    grid: dict[str, list[Any]],
    validation_only: bool = False,
) -> list[dict]:
    """One row for every finished run: its settings in the grid, and its measures."""
    rows = []
    for name, config in configs.items():
        outcome = read_outcome(sweep_dir / name, validation_only)
        if outcome is None or not _is_run_of(config, sweep_dir / name):
            continue
        scores = outcome if isinstance(outcome, Results) else outcome.validation
        gzsl, plain = vars(scores.gzsl), vars(scores.gzsl_alpha0)
        steps = outcome.steps if isinstance(outcome, Results) else config.training.steps
        row = {key: value_of(config, key) for key in grid}
        row |= {"run": name, "dataset": config.dataset, "protocol": config.protocol}
        row |= {key: value_of(config, key) for key in REPEATED}
        row |= {"steps": steps}
        row |= {"splits": "validation" if validation_only else "test"}
        row |= {"zsl": scores.zsl.top1, "alpha": outcome.alpha, "ausuc": scores.ausuc}
        row |= {key: gzsl[key] for key in "ush"} | {f"{key}0": plain[key] for key in "ush"}
        rows.append(row)
    return rows


def _is_run_of(config: Config, run_dir: Path) -> bool:
    """False for a run that an earlier sweep made in this folder with other settings."""
    return (
        Config.from_dict(checksums.read_json(RunFolder(run_dir).config_path, BEGIN_ANEW)) == config
    )


def remove_figures(sweep_dir: Path, drawn: Sequence[str]) -> None:
    """Deletes the figures of an earlier sweep in this folder, except those drawn again."""
    names = {"alpha.png", *(f"{field.name.rstrip('_')}.png" for _, field in settings())}
    for name in names - set(drawn):
        (sweep_dir / name).unlink(missing_ok=True)


def read_outcome(run_dir: Path, validation_only: bool = False) -> Results | Selection | None:
    """The measures of a run, its alpha and its alpha curve; None if it is not finished.

    Args:
      validation_only: the selection of the first phase instead of the results of the test.
    """
    folder = RunFolder(run_dir)
    if validation_only:
        return folder.read_selection() if folder.selection_path.exists() else None
    return folder.read_results() if folder.results_path.exists() else None


def value_of(config: Config, name: str) -> Any:
    """A setting of a config, whatever its section."""
    for owner in (config, config.model, config.loss, config.training):
        if hasattr(owner, name):
            return getattr(owner, name)
    raise ClarelError(f"unknown config key {name!r}")


def write_csv(path: Path, rows: list[dict]) -> None:
    """Writes the rows as one tidy table, or nothing but its header."""
    text = io.StringIO()
    columns = list(dict.fromkeys([*(rows[0] if rows else ()), *MEASURES]))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files.write_text(path, text.getvalue())
