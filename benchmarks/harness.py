"""Shared code of all benchmarks: alternating measurement, a table, the same figures as JSON."""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Benchmarks run as `python benchmarks/<name>.py`; this makes `clarel_tf` and `tests` importable.
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def make_parser(about: str) -> argparse.ArgumentParser:
    """A parser with the flags that every benchmark has."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", help="write the figures to this file, too")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each (default 5)")
    return parser


def progress(message: str) -> None:
    """Prints progress to stderr; stdout has only the table."""
    print(message, file=sys.stderr, flush=True)


def alternate(
    work: dict[str, Callable[[], Any]], repeats: int, title: str = "", pause: float = 0.0
) -> dict[str, list[float]]:
    """Seconds of each piece of work, measured in turn, so that noise affects all equally.

    With a `title`, it prints every round. A `pause` is a rest of some seconds before each: threads
    of another library may go on waiting busily after their work, and would be counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(repeats):
        if title:
            progress(f"{title}: round {number + 1} of {repeats}")
        for name, function in work.items():
            time.sleep(pause)
            started = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def summary(seconds: list[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {
        "median_s": statistics.median(seconds),
        "least_s": min(seconds),
        "most_s": max(seconds),
    }


def median_ratio(seconds: list[float], base: list[float]) -> float:
    """Median over the rounds of `seconds` / `base`.

    The speed of a shared machine drifts, but is nearly constant within a round, so ratios within
    rounds vary less than times.
    """
    return statistics.median(mine / its for mine, its in zip(seconds, base, strict=True))


def report(title: str, rows: dict[str, dict[str, float]], json_path: str | None) -> None:
    """Prints a table, and writes it as JSON if a path is given."""
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    width = max(len(name) for name in rows) + 2
    print(f"{title}\n")
    print(" " * width + "".join(f"{column:>16}" for column in columns))
    for name, row in rows.items():
        cells = (f"{row[c]:16.3f}" if c in row else " " * 16 for c in columns)
        print(f"{name:{width}}" + "".join(cells))
    if json_path:
        machine = {
            "cores": os.cpu_count(),
            "processor": platform.processor(),
            "load": os.getloadavg(),
        }
        with open(json_path, "w", encoding="utf-8") as handle:
            json.dump({"title": title, "machine": machine, "rows": rows}, handle, indent=2)
            handle.write("\n")
