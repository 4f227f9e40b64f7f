"""The tables of a training phase: losses by step, and the validation curve."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from clarel_tf.errors import ClarelError
from clarel_tf.models.losses import METRICS
from clarel_tf.storage import checksums

# history.csv: a row for every logged interval.
HISTORY_COLUMNS = ("step", "learning_rate", *METRICS, "seconds")
# validation_curve.csv: a row for every `evaluate_every` steps.
CURVE_COLUMNS = ("step", "zsl", "h0", "alpha", "u", "s", "h", "seconds")
_REMEDY = "restore a copy, or delete it; the curve in the report then lacks these rows"


def write_history(
    path: Path, rows: list[dict[str, float]], columns: Sequence[str] = HISTORY_COLUMNS
) -> None:
    """Writes rows as CSV, with the given columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: v if k == "step" else f"{v:.6g}" for k, v in row.items()})
    checksums.write_text(path, text.getvalue())


def read_history(path: Path) -> list[dict[str, float]]:
    """Reads a file written by `write_history`; no file means no rows."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as handle:
        try:
            rows = [
                {k: int(v) if k == "step" else float(v) for k, v in row.items()}
                for row in csv.DictReader(handle)
            ]
        except (ValueError, TypeError, csv.Error) as error:
            raise ClarelError(f"{path} is damaged: {error}; {_REMEDY}") from error
    checksums.check(path, _REMEDY)
    return rows
