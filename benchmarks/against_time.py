"""ZSL and H on validation data against steps and minutes of training, for several runs.

python benchmarks/against_time.py --run paper=RUN_DIR --run fast=RUN_DIR --plot=PATH.png

Each run was made with `train_main.py --evaluate_every=N`. Minutes are training time without
evaluations. If a run shared the machine with other jobs, give the time of a step on an idle
machine: `--seconds_per_step paper=0.23`.
"""

import argparse
from pathlib import Path

import harness  # noqa: F401  (makes `clarel_tf` importable)
import matplotlib.figure

from clarel_tf.reporting.figures import STYLE
from clarel_tf.training.history import read_history

COLOURS = ("#2b2b33", "#1f6fb4", "#d9822b", "#4aa36b")


def named(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, value


def read_curve(run_dir: Path, seconds_per_step: float | None) -> list[dict[str, float]]:
    rows = read_history(run_dir / "validation" / "validation_curve.csv")
    if not rows:
        raise SystemExit(f"{run_dir} has no validation curve: train with --evaluate_every")
    for row in rows:
        seconds = row["step"] * seconds_per_step if seconds_per_step else row["seconds"]
        row["minutes"] = seconds / 60
    return rows


def at(rows: list[dict[str, float]], minutes: float) -> dict[str, float] | None:
    """The last row up to this many minutes, or None."""
    before = [row for row in rows if row["minutes"] <= minutes]
    return before[-1] if before else None


def draw(curves: dict[str, list[dict[str, float]]], path: str) -> None:
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(10, 7), layout="constrained")
        panels = figure.subplots(2, 2, sharey="row")
        for row, (key, title) in zip(panels, (("zsl", "ZSL"), ("h", "H")), strict=True):
            for axes, by in zip(row, ("step", "minutes"), strict=True):
                for (name, rows), colour in zip(curves.items(), COLOURS, strict=False):
                    xs, ys = [r[by] for r in rows], [r[key] for r in rows]
                    axes.plot(xs, ys, "o-", markersize=3, color=colour, label=name)
                axes.set(xlabel=by, ylabel=f"{title} on validation, %", xlim=(0, None))
        panels[0][0].legend(loc="lower right")
        figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=named, action="append", required=True)
    parser.add_argument("--seconds_per_step", type=named, action="append", default=[])
    parser.add_argument("--plot", required=True)
    flags = parser.parse_args()
    known = {name: float(value) for name, value in flags.seconds_per_step}
    curves = {name: read_curve(Path(folder), known.get(name)) for name, folder in flags.run}
    draw(curves, flags.plot)
    longest = max(rows[-1]["minutes"] for rows in curves.values())
    marks = sorted({rows[-1]["minutes"] for rows in curves.values()} | {2.0, 5.0, 10.0, 20.0, 40.0})
    print("| minutes | " + " | ".join(f"{name}: step | ZSL | H" for name in curves) + " |")
    print("|---|" + "---|---|---|" * len(curves))
    for minutes in [mark for mark in marks if mark <= longest]:
        cells = [f"{minutes:.1f}"]
        for rows in curves.values():
            row = at(rows, minutes)
            cells += [str(row["step"]), f"{row['zsl']:.1f}", f"{row['h']:.1f}"] if row else [""] * 3
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
