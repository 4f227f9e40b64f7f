"""The figures of a sweep: H against alpha with its band; u, s and H against a setting."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from clarel_tf import files
from clarel_tf.figures import HARMONIC, SEEN, UNSEEN, new_figure
from clarel_tf.sweep_tables import averaged


def alpha_band_figure(curves: dict[str, list[Sequence[dict[str, float]]]]) -> Figure:
    """H on validation against alpha: mean and standard deviation over the seeds of each group."""
    figure, axes = new_figure()
    ends = [
        curve[int(0.95 * (len(curve) - 1))]["alpha"] for group in curves.values() for curve in group
    ]
    grid = np.linspace(0.0, max(max(ends), 1e-6), 200)
    for name, group in curves.items():
        values = np.array(
            [
                np.interp(grid, [p["alpha"] for p in curve], [p["h"] for p in curve])
                for curve in group
            ]
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
            [group[name]["mean"] for group in groups],
            yerr=[group[name]["interval"] or 0.0 for group in groups],
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
