"""The program from flags to results: killed and resumed, bad input."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from clarel_tf.models.vocabulary import load_vocabulary
from clarel_tf.training.history import read_history
from tests.helpers.programs import ROOT, call_program, run_program


def run(*flags: str, cwd: Path) -> subprocess.CompletedProcess:
    return call_program("train_main.py", *flags, cwd=cwd)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, demo_run) -> tuple[Path, str, list[str]]:
    """A run with default run folder and dataset: (its folder, what was printed, its flags)."""
    folder, flags = demo_run
    runs = Path(shutil.copytree(folder / "runs", tmp_path_factory.mktemp("work") / "runs"))
    return runs / "demo", (folder / "stdout.txt").read_text(), flags


def test_run_folder_and_results(finished):
    folder, printed, _ = finished
    results = json.loads((folder / "results.json").read_text())
    assert (results["dataset"], results["protocol"], results["seed"]) == ("demo", "clean", 0)
    assert results["steps"] == 60
    for scores in (results["gzsl"], results["gzsl_alpha0"]):
        assert all(0 <= scores[key] <= 100 for key in "ush")
    assert 0 <= results["zsl"]["top1"] <= 100
    low, high = results["alpha_interval"]
    assert 0 <= low <= results["alpha"] <= high
    assert results["alpha_curve"][0]["alpha"] == 0
    assert set(results["fingerprints"]["train"]) == {"images", "features", "captions"}
    config = json.loads((folder / "config.json").read_text())
    assert config["model"]["filters"] == [8, 8]  # a flag
    assert config["training"]["optimizer"] == "adam"  # the preset
    for phase in (folder, folder / "validation"):
        assert load_vocabulary(phase / "vocabulary.txt")
        assert (phase / "model.keras").exists()
        assert len(list((phase / "checkpoints").glob("step_*.npz"))) == 2
        assert list((phase / "tensorboard").glob("events*"))
        with open(phase / "history.csv", newline="") as handle:
            steps = [int(row["step"]) for row in csv.DictReader(handle)]
        assert steps == [10, 20, 30, 40, 50, 60]
    assert not list(folder.rglob("*.partial.*"))
    # The curve belongs to the phase that alpha is chosen with, and to nothing else.
    assert [row["step"] for row in validation_curve(folder)] == [30, 60]
    assert not (folder / "validation_curve.csv").exists()
    # The table and the way to the folder.
    assert "alpha = 0 " in printed and "(selected)" in printed and "ZSL" in printed
    # For this small model, which of them depends on the rounding of the machine.
    assert "alpha: 95 % interval" in printed or "alpha: validation data cannot tell" in printed
    assert "Run folder: runs/demo" in printed
    assert "word embeddings are learned" in printed


def validation_curve(folder: Path) -> list[dict[str, float]]:
    return read_history(folder / "validation" / "validation_curve.csv")


def without_time(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def test_the_curve_ends_where_the_calibration_is(finished):
    """Two captions of each image make the prototypes of the curve: near it, not the same."""
    last = validation_curve(finished[0])[-1]
    chosen = json.loads((finished[0] / "validation" / "selection.json").read_text())
    assert last["zsl"] == pytest.approx(chosen["validation"]["zsl"]["top1"], abs=10)
    assert last["h"] == pytest.approx(2 * last["u"] * last["s"] / (last["u"] + last["s"]), abs=1e-3)
    assert last["h"] >= last["h0"]
    assert "Accuracy while training" in (finished[0] / "report.html").read_text()


def test_a_finished_run_is_not_run_again(finished):
    folder, printed, flags = finished
    before = (folder / "results.json").stat().st_mtime_ns
    again = run(*flags, cwd=folder.parent.parent)
    assert again.returncode == 0
    assert "finished already" in again.stdout
    assert printed.split("Test splits")[1] == again.stdout.split("Test splits")[1]
    assert (folder / "results.json").stat().st_mtime_ns == before


def test_other_settings_in_the_same_folder_are_refused(finished):
    folder, _, flags = finished
    again = run(*flags, "--kappa=0.25", cwd=folder.parent.parent)
    assert_one_line(again, "kappa=0.5, now it is 0.25")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.slow  # test_training.py resumes in one process and compares all weights
def test_killed_and_started_again_it_ends_the_same(finished, tmp_path):
    """A process is killed; this one goes on, and has the values of a run that was never killed.

    The first phase was over when the process began.
    """
    reference, _, flags = finished
    folder = tmp_path / "run"
    shutil.copytree(reference / "validation", folder / "validation")
    for name in (".clarel_tf.json", "config.json", "data.json"):
        shutil.copy(reference / name, folder / name)
    flags = [*flags, f"--run_dir={folder}"]
    # Once, in the second phase; test_kills.py kills in every phase, and much more often.
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train_main.py"), *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 200
    while not (folder / "checkpoints/step_000000020.npz").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (folder / "results.json").exists()
    done = run(*flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "resuming after step" in done.stdout
    for name in (
        "results.json",
        "validation/selection.json",
        "evaluation.json",
        "report.html",
        "vocabulary.txt",
    ):
        assert (folder / name).read_text() == (reference / name).read_text()
    assert without_time(validation_curve(folder)) == without_time(validation_curve(reference))
    for phase in ("checkpoints", "validation/checkpoints"):
        ours = read_arrays(folder / phase / "step_000000060.npz")
        theirs = read_arrays(reference / phase / "step_000000060.npz")
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def assert_one_line(done: subprocess.CompletedProcess, message: str) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and message in lines[0], done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--no_such_flag=1"], "no_such_flag"),
        (["--steps=many"], "steps"),
        (["--steps=0"], "steps must be at least 1"),
        (["--kappa=2"], "kappa must be at most 1"),
        (["--filters=a,b"], "filters must be integers"),
        (["--optimizer=rmsprop"], "<sgd|adam>"),
        (["--preset=huge"], "unknown preset 'huge'"),
        (["demo"], "unexpected argument 'demo'"),
        (["--config_file=none.json"], "cannot read none.json"),
        (["--config_file=a.json", "--preset=tiny"], "not both"),
    ],
)
def test_bad_flags(tmp_path, flags, message):
    assert_one_line(run(*flags, cwd=tmp_path), message)
    assert not list(tmp_path.iterdir())


def test_bad_flags_of_a_process(tmp_path):
    assert_one_line(run_program("train_main.py", "--steps=0", cwd=tmp_path), "steps must be")
    assert not list(tmp_path.iterdir())


def test_bad_input_that_shows_only_later(tmp_path, finished):
    (tmp_path / "vectors.txt").write_text("zebra 1 2 3\n")
    flags = [*finished[2], "--word_vectors=vectors.txt", "--run_dir=new"]
    assert_one_line(run(*flags, cwd=tmp_path), "none of the")


def test_help_is_in_groups():
    done = run_program("train_main.py", "--help")
    assert done.returncode == 0
    titles = ["Program", "Experiment", "Model", "Loss", "Training"]
    assert [line for line in done.stdout.splitlines() if line in titles] == titles
    assert "--lambda" in done.stdout and "--run_dir" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
