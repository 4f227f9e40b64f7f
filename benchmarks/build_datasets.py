"""Time and peak memory of building CUB, compared with `scipy.io.loadmat` on its files.

CLAREL_DATA=<folder with cub/> python benchmarks/build_datasets.py
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

# Each runs in its own process, which measures itself after the imports.
_BUILD = """
import json, resource, sys, time
import tensorflow_datasets as tfds
from clarel_tf.data.loading import get_builder
from clarel_tf.data.preparation import prepare
tfds.disable_progress_bar()
manual_dir, data_dir = sys.argv[1:]
builder = get_builder("cub", "custom", data_dir)
started = time.perf_counter()
prepare(builder, manual_dir)
"""
_LOADMAT = """
import json, resource, sys, time
import scipy.io
started = time.perf_counter()
scipy.io.loadmat(sys.argv[1] + "/features.mat")
scipy.io.loadmat(sys.argv[1] + "/xlsa17/data/CUB/att_splits.mat")
"""
_REPORT = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": time.perf_counter() - started, "peak_mb": peak}))
"""


def run(code: str, *arguments: str) -> dict[str, float]:
    """The measurements of `code`, run in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", code + _REPORT, *arguments],
        cwd=harness.ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    arguments = harness.make_parser(__doc__.splitlines()[0]).parse_args()
    if "CLAREL_DATA" not in os.environ:
        sys.exit("error: set CLAREL_DATA to the folder that holds cub/ with the real files")
    cub = str(Path(os.environ["CLAREL_DATA"]) / "cub")
    measured: dict[str, list[dict[str, float]]] = {"build cub/custom": [], "scipy.io.loadmat": []}
    for _ in range(arguments.repeats):
        with tempfile.TemporaryDirectory() as folder:
            measured["build cub/custom"].append(run(_BUILD, cub, folder))
        measured["scipy.io.loadmat"].append(run(_LOADMAT, cub))
    rows = {}
    for name, runs in measured.items():
        rows[name] = harness.summary([one["seconds"] for one in runs])
        rows[name]["peak_mb"] = max(one["peak_mb"] for one in runs)
    base = rows["scipy.io.loadmat"]["median_s"]
    for row in rows.values():
        row["ratio"] = row["median_s"] / base
    harness.report(
        "Building real CUB, processes measured from after their imports", rows, arguments.json
    )


if __name__ == "__main__":
    main()
