"""An hour of training and evaluation in one process: it must not grow."""

import json
import statistics
import subprocess
import sys

import pytest

from tests.programs import ROOT

SECONDS = 3600
WARM_UP = 600


@pytest.mark.hour
def test_an_hour_leaves_memory_files_and_graphs_as_they_were(tmp_path, demo_data_dir):
    command = [sys.executable, "-m", "tests.long_run", f"--seconds={SECONDS}"]
    command += [f"--folder={tmp_path}", f"--data_dir={demo_data_dir}"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    samples = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    after = [sample for sample in samples if sample["seconds"] > WARM_UP]
    assert after[-1]["seconds"] >= SECONDS
    memory = [sample["resident_kb"] for sample in after]
    files = [sample["open_files"] for sample in after]
    last = after[-1]
    print(
        f"{last['step']} steps, {last['evaluations']} evaluations in {last['seconds']:.0f} s; "
        f"resident {min(memory) / 1024:.0f} to {max(memory) / 1024:.0f} MB after warm-up, "
        f"first {memory[0] / 1024:.0f}, last {memory[-1] / 1024:.0f}, "
        f"peak {last['peak_kb'] / 1024:.0f}; "
        f"open files {min(files)} to {max(files)}; traces {last['traces']}"
    )
    for start in range(0, SECONDS, 600):
        part = [x["resident_kb"] for x in samples if start <= x["seconds"] < start + 600]
        print(f"  minute {start // 60} on: median {statistics.median(part) / 1024:.1f} MB")
    assert max(memory) <= 1.02 * memory[0]
    assert max(files) == files[0]
    # None after the first look: a graph for training, one for images, one for captions.
    assert last["traces"] == samples[1]["traces"] == 3
