"""A grid of runs: which ones there are, and what came out of them as one tidy table."""

import csv
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clarel_tf import checksums, files, published
from clarel_tf.config import Config
from clarel_tf.errors import ClarelError
from clarel_tf.repeats import mean_and_interval
from clarel_tf.run_folder import MAKE_AGAIN, RunFolder

MEASURES = ("zsl", "u0", "s0", "h0", "alpha", "u", "s", "h", "ausuc")


def parse_grid(items: Sequence[str]) -> dict[str, list[Any]]:
    """`["kappa=0,0.5,1", "seed=0,1"]` -> {"kappa": [0, 0.5, 1], "seed": [0, 1]}.

    Values are JSON where they can be (numbers, true, false), else text. `lambda` stands for the
    setting `lambda_`.
    """
    grid: dict[str, list[Any]] = {}
    for item in items:
        name, _, values = item.partition("=")
        name = "lambda_" if name == "lambda" else name
        if not values or name in grid:
            raise ClarelError(f"grid {item!r}: expected NAME=VALUE,VALUE,... and each name once")
        grid[name] = [_as_value(value) for value in values.split(",")]
    if not grid:
        raise ClarelError("the grid is empty: give at least one --grid=NAME=VALUE,VALUE,...")
    return grid


def _as_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def grid_configs(
    base: Config, grid: dict[str, list[Any]], one_at_a_time: bool = False
) -> dict[str, Config]:
    """The config of every point of the grid, by the name of its folder.

    Args:
      one_at_a_time: vary each setting alone, with the others as in `base`, instead of combining
        all values; every seed is combined with all of them even so.
    """
    configs = {}
    for point in _around(base, grid) if one_at_a_time else _combined(grid):
        name = ",".join(f"{key}={value}" for key, value in point.items()).replace("/", "_")
        configs[name] = base.override(point)
    return configs


def _combined(grid: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _around(base: Config, grid: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Points on the axes through `base`, with its kinds of numbers: a point has one name."""
    centre = {key: value_of(base, key) for key in grid}
    for seed in grid.get("seed", [base.seed]):
        for key in [key for key in grid if key != "seed"]:
            for value in grid[key]:
                point = centre | {key: value} | ({"seed": seed} if "seed" in grid else {})
                config = base.override(point)
                yield {name: value_of(config, name) for name in grid}


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
        if outcome is None:
            continue
        gzsl, plain = outcome["gzsl"], outcome["gzsl_alpha0"]
        row = {key: value_of(config, key) for key in grid}
        row |= {"run": name, "dataset": config.dataset, "protocol": config.protocol}
        row |= {"seed": config.seed, "steps": outcome.get("steps", config.training.steps)}
        row |= {"splits": "validation" if validation_only else "test"}
        row |= {"zsl": outcome["zsl"]["top1"], "alpha": outcome["alpha"]}
        row |= {"ausuc": outcome["ausuc"]}
        row |= {key: gzsl[key] for key in "ush"} | {f"{key}0": plain[key] for key in "ush"}
        rows.append(row)
    return rows


def read_outcome(run_dir: Path, validation_only: bool = False) -> dict[str, Any] | None:
    """The measures of a run, its alpha and the curve that this was chosen by; None if unfinished.

    Args:
      validation_only: the measures on the validation splits instead of those on the test splits.
    """
    folder = RunFolder(run_dir)
    path = folder.calibration_path if validation_only else folder.results_path
    if not path.exists():
        return None
    outcome = checksums.read_json(path, MAKE_AGAIN)
    return outcome | outcome["validation"] if validation_only else outcome


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


def averaged(rows: list[dict], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with the same values of `keys` as one: means and 95 % intervals over the seeds."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        dict(zip(keys, values, strict=True))
        | {"runs": len(members)}
        | {name: mean_and_interval([row[name] for row in members]) for name in MEASURES}
        for values, members in groups.items()
    ]


def ablation_table(rows: list[dict], base: Config) -> str:
    """Markdown: the rows of the paper's ablation that the sweep has, beside the published ones."""
    full = [{"lambda_": base.loss.lambda_, "kappa": base.loss.kappa, **row} for row in rows]
    lines = [
        "| alpha | lambda | kappa | runs | u | s | H | published u | s | H |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in averaged(full, ["lambda_", "kappa"]):
        for with_alpha, suffix in ((False, "0"), (True, "")):
            ours = " | ".join(_with_interval(group[f"{key}{suffix}"]) for key in "ush")
            row = published.find(base.dataset, with_alpha, group["lambda_"], group["kappa"])
            theirs = f"{row.u} | {row.s} | {row.h}" if row else " |  | "
            name = "chosen" if with_alpha else "0"
            settings = f"{group['lambda_']} | {group['kappa']} | {group['runs']}"
            lines.append(f"| {name} | {settings} | {ours} | {theirs} |")
    return "\n".join(lines) + "\n"


def settings_table(rows: list[dict], keys: Sequence[str]) -> str:
    """Markdown: ZSL, H without and with the chosen alpha, and AUSUC of every group of settings."""
    names = [key.rstrip("_") for key in keys] + ["runs", "ZSL", "H at 0", "H", "AUSUC"]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for group in averaged(rows, keys):
        cells = [str(group[key]) for key in (*keys, "runs")]
        cells += [_with_interval(group[name]) for name in ("zsl", "h0", "h", "ausuc")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _with_interval(value: dict[str, float | None]) -> str:
    interval = value["interval"]
    return f"{value['mean']:.1f}" + ("" if interval is None else f" ± {interval:.1f}")
