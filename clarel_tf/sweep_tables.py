"""What the runs of a grid have in common: means with intervals, as tables to read."""

from collections.abc import Sequence
from typing import Any

from clarel_tf import published
from clarel_tf.config import Config
from clarel_tf.repeats import mean_and_interval
from clarel_tf.sweep import MEASURES, REPEATED


def averaged(rows: list[dict], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with the same values of `keys` as one: means and 95 % intervals over the rest.

    `h_gain` is what H has gained on the first of them, in runs of the same seed and class
    division: these decide more about H than most settings do, and that is taken out here.
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
    """Markdown: ZSL, H without and with the chosen alpha, and AUSUC of every group of settings.

    The last column is what H has gained on the first row, run by run.
    """
    names = [key.rstrip("_") for key in keys] + ["runs", "ZSL", "H at 0", "H", "AUSUC", "H gained"]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for group in averaged(rows, keys):
        cells = [str(group[key]) for key in (*keys, "runs")]
        cells += [_with_interval(group[name]) for name in ("zsl", "h0", "h", "ausuc")]
        cells.append(_with_interval(group["h_gain"]) if group["h_gain"] else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _with_interval(value: dict[str, float | None]) -> str:
    interval = value["interval"]
    return f"{value['mean']:.1f}" + ("" if interval is None else f" ± {interval:.1f}")
