"""Tables and figures of a sweep, with means and intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from clarel_tf.config import Config
from clarel_tf.evaluation.records import AlphaPoint
from clarel_tf.reporting import published
from clarel_tf.reporting.figures import HARMONIC, SEEN, UNSEEN, new_figure
from clarel_tf.reporting.results_table import number
from clarel_tf.reporting.statistics import MeanAndInterval, mean_and_interval
from clarel_tf.storage import files

# Settings that repeat a run: results are averaged over their values.
REPEATED = ("seed", "class_division")
MEASURES = ("zsl", "u0", "s0", "h0", "alpha", "u", "s", "h", "ausuc")


def averaged(rows: list[dict], keys: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each combination of `keys`: means and 95 % intervals over the other settings.

    `h_gain` is the gain of H over the first combination, in runs of the same seed and class
    division. Seed and division change H more than most settings, so runs are compared in pairs.
    """
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    first = {_repetition(row): row["h"] for row in next(iter(groups.values()), [])}
    gains = [
        [row["h"] - first[_repetition(row)] for row in members if _repetition(row) in first]
        for members in groups.values()
    ]
    return [
        dict(zip(keys, values, strict=True))
        | {"runs": len(members)}
        | {name: mean_and_interval([row[name] for row in members]) for name in MEASURES}
        | {"h_gain": mean_and_interval(gained) if gained else None}
        for (values, members), gained in zip(groups.items(), gains, strict=True)
    ]


def _repetition(row: dict) -> tuple:
    return tuple(row.get(key) for key in REPEATED)


def ablation_table(rows: list[dict], base: Config, keys: Sequence[str] = ()) -> str:
    """Markdown: u, s and H of every group of settings, beside the paper's ablation.

    Args:
      keys: the settings that are compared; lambda and kappa are always shown.
    """
    full = [{"lambda_": base.loss.lambda_, "kappa": base.loss.kappa, **row} for row in rows]
    others = [key for key in keys if key not in ("lambda_", "kappa")]
    names = ["alpha", "lambda", "kappa", *(key.rstrip("_") for key in others), "runs"]
    names += ["u", "s", "H", "published u", "s", "H"]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for group in averaged(full, ["lambda_", "kappa", *others]):
        for with_alpha, suffix in ((False, "0"), (True, "")):
            ours = " | ".join(_with_interval(group[f"{key}{suffix}"]) for key in "ush")
            row = published.find(base.dataset, with_alpha, group["lambda_"], group["kappa"])
            theirs = f"{row.u} | {row.s} | {row.h}" if row else " |  | "
            name = "chosen" if with_alpha else "0"
            values = [group[key] for key in ("lambda_", "kappa", *others, "runs")]
            settings = " | ".join(map(str, values))
            lines.append(f"| {name} | {settings} | {ours} | {theirs} |")
    return "\n".join(lines) + "\n"


def settings_table(rows: list[dict], keys: Sequence[str]) -> str:
    """Markdown: ZSL, H without and with the chosen alpha, and AUSUC of every group of settings.

    The last column is the gain of H over the first row, run by run.
    """
    names = [key.rstrip("_") for key in keys] + ["runs", "ZSL", "H at 0", "H", "AUSUC", "H gained"]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for group in averaged(rows, keys):
        cells = [str(group[key]) for key in (*keys, "runs")]
        cells += [_with_interval(group[name]) for name in ("zsl", "h0", "h", "ausuc")]
        cells.append(_with_interval(group["h_gain"]) if group["h_gain"] else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _with_interval(value: MeanAndInterval) -> str:
    interval = value.interval
    return number(value.mean) + ("" if interval is None else f" ± {number(interval)}")


def alpha_band_figure(curves: dict[str, list[list[AlphaPoint]]]) -> Figure:
    """H on validation against alpha: mean and standard deviation over the seeds of each group.

    Runs without a curve, whose validation lacks seen or unseen classes, are left out.
    """
    figure, axes = new_figure()
    curves = {name: [curve for curve in group if curve] for name, group in curves.items()}
    curves = {name: group for name, group in curves.items() if group}
    ends = [
        curve[int(0.95 * (len(curve) - 1))].alpha for group in curves.values() for curve in group
    ]
    grid = np.linspace(0.0, max([*ends, 1e-6]), 200)
    for name, group in curves.items():
        values = np.array(
            [np.interp(grid, [p.alpha for p in curve], [p.h for p in curve]) for curve in group]
        )
        (line,) = axes.plot(grid, values.mean(axis=0), label=name, linewidth=1.8)
        spread = values.std(axis=0)
        low, high = values.mean(axis=0) - spread, values.mean(axis=0) + spread
        axes.fill_between(grid, low, high, color=line.get_color(), alpha=0.15)
    axes.set(xlabel="alpha", ylabel="H on validation, %", ylim=(0, None))
    axes.legend(fontsize=8)
    return figure


def setting_figure(rows: list[dict[str, Any]], key: str) -> Figure:
    """u, s and H at the chosen alpha against the values of one setting, with 95 % intervals."""
    figure, axes = new_figure()
    groups = sorted(averaged(rows, [key]), key=lambda group: group[key])
    for name, label, colour in (("u", "unseen", UNSEEN), ("s", "seen", SEEN), ("h", "H", HARMONIC)):
        axes.errorbar(
            [group[key] for group in groups],
            [group[name].mean for group in groups],
            yerr=[group[name].interval or 0.0 for group in groups],
            label=label,
            color=colour,
            marker="o",
            markersize=4,
            capsize=2,
        )
    axes.set(xlabel=key.rstrip("_"), ylabel="per-class top-1, %", ylim=(0, None))
    axes.legend()
    return figure


def save_png(figure: Figure, path: Path) -> None:
    """Writes a figure, all of it or nothing."""
    with files.written_aside(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
