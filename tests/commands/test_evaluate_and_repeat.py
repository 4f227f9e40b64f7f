"""evaluate_main.py and --repeats, in real processes; refusing to choose alpha on test."""

import json
import re
import shutil
import statistics
from pathlib import Path

import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.selection import select
from clarel_tf.experiments.training_phase import build_model
from clarel_tf.models.saving import load_model
from clarel_tf.models.vocabulary import build_vocabulary
from clarel_tf.reporting.statistics import MeanAndInterval, mean_and_interval
from tests.conftest import dataset_of_programs
from tests.helpers.independent_check import measure
from tests.helpers.programs import call_program, run_program


def test_repeats_have_their_own_seeds_and_folders(repeated_run):
    folder = repeated_run
    summary = json.loads((folder / "run" / "repeats.json").read_text())
    results = [
        json.loads((folder / "run" / f"seed_{seed}" / "results.json").read_text())
        for seed in (0, 1)
    ]
    assert [one["seed"] for one in results] == [0, 1] == summary["seeds"]
    weights = [
        load_model(folder / "run" / f"seed_{seed}" / "model.keras").get_weights() for seed in (0, 1)
    ]
    assert any((one != other).any() for one, other in zip(*weights, strict=True))
    values = [one["gzsl"]["h"] for one in results]
    assert summary["measures"]["h"]["mean"] == pytest.approx(statistics.mean(values))
    # Two values: t(0.975, 1) = 12.706, times their standard deviation over the root of 2.
    expected = 12.7062 * statistics.stdev(values) / 2**0.5
    assert summary["measures"]["h"]["interval"] == pytest.approx(expected, rel=1e-4)
    assert "2 repeats, seeds 0 to 1" in (folder / "stdout.txt").read_text()


def test_the_models_of_all_seeds_are_one_more_run(repeated_run):
    run_dir = repeated_run / "run" / "ensemble"
    results = json.loads((run_dir / "results.json").read_text())
    assert results["seeds"] == [0, 1]
    summary = json.loads((repeated_run / "run" / "repeats.json").read_text())
    assert summary["ensemble"]["h"] == results["gzsl"]["h"]
    assert "their ensemble" in (repeated_run / "stdout.txt").read_text()
    assert "ensemble of seeds 0, 1" in (run_dir / "report.html").read_text()


@pytest.fixture(scope="module")
def repeated_demo(tmp_path_factory, demo_run) -> tuple[Path, list[str]]:
    """Two seeds of the demo and their ensemble, in the folder `run`, and the flags of it.

    The first seed was trained before. For the slow tests.
    """
    folder, flags = demo_run
    run_dir = tmp_path_factory.mktemp("repeated") / "run"
    shutil.copytree(folder / "runs" / "demo", run_dir / "seed_0")
    flags = [*flags, "--repeats=2", "--ensemble"]
    done = run_program("train_main.py", *flags, f"--run_dir={run_dir}")
    assert done.returncode == 0, done.stderr
    return run_dir.parent, flags


@pytest.mark.slow
def test_a_series_goes_on_where_it_stopped(repeated_demo, tmp_path):
    folder, flags = repeated_demo
    run_dir = Path(shutil.copytree(folder / "run", tmp_path / "run"))
    before = (run_dir / "seed_0" / "results.json").stat().st_mtime_ns
    shutil.rmtree(run_dir / "seed_1")
    (run_dir / "repeats.json").unlink()
    assert run_program("train_main.py", *flags, f"--run_dir={run_dir}").returncode == 0
    assert (run_dir / "seed_0" / "results.json").stat().st_mtime_ns == before
    assert (run_dir / "repeats.json").read_text() == (folder / "run/repeats.json").read_text()


@pytest.mark.parametrize("kind", [pytest.param("run", marks=pytest.mark.slow), "ensemble"])
def test_evaluating_again_gives_the_same_measures(request, splits, demo_data_dir, tmp_path, kind):
    if kind == "run":
        finished = request.getfixturevalue("demo_run")[0] / "runs" / "demo"
    else:
        finished = request.getfixturevalue("repeated_run") / "run" / "ensemble"
    run_dir = Path(shutil.copytree(finished, tmp_path / "run"))
    before = {name: (run_dir / name).read_text() for name in ("evaluation.json", "report.html")}
    for name in before:
        (run_dir / name).unlink()
    flags = [f"--run_dir={run_dir}", f"--data_dir={demo_data_dir}"]
    if kind == "run":
        done = run_program("evaluate_main.py", *flags)
    else:
        with dataset_of_programs(splits):
            done = call_program("evaluate_main.py", *flags)
    assert done.returncode == 0, done.stderr
    assert "leave_own_out" in done.stdout and "AP@50" in done.stdout
    assert {name: (run_dir / name).read_text() for name in before} == before


@pytest.mark.slow
def test_an_exported_ensemble_gives_its_measures(repeated_demo, demo_data_dir, tmp_path):
    """By a plain loop outside of the package."""
    run_dir = repeated_demo[0] / "run" / "ensemble"
    data, exports = demo_data_dir, tmp_path / "exports"
    exporting = call_program(
        "export_main.py", f"--run_dir={run_dir}", f"--export_dir={exports}", f"--data_dir={data}"
    )
    assert exporting.returncode == 0, exporting.stderr
    (built,) = (data / "demo" / "small").glob("*.*.*")
    found, expected = measure(run_dir, exports, built)
    assert found == pytest.approx(expected, abs=1e-6)


def test_an_ensemble_of_one_is_refused_before_anything_is_trained(tmp_path):
    done = call_program("train_main.py", "--ensemble", f"--run_dir={tmp_path / 'run'}")
    assert done.returncode == 1
    assert "add --repeats" in done.stderr
    assert not (tmp_path / "run").exists()


def test_what_is_not_a_finished_run_is_refused(tmp_path):
    for flags, message in (
        ([], "--run_dir is missing"),
        ([f"--run_dir={tmp_path}"], "holds no finished run"),
    ):
        done = call_program("evaluate_main.py", *flags)
        assert done.returncode == 1
        assert done.stderr.startswith("error: ") and message in done.stderr


def test_a_damaged_model_is_named(finished_run, tmp_path):
    run_dir = Path(shutil.copytree(finished_run, tmp_path / "run"))
    model = run_dir / "model.keras"
    model.write_bytes(model.read_bytes()[:-2000])
    with pytest.raises(ClarelError, match=f"{re.escape(str(model))} is damaged or was changed"):
        load_model(model)


def test_alpha_is_never_chosen_on_test(splits, small_config):
    support = splits["trainval"]
    words = build_vocabulary(c for captions in support.captions for c in captions)
    model = build_model(small_config, words, support, 6)
    with pytest.raises(ClarelError, match="alpha must not be chosen on 'test_seen'"):
        select(model, splits["test_seen"], splits["test_unseen"], [support])


def test_a_single_run_has_no_interval():
    assert mean_and_interval([3.0]) == MeanAndInterval(3.0, None)
