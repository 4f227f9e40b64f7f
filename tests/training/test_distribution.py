"""Several replicas against one device with the same batch: two logical CPUs, two real workers."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from clarel_tf.config import Config
from clarel_tf.data.protocols import apply_protocol
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import run_experiment
from clarel_tf.experiments.training_phase import train_phase
from clarel_tf.storage import files
from clarel_tf.training.distributed.distribution import Distribution, multi_worker
from clarel_tf.training.distributed.tf_config import read_tf_config
from clarel_tf.training.history import read_history
from tests.helpers.programs import ROOT
from tests.helpers.workers import HELPERS, error_line, processes

STEPS = 20
PHASES = ("validation", ".", "final")


@pytest.fixture(scope="module")
def config(small_config) -> Config:
    """Every loss, L2, clipping and dropout have a part in it."""
    return small_config.override(
        {
            "steps": STEPS,
            "checkpoint_every": 10,
            "log_every": 5,
            "prototype_share": 0.5,
            "mixture_share": 0.5,
            "instances_per_class": 2,
            "evaluate_every": 10,
            "l2": 0.01,
        }
    )


@pytest.fixture(scope="module")
def one_device(tmp_path_factory, config, splits) -> Path:
    folder = tmp_path_factory.mktemp("one_device") / "run"
    run_experiment(config, splits, folder, final="all")
    return folder


def run(command: list[str], cwd: Path, workers: int = 0) -> list[str]:
    """What each process printed, when all have ended well."""
    with processes(command, cwd, workers) as started:
        outputs = [process.communicate(timeout=300) for process in started]
        for process, (_, err) in zip(started, outputs, strict=True):
            assert process.returncode == 0, err
    return [out for out, _ in outputs]


def assert_same_run(ours: Path, theirs: Path, tolerance: float = 1e-4, phases=PHASES) -> None:
    """The values of the history, and every weight and state of the optimiser."""
    for phase in phases:
        last = max((theirs / phase / "checkpoints").glob("step_*.npz"))
        name = f"{phase}/checkpoints/{last.name}"
        with np.load(ours / name) as mine, np.load(theirs / name) as other:
            assert sorted(mine.files) == sorted(other.files)
            for key in mine.files:
                np.testing.assert_allclose(mine[key], other[key], atol=tolerance, err_msg=key)
        rows, others = (read_history(path / phase / "history.csv") for path in (ours, theirs))
        for row, other in zip(rows, others, strict=True):
            for key in row.keys() - {"seconds"}:
                assert row[key] == pytest.approx(other[key], abs=tolerance), key


def test_two_replicas_share_a_batch(tmp_path):
    """Rows are taken and gathered, gradients are summed, drift is noticed, as by hand.

    The slow tests train whole runs.
    """
    rng = np.random.default_rng(0)
    x, w, v = (rng.normal(size=size).astype(np.float32) for size in ((6, 4), (4, 3), (4, 3)))
    np.savez(tmp_path / "in.npz", x=x, w=w, v=v)
    command = [HELPERS / "mirrored_rows.py", tmp_path / "in.npz", tmp_path / "out.npz"]
    (out,) = run(command, tmp_path)
    assert "Training on 2 replicas\n" in out
    apart = x @ w - x[::-1] @ v
    expected = {
        "images": x @ w,
        "texts": x @ v,
        "loss": (apart**2).sum(),
        "dw": 2 * x.T @ apart,
        "dv": -2 * x[::-1].T @ apart,
    }
    with np.load(tmp_path / "out.npz") as found:
        for number, rows in enumerate((x[:3], x[3:])):
            np.testing.assert_array_equal(found[f"own_{number}"], rows)
            for name, value in expected.items():
                np.testing.assert_allclose(found[f"{name}_{number}"], value, rtol=1e-4, atol=1e-4)
    # Then one of two copies is changed.
    assert "no drift at step 2\n" in out
    assert "drifted apart at or before step 4: their copies of one differ" in out


@pytest.mark.slow
def test_a_whole_run_on_two_devices_equals_one(tmp_path, config, one_device, splits, capsys):
    """They do the other phases of a run whose first phase was done by one device."""
    files.write_json(tmp_path / "config.json", config.to_dict())
    folder = tmp_path / "run"
    shutil.copytree(one_device, folder)
    for name in ("checkpoints", "tensorboard", "final"):
        shutil.rmtree(folder / name)
    for name in ("history.csv", "model.keras", "results.json"):
        (folder / name).unlink()
    command = [HELPERS / "distributed_run.py", "mirrored", tmp_path / "config.json", folder]
    (out,) = run(command, tmp_path)
    assert "Training on 2 replicas\n" in out
    assert_same_run(folder, one_device)
    # One device goes on from what two of them saved.
    (folder / "checkpoints" / f"step_{STEPS:09d}.npz").unlink()
    (folder / "model.keras").unlink()
    split = apply_protocol(splits, config.protocol)["trainval"]
    train_phase(config, split, folder, "on one device", None)
    assert f"resuming after step 10 of {STEPS}" in capsys.readouterr().out
    assert_same_run(folder, one_device)


@pytest.mark.slow
def test_two_workers_equal_one_device(tmp_path, config, one_device):
    """They go on from a checkpoint of one device in the first phase, and do all of the second."""
    files.write_json(tmp_path / "config.json", config.to_dict())
    folder = tmp_path / "run"
    checkpoint = "validation/checkpoints/step_000000010.npz"
    names = (".clarel_tf.json", "config.json", "data.json", "validation/vocabulary.txt", checkpoint)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(one_device / name, folder / name)
    shutil.copy(one_device / "validation/history.csv", folder / "validation/history.csv")
    command = [HELPERS / "distributed_run.py", "multi_worker", tmp_path / "config.json", folder]
    chief, other = run(command, tmp_path, workers=2)
    assert "Training on 2 replicas, 2 workers; this is worker 0" in chief
    assert "this is worker 1" in other
    for out in (chief, other):
        assert out.count(f"resuming after step 10 of {STEPS}") == 1
    assert_same_run(folder, one_device)
    ours, theirs = (files.read_json(path / "results.json") for path in (folder, one_device))
    assert ours["zsl"] == theirs["zsl"] and ours["gzsl"] == theirs["gzsl"]


SMALL = [
    *("--embedding_size=16", "--word_size=8", "--filters=8,8", "--lstm_units=8", "--max_tokens=8"),
    *(f"--steps={STEPS}", "--batch_size=16", "--captions=2", "--warmup_steps=2"),
    *("--log_every=10", "--checkpoint_every=10"),
]


@pytest.mark.slow
def test_a_worker_that_dies_stops_the_job_and_the_same_command_resumes_it(tmp_path, demo_data_dir):
    command = [ROOT / "train_main.py", "--config=small", f"--data_dir={demo_data_dir}", *SMALL]
    command += ["--distribute=multi_worker"]
    unbroken, folder = tmp_path / "unbroken", tmp_path / "run"
    chief, other = run([*command, f"--run_dir={unbroken}"], tmp_path, workers=2)
    assert "ZSL" in chief and "Worker 1 is done; worker 0 has the results." in other
    command.append(f"--run_dir={folder}")
    # The other worker dies in the first phase, then the chief in the second.
    for victim, phase in ((1, "validation"), (0, ".")):
        with processes(command, tmp_path, workers=2) as started:
            wait_for(folder / phase / "checkpoints" / "step_000000010.npz", started)
            started[victim].kill()
            message = error_line(started[1 - victim], timeout=60)
        assert "another worker ended or cannot be reached" in message
        assert "continues from the last checkpoint" in message
        assert not (folder / "results.json").exists()
    outputs = run(command, tmp_path, workers=2)
    assert "resuming after step" in outputs[0]
    assert_same_run(folder, unbroken, tolerance=1e-6, phases=("validation", "."))
    assert (folder / "results.json").read_text() == (unbroken / "results.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("differs", ["settings", "data"])
def test_workers_that_would_train_differently_are_refused(tmp_path, demo_data_dir, differs):
    for worker in range(2):
        (tmp_path / str(worker)).mkdir()
        vectors = f"bird 1 2 3\nred 4 5 {6 + worker * (differs == 'data')}\n"
        (tmp_path / str(worker) / "vectors.txt").write_text(vectors)
    command = [ROOT / "train_main.py", "--config=small", f"--data_dir={demo_data_dir}", *SMALL]
    command += ["--distribute=multi_worker", "--word_vectors=vectors.txt", "--run_dir=run"]
    command += ["--seed={worker}"] if differs == "settings" else []
    with processes(command, tmp_path / "{worker}", workers=2) as started:
        for process in started:
            message = error_line(process, timeout=300)
            assert message.startswith("error: the workers have different settings or different")


def wait_for(path: Path, started: list[subprocess.Popen]) -> None:
    deadline = time.monotonic() + 300
    while not path.exists():
        assert all(process.poll() is None for process in started)
        assert time.monotonic() < deadline
        time.sleep(0.01)


WORKER_0 = '"task": {"type": "worker", "index": 0}}'


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "it is not set"),
        ("nonsense", "it is not valid JSON"),
        ("[" * 100_000, "it is not valid JSON"),
        ("[]", "it has no 'cluster' in braces"),
        ('{"cluster": {"worker": ["a:1"]}, "task": 0}', "it has no 'task' in braces"),
        ('{"cluster": {}, ' + WORKER_0, "type of its task is 'worker', which is not a job"),
        ('{"cluster": {"worker": "a:1"}, ' + WORKER_0, "of its job 'worker' are not a list"),
        ('{"cluster": {"worker": ["a"]}, ' + WORKER_0, "address 'a' is not host:port"),
        ('{"cluster": {"worker": [":1"]}, ' + WORKER_0, "address ':1' is not host:port"),
        ('{"cluster": {"worker": [7]}, ' + WORKER_0, "address 7 is not a string"),
        ('{"cluster": {"worker": [["a:1"]]}, ' + WORKER_0, r"address \['a:1'\] is not a string"),
        ('{"cluster": {"worker": ["a:99999"]}, ' + WORKER_0, "port of 'a:99999' is not between"),
        ('{"cluster": {"worker": ["a:0"]}, ' + WORKER_0, "port of 'a:0' is not between"),
        ('{"cluster": {"worker": ["a..b:1"]}, ' + WORKER_0, "host of 'a..b:1' is not a valid name"),
        ('{"cluster": {"worker": ["::1:22"]}, ' + WORKER_0, "IPv6 goes in"),
        ('{"cluster": {"worker": ["a b:22"]}, ' + WORKER_0, "host of 'a b:22' is not a valid name"),
        ('{"cluster": {"worker": ["\\u0000:1"]}, ' + WORKER_0, "is not a valid name"),
        ('{"cluster": {"worker": ["a:1", "a:1"]}, ' + WORKER_0, "two workers have the address"),
        ('{"cluster": {"worker": ["a:1"], "chief": ["a:1"]}, ' + WORKER_0, "two workers have"),
        ('{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, ' + WORKER_0, "has a job 'ps'"),
        ('{"cluster": {"chief": ["a:1", "b:1"]}, ' + WORKER_0, "more than one chief"),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": ["worker"], "index": 0}}',
            r"type of its task is \['worker'\], which is not a job",
        ),
        *(
            (f'{{"cluster": {{"worker": ["a:1"]}}, "task": {{"type": "worker", {index}}}}}', says)
            for index, says in [
                ('"index": 1', "index of its task is 1, but 'worker' has 1"),
                ('"index": -1', "index of its task is -1, which is not the number of a worker"),
                ('"index": 0.5', "index of its task is 0.5, which is not the number of a worker"),
                ('"index": true', "index of its task is True, which is not the number of a worker"),
                ('"x": 0', "index of its task is None, which is not the number of a worker"),
            ]
        ),
    ],
)
def test_a_cluster_that_is_not_described(monkeypatch, value, complaint):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if value is not None:
        monkeypatch.setenv("TF_CONFIG", value)
    expected = f"needs the environment variable TF_CONFIG, .*; here .*{complaint}"
    with pytest.raises(ClarelError, match=expected):
        multi_worker()


def test_the_chief_comes_first(monkeypatch):
    cluster = {"worker": ["a:1", "b:2"], "chief": ["c:3"]}
    for task, index, number in (("chief", 0, 0), ("worker", 0, 1), ("worker", "1", 2)):
        task = {"type": task, "index": index}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        assert read_tf_config() == (["c:3", "a:1", "b:2"], number)


def test_a_batch_that_cannot_be_shared():
    class ThreeReplicas:
        num_replicas_in_sync = 3

    with pytest.raises(ClarelError, match=r"batch_size is 8, .* a multiple of 3"):
        Distribution(ThreeReplicas()).check_batch_size(8)
