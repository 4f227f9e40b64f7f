"""Prints answers as a table, CSV or JSON; CSV and JSON as soon as there are some."""

import csv
import json
import sys
from collections.abc import Iterable
from typing import Any

from clarel_tf.errors import printable

Row = dict[str, Any]  # the same keys in all rows, except for `warning` in JSON


def print_rows(blocks: Iterable[list[Row]], style: str) -> None:
    """Prints rows, block by block.

    Args:
      style: table, csv or json.
    """
    {"table": _print_table, "csv": _print_csv, "json": _print_json}[style](blocks)


def _print_table(blocks: Iterable[list[Row]]) -> None:
    rows = [{key: _cell(value) for key, value in row.items()} for block in blocks for row in block]
    if not rows:
        return
    rows = [{key: key for key in rows[0]}, *rows]
    widths = {key: max(len(row[key]) for row in rows) for key in rows[0]}
    for row in rows:
        print("  ".join(row[key].ljust(width) for key, width in widths.items()).rstrip())


def _print_csv(blocks: Iterable[list[Row]]) -> None:
    writer = None
    for rows in filter(None, blocks):
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
            writer.writeheader()
        writer.writerows({key: _shown(value) for key, value in row.items()} for row in rows)
        sys.stdout.flush()


def _print_json(blocks: Iterable[list[Row]]) -> None:
    """A list with an object for each row; it is closed even if an error ends it early."""
    has_begun = False
    try:
        for row in (row for rows in blocks for row in rows):
            text = json.dumps(row, indent=2).replace("\n", "\n  ")
            print(f"{',' if has_begun else '['}\n  {text}", end="", flush=True)
            has_begun = True
        print("" if has_begun else "[", end="")
        has_begun = True
    finally:
        if has_begun:
            print("\n]")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(_shown(value))


def _shown(value: Any) -> Any:
    """`value`; in a string, control characters are escaped."""
    return printable(value) if isinstance(value, str) else value
