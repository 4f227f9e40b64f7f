"""Programs killed at random moments, over and over, end like those that were never killed.

Run with `pytest -m slow -n0 -s tests/commands/test_kills.py`: it prints where the kills landed.
"""

import collections
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from clarel_tf.serving.versions import MODELS, checksums_path, versions_of
from clarel_tf.storage import checksums, files
from tests.helpers.programs import ROOT, SMALL_MODEL, run_program

pytestmark = pytest.mark.slow
STEPS = 60
TRAINING = [
    *(
        *SMALL_MODEL,
        "--config=small",
        f"--steps={STEPS}",
        "--batch_size=16",
        "--captions=2",
        "--warmup_steps=2",
    ),
    *("--log_every=2", "--checkpoint_every=3"),
]
# Where each kill is aimed; two are aimed at nothing. What counts is where it landed.
AIMS = [
    *["dataset building"] * 3,
    *["anything"],
    *["training"] * 3,
    *["checkpoint writing"] * 4,
    *["evaluation"] * 3,
    *["anything"],
    *["training"] * 2,
    *["checkpoint writing"] * 3,
    *["evaluation"] * 2,
    *["results"] * 4,
]


class Watch:
    """What a run does now, seen from outside: by the files that it has and has changed."""

    def __init__(self, run_dir: Path, data_dir: Path):
        self.run_dir, self.data_dir = run_dir, data_dir
        self.before = self._times()

    def _times(self) -> dict[Path, int]:
        names = ("history.csv", "validation/history.csv", "evaluation.json")
        paths = [self.run_dir / name for name in names]
        return {path: path.stat().st_mtime_ns for path in paths if path.exists()}

    def has_changed(self, *names: str) -> bool:
        now = self._times()
        paths = [self.run_dir / name for name in names]
        return any(path in now and now[path] != self.before.get(path) for path in paths)

    def phase(self) -> str:
        last = f"step_{STEPS:09d}.npz"
        if not (self.data_dir / "demo" / "small" / "2.0.0").exists():
            is_building = any(self.data_dir.glob("demo/small/incomplete.*"))
            return "dataset building" if is_building else "starting"
        if (self.run_dir / "results.json").exists():
            return "finished"
        if self.is_writing_checkpoint():
            return "checkpoint writing"
        if self.has_changed("evaluation.json"):
            return "results"
        is_calibrated = (self.run_dir / "validation" / "selection.json").exists()
        folder = self.run_dir if is_calibrated else self.run_dir / "validation"
        if (folder / "checkpoints" / last).exists():
            return "evaluation"
        if self.has_changed("history.csv", "validation/history.csv"):
            return "training"
        return "starting"

    def is_writing_checkpoint(self) -> bool:
        for folder in (self.run_dir, self.run_dir / "validation"):
            try:
                if any(".partial." in name for name in os.listdir(folder / "checkpoints")):
                    return True
            except FileNotFoundError:
                continue
        return False


def wait_for(process: subprocess.Popen, happens: Callable[[], bool], pause: float) -> None:
    """Returns when something happens, or when the process ends first."""
    deadline = time.monotonic() + 300
    while not happens() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(pause)


