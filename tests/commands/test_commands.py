"""What all programs have in common: pipes, Ctrl-C, help, quiet starts."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.programs import ROOT, run_program


def test_a_closed_pipe_is_no_error_and_a_start_has_no_notes_of_tensorflow(demo_data_dir):
    command = (
        f"{sys.executable} {ROOT / 'inspect_main.py'} --config=small --data_dir={demo_data_dir}"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        ["bash", "-c", f"{command} --per_class | head -1; exit ${{PIPESTATUS[0]}}"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("Dataset demo")


def test_the_config_of_a_dataset_is_in_the_help():
    for program in ("train_main.py", "sweep_main.py"):
        assert "--config " in run_program(program, "--help").stdout


@pytest.mark.parametrize(
    ("program", "flags", "promise"),
    [
        pytest.param(
            *("export_main.py", ["--export_dir=models"], "no partial files are left"),
            marks=pytest.mark.slow,
        ),
        (
            "train_main.py",
            ["--run_dir=new", "--config=small"],
            "continues from the last checkpoint",
        ),
    ],
)
def test_ctrl_c_promises_what_is_true(program, flags, promise, tmp_path, demo_run, demo_data_dir):
    if program == "export_main.py":
        flags = [*flags, f"--run_dir={demo_run[0] / 'runs' / 'demo'}"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / program), f"--data_dir={demo_data_dir}", *flags],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # A shell starts background jobs with this signal ignored, and tests may be such a job.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    folder = tmp_path / flags[0].partition("=")[2]
    deadline = time.monotonic() + 120
    while not any(Path(folder).glob(".staging" if "export" in program else "config.json")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    # About one in 25 is lost while TensorFlow traces a graph; a user would press the keys again.
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, err = process.communicate(timeout=15)
            break
    assert process.returncode == 130
    assert err.splitlines()[-1] == "error: stopped; " + (
        promise if "export" in program else f"the same command {promise}"
    )
