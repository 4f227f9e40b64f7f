"""An hour of training and evaluation in one process: it must not grow."""

import json
import statistics
import subprocess
import sys

import pytest

from tests.helpers.programs import ROOT

SECONDS = 3600
WARM_UP = 600


@pytest.mark.hour
def test_an_hour_leaves_memory_files_and_graphs_as_they_were(tmp_path, demo_data_dir):
    command = [sys.executable, "-m", "tests.helpers.long_run", f"--seconds={SECONDS}"]
    command += [f"--folder={tmp_path}", f"--data_dir={demo_data_dir}"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    samples = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    after = [sample for sample in samples if sample["seconds"] > WARM_UP]
    assert after[-1]["seconds"] >= SECONDS
    held, resident, files = (
        [sample[key] for sample in after] for key in ("held_kb", "resident_kb", "open_files")
    )
    last = after[-1]
    print(
        f"{last['step']} steps, {last['evaluations']} evaluations in {last['seconds']:.0f} s; "
        f"after warm-up: held {min(held) / 1024:.1f} to {max(held) / 1024:.1f} MB, "
        f"first {held[0] / 1024:.1f}, last {held[-1] / 1024:.1f}; with free memory "
        f"{min(resident) / 1024:.1f} to {max(resident) / 1024:.1f}, "
        f"peak {last['peak_kb'] / 1024:.1f}; "
        f"open files {min(files)} to {max(files)}; traces {last['traces']}"
    )
    for start in range(0, SECONDS, 600):
        part = [sample for sample in samples if start <= sample["seconds"] < start + 600]
        medians = (statistics.median(x[key] for x in part) for key in ("held_kb", "resident_kb"))
        text = ", with free memory ".join(f"{median / 1024:.1f} MB" for median in medians)
        print(f"  minutes {start // 60} to {start // 60 + 10}: median {text}")
    assert max(held) <= 1.02 * held[0]
    assert max(files) == files[0]
    # None after the first look: a graph for training, one for images, one for captions.
    assert last["traces"] == samples[1]["traces"] == 3