def start(program: str, log: Path, *flags: str) -> subprocess.Popen:
    with log.open("a") as handle:
        return subprocess.Popen(
            [sys.executable, str(ROOT / program), *flags],
            stdout=handle,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def models_made(log: Path) -> int:
    """How often a model was built, or read because it was trained already."""
    text = log.read_text()
    return text.count("Word vectors") + text.count("is trained already")


def aim(process: subprocess.Popen, watch: Watch, target: str, log: Path, chance) -> None:
    """Waits for a random moment in the phase that is aimed at."""
    lines = models_made(log)
    if target == "anything":
        time.sleep(chance.uniform(0.5, 5))
    elif target == "checkpoint writing":
        # The file is there for milliseconds: no delay.
        wait_for(process, watch.is_writing_checkpoint, 0.0005)
    elif target == "evaluation":
        # A run that goes on with a trained model has built it again by the time of this line.
        wait_for(
            process,
            lambda: watch.phase() == target and models_made(log) > lines,
            0.01,
        )
        time.sleep(chance.uniform(0, 1))
    else:
        wait_for(process, lambda: watch.phase() == target, 0.002)
        time.sleep(chance.uniform(0, 0.3))


def test_training_killed_over_and_over_ends_like_an_unbroken_run(tmp_path):
    reference = tmp_path / "unbroken"
    flags = [f"--run_dir={reference}", f"--data_dir={tmp_path / 'data'}", *TRAINING]
    assert run_program("train_main.py", *flags).returncode == 0
    chance = random.Random(0)
    run_dir, data_dir, log = tmp_path / "run", tmp_path / "other_data", tmp_path / "log"
    log.touch()
    flags = [f"--run_dir={run_dir}", f"--data_dir={data_dir}", *TRAINING]
    landed: collections.Counter[str] = collections.Counter()
    for target in AIMS:
        watch = Watch(run_dir, data_dir)
        process = start("train_main.py", log, *flags)
        aim(process, watch, target, log, chance)
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            break  # it was done before; the count below tells whether that is too bad
        landed[watch.phase()] += 1
    done = run_program("train_main.py", *flags)
    assert done.returncode == 0, done.stderr
    print(f"{landed.total()} kills: {dict(landed)}")
    assert landed.total() >= 20
    for phase in ("dataset building", "training", "checkpoint writing", "evaluation", "results"):
        assert landed[phase], landed
    for name in (
        *("results.json", "evaluation.json", "report.html", "vocabulary.txt"),
        *("validation/selection.json", "validation/vocabulary.txt"),
    ):
        assert (run_dir / name).read_bytes() == (reference / name).read_bytes(), name
    assert "damaged" not in log.read_text() and "Traceback" not in log.read_text()
    assert not [path for path in run_dir.rglob("*") if files.is_partial(path.name)]
    assert not list(data_dir.rglob("incomplete.*"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, demo_data_dir) -> list[str]:
    """Flags that name a finished run."""
    run_dir = tmp_path_factory.mktemp("kills") / "run"
    flags = [f"--run_dir={run_dir}", f"--data_dir={demo_data_dir}"]
    assert run_program("train_main.py", *flags, *TRAINING).returncode == 0
    return flags


def test_an_export_folder_never_holds_a_version_that_does_not_load(finished, tmp_path):
    exports, log = tmp_path / "models", tmp_path / "log"
    flags = [*finished, f"--export_dir={exports}"]
    chance, kills, loaded = random.Random(0), 0, set()
    for number in range(10):
        before = {model: versions_of(exports, model) for model in MODELS}
        process = start("export_main.py", log, *flags)
        if number % 2:
            # Between two of the three renames, if it can be hit.
            wait_for(
                process,
                lambda before=before: any(versions_of(exports, m) != before[m] for m in MODELS),
                0,
            )
        else:
            wait_for(process, (exports / ".staging").exists, 0.002)
            time.sleep(chance.uniform(0, 3))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        for model in MODELS:
            for version in versions_of(exports, model):
                path = exports / model / str(version)
                checksums.check_tree(path, checksums_path(path), "")
                assert checksums_path(path).exists()
                if path not in loaded:  # what loaded once is not written to again
                    assert "serving_default" in tf.saved_model.load(str(path)).signatures
                    loaded.add(path)
    print(f"{kills} kills of the export, {len(loaded)} versions of models, all of which load")
    assert kills >= 5
    done = run_program("export_main.py", *flags)
    assert done.returncode == 0, done.stderr
    assert not (exports / ".staging").exists()


def test_a_second_program_in_the_same_folder_says_so_and_stops(finished, tmp_path):
    run_dir = Path(finished[0].removeprefix("--run_dir="))
    exports = tmp_path / "models"
    exports.mkdir()
    with files.only_process(run_dir, "run_dir"), files.only_process(exports, "export_dir"):
        for program, flags, folder in (
            ("train_main.py", TRAINING, f"run_dir {run_dir}"),
            ("evaluate_main.py", [], f"run_dir {run_dir}"),
            ("export_main.py", [f"--export_dir={exports}"], f"export_dir {exports}"),
        ):
            done = run_program(program, *finished, *flags)
            assert done.returncode == 1
            assert f"error: another process is working in {folder}\n" in done.stderr
            assert "Traceback" not in done.stderr


def test_nothing_of_a_run_killed_before_its_first_checkpoint_is_in_the_next(tmp_path):
    common = [*SMALL_MODEL, "--batch_size=16", "--captions=2", "--log_every=2"]
    data, run_dir, log = tmp_path / "data", tmp_path / "run", tmp_path / "log.txt"
    flags = [*common, f"--data_dir={data}", f"--run_dir={run_dir}"]
    long = ["--steps=5000", "--warmup_steps=2", "--checkpoint_every=5000", "--min_word_count=9"]
    process = start("train_main.py", log, *flags, *long)
    history = run_dir / "validation" / "history.csv"
    wait_for(process, lambda: history.exists() and history.stat().st_size > 200, 0.05)
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL
    assert not list(run_dir.rglob("step_*.npz"))
    other = ["--steps=6", "--warmup_steps=1", "--seed=3"]
    done = run_program("train_main.py", *flags, *other)
    assert done.returncode == 0, done.stderr
    assert "ended before its first checkpoint. Nothing of it is used" in done.stdout
    assert "steps=5000" in done.stdout and "min_word_count=9" in done.stdout
    fresh = tmp_path / "fresh"
    done = run_program("train_main.py", *flags[:-1], f"--run_dir={fresh}", *other)
    assert done.returncode == 0, done.stderr
    for name in ("config.json", "vocabulary.txt", "validation/vocabulary.txt", "results.json"):
        assert (run_dir / name).read_bytes() == (fresh / name).read_bytes(), name
    for name in ("history.csv", "validation/history.csv"):
        steps = [
            [line.split(",")[0] for line in (folder / name).read_text().splitlines()]
            for folder in (run_dir, fresh)
        ]
        assert steps[0] == steps[1]
