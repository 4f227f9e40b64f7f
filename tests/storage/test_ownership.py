"""No folder is emptied that the programs did not fill, and no finished model is lost."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from clarel_tf.config import Config
from clarel_tf.data.loading import get_builder
from clarel_tf.data.preparation import prepare
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.ensemble_run import run_ensemble
from clarel_tf.experiments.experiment import run_experiment, run_validation
from clarel_tf.experiments.repeats import run_repeats
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.experiments.sweep import claim_sweep_dir
from clarel_tf.experiments.training_phase import save_model
from clarel_tf.models.saving import load_model
from clarel_tf.serving.export import export_run
from clarel_tf.storage import ownership
from clarel_tf.storage.files import read_json
from tests.conftest import NAMES
from tests.helpers.pairs_data import make_data, write_folder
from tests.helpers.programs import SMALL_MODEL, call_program


def contents(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, but for the lock."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def somebodys_folder(path: Path) -> Path:
    """Looks like a run by the name of one file."""
    (path / "thesis").mkdir(parents=True)
    (path / "config.json").write_text('{"name": "x"}')
    (path / "thesis" / "a.tex").write_text("work")
    return path


def test_the_program_refuses_a_folder_of_somebody_else(tmp_path, demo_data_dir):
    folder = somebodys_folder(tmp_path / "p")
    before = contents(tmp_path)
    flags = ["--config=small", "--steps=20", f"--data_dir={demo_data_dir}", *SMALL_MODEL]
    for more in ([], ["--restart"]):
        done = call_program("train_main.py", *flags, f"--run_dir={folder}", *more)
        assert done.returncode == 1
        assert "was not made by clarel_tf: it holds config.json, thesis" in done.stderr
        assert contents(tmp_path) == before


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kind", ["run", "validation", "repeats", "ensemble", "sweep", "export"])
def test_every_kind_of_folder_is_refused_if_it_is_not_ours(
    tmp_path, splits, small_config, finished_run, kind, restart
):
    folder = somebodys_folder(tmp_path / "p")
    (folder / "models.config").write_text("of other models")
    before = contents(folder)
    actions = {
        "run": lambda: run_experiment(small_config, splits, folder, restart=restart),
        "validation": lambda: run_validation(small_config, splits, folder, restart=restart),
        "repeats": lambda: run_repeats(small_config, splits, folder, 2, restart=restart),
        "ensemble": lambda: run_ensemble(
            small_config, splits, folder, [finished_run] * 2, restart=restart
        ),
        "sweep": lambda: claim_sweep_dir(folder),
        "export": lambda: export_run(None, {}, [], {}, folder),
    }
    with pytest.raises(ClarelError, match=r"was not made by clarel_tf: it holds config\.json"):
        actions[kind]()
    assert contents(folder) == before
    assert not (folder / ".lock").exists()


def test_a_folder_is_for_one_kind_of_thing(tmp_path, splits, finished_run):
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    before = contents(run)
    with pytest.raises(ClarelError, match="marked as 'run', not 'export'"):
        export_run(None, {}, [], {}, run)
    with pytest.raises(ClarelError, match="marked as 'run', not 'series of repeats'"):
        run_repeats(Config(), splits, run, 2)
    assert contents(run) == before


def test_restart_moves_a_finished_run_aside(tmp_path, splits, small_config, finished_run, capsys):
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    before = contents(run)
    other = small_config.override({"seed": 5})
    for number in (1, 2):
        with RunFolder(run).opened(other, restart=True):
            (run / "model.keras").write_bytes(b"made by the second run")
        aside = tmp_path / f"run.old-{number}"
        assert f"is now in {aside}" in capsys.readouterr().out
        assert (run / "model.keras").exists() and not (run / "results.json").exists()
    assert contents(tmp_path / "run.old-1") == before
    assert (tmp_path / "run.old-2" / "model.keras").read_bytes() == b"made by the second run"


def test_restart_refuses_a_run_with_something_else_in_it(tmp_path, small_config, finished_run):
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / "notes").mkdir()
    (run / "notes" / "mine.txt").write_text("work")
    (run / "validation" / "data").symlink_to(elsewhere)
    (run / "empty").mkdir()
    before = contents(run)
    expected = (
        r"holds empty/, notes/mine\.txt, validation/data \(a link\), not written by clarel_tf"
    )
    with (
        pytest.raises(ClarelError, match=expected),
        RunFolder(run).opened(small_config, restart=True),
    ):
        pass
    assert contents(run) == before and (run / "empty").is_dir()
    # Going on deletes nothing, so a note beside the run does no harm.
    with RunFolder(run).opened(small_config):
        pass
    assert contents(run) == before


def test_restart_of_the_current_folder_is_refused(
    tmp_path, small_config, finished_run, monkeypatch
):
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    before = contents(run)
    for here, named in ((run, "."), (run / "validation", "..")):
        monkeypatch.chdir(here)
        with (
            pytest.raises(ClarelError, match="is the current folder"),
            RunFolder(named).opened(small_config, restart=True),
        ):
            pass
    assert contents(run) == before and not (tmp_path / "run.old-1").exists()


@pytest.mark.parametrize("linked", ["checkpoints", "validation", "validation/checkpoints"])
def test_what_is_behind_a_link_is_left_alone(tmp_path, small_config, finished_run, linked):
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    other = Path(shutil.copytree(finished_run, tmp_path / "other"))
    shutil.rmtree(run / linked)
    (run / linked).symlink_to(other / linked)
    before = contents(other)
    with pytest.raises(ClarelError, match="is a link"), RunFolder(run).opened(small_config):
        pass
    assert contents(other) == before
    # A link to a file, in a run that has nothing to lose otherwise.
    mine, empty = tmp_path / "precious.txt", tmp_path / "empty"
    mine.write_text("work")
    empty.mkdir()
    ownership.write_mark(empty, "run")
    (empty / "history.csv").symlink_to(mine)
    expected = r"holds history\.csv \(a link\)"
    with pytest.raises(ClarelError, match=expected), RunFolder(empty).opened(small_config):
        pass
    assert (empty / "history.csv").is_symlink() and mine.read_text() == "work"


def test_no_damaged_model_takes_the_place_of_another(tmp_path, small_config, finished_run):
    """tests/storage/test_damage.py has a whole run that finds one."""
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    model, damaged = load_model(run / "model.keras"), []
    for letter in (b"x", b"y"):
        damaged.append((run / "model.keras").read_bytes() + letter)
        (run / "model.keras").write_bytes(damaged[-1])
        save_model(model, run / "model.keras")
        assert load_model(run / "model.keras").feature_size == model.feature_size
    kept = [run / "model.keras.damaged", run / "model.keras.damaged-2"]
    assert [path.read_bytes() for path in kept] == damaged
    with RunFolder(run).opened(small_config, restart=True):  # they are files of ours
        assert not kept[0].exists()


def test_a_run_without_work_is_cleared_by_name(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with folder.opened(Config(seed=4)):
        folder.data.begin({"train": "aa"})
    (folder.path / "mine.txt").write_text("work")
    with pytest.raises(ClarelError, match=r"holds mine\.txt"), folder.opened(Config(seed=5)):
        pass
    assert folder.data.has_begun and (folder.path / "mine.txt").read_text() == "work"


def test_an_older_run_without_a_mark_goes_on(tmp_path, splits, small_config, finished_run):
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    (run / ownership.MARK).unlink()
    (run / "results.json").unlink()
    run_validation(small_config, splits, run)
    assert ownership.kind_of(run) == "run"
    # But not one whose config nobody vouches for.
    other = Path(shutil.copytree(finished_run, tmp_path / "other"))
    (other / ownership.MARK).unlink()
    (other / "config.json").write_text("{}")
    with pytest.raises(ClarelError, match="was not made by clarel_tf"):
        run_experiment(small_config, splits, other, NAMES)


def test_older_series_and_sweeps_go_on(tmp_path, finished_run):
    for name, make in (("series", None), ("sweep", claim_sweep_dir)):
        folder = tmp_path / name
        child = "seed_0" if name == "series" else "kappa=0.5,seed=0"
        shutil.copytree(finished_run, folder / child)
        (folder / child / ownership.MARK).unlink()
        if name == "sweep":
            (folder / "configs").mkdir()
            (folder / "sweep.csv").write_text("run\n")
            make(folder)
            assert ownership.kind_of(folder) == "sweep"
        (folder / "mine.txt").write_text("work")
    with pytest.raises(ClarelError, match=r"mine\.txt"):
        run_repeats(Config(), {}, tmp_path / "series", 1)


def test_the_advice_of_the_messages_loses_no_model(tmp_path, splits, small_config, finished_run):
    """Both `checkpoints/` are gone and results.json is damaged: what is told is done."""
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    models = {name: contents(run)[name] for name in ("model.keras", "validation/model.keras")}
    results = (run / "results.json").read_bytes()
    for folder in (run, run / "validation"):
        shutil.rmtree(folder / "checkpoints")
    (run / "results.json").write_bytes(results.replace(b'"seed": 0', b'"seed": 1'))
    with pytest.raises(ClarelError, match=r"results\.json is damaged .* delete it"):
        run_experiment(small_config, splits, run, NAMES)
    (run / "results.json").unlink()
    history = (run / "history.csv").stat().st_mtime_ns
    run_experiment(small_config, splits, run, NAMES)
    assert {name: contents(run)[name] for name in models} == models
    assert (run / "results.json").read_bytes() == results
    assert (run / "history.csv").stat().st_mtime_ns == history  # nothing was trained


@pytest.mark.slow  # as with the results above
def test_a_damaged_calibration_is_made_again(tmp_path, splits, small_config, finished_run):
    """With the model of the first phase."""
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    results = (run / "results.json").read_bytes()
    calibration = run / "validation" / "selection.json"
    good = calibration.read_bytes()
    calibration.write_bytes(good.replace(b"0", b"1", 1))
    (run / "results.json").unlink()
    with pytest.raises(ClarelError, match=r"selection\.json is damaged .* delete it"):
        run_experiment(small_config, splits, run, NAMES)
    calibration.unlink()
    run_experiment(small_config, splits, run, NAMES)
    assert calibration.read_bytes() == good
    assert (run / "results.json").read_bytes() == results


def test_a_run_that_lost_its_config_is_not_deleted(tmp_path, small_config, finished_run):
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    (run / "config.json").unlink()
    before = contents(run)
    expected = r"config\.json is missing"
    with pytest.raises(ClarelError, match=expected), RunFolder(run).opened(small_config):
        pass
    assert contents(run) == before
    with RunFolder(run).opened(small_config, restart=True):
        pass
    assert contents(tmp_path / "run.old-1") == before


def test_an_ensemble_of_other_models_is_moved_aside(tmp_path, splits, small_config, repeated_run):
    shutil.copytree(repeated_run / "run", tmp_path / "runs")
    ensemble = tmp_path / "runs" / "ensemble"
    before = contents(ensemble)
    run_repeats(small_config, splits, tmp_path / "runs", 2, ensemble=True)
    assert contents(ensemble) == before
    # A member has other weights: the ensemble is out of date, though its seeds are the same.
    members = [tmp_path / "runs" / "seed_0", tmp_path / "runs" / "seed_1"]
    model = load_model(members[1] / "model.keras")
    model.trainable_variables[0].assign(model.trainable_variables[0] + 1.0)
    (members[1] / "model.keras").unlink()
    save_model(model, members[1] / "model.keras")
    run_ensemble(small_config, splits, ensemble, members)
    assert contents(tmp_path / "runs" / "ensemble.old-1") == before
    assert read_json(ensemble / "results.json")["seeds"] == [0, 1]


def test_evaluation_writes_into_no_folder_of_somebody_else(tmp_path):
    folder = somebodys_folder(tmp_path / "p")
    (folder / "results.json").write_text("{}")
    before = contents(folder)
    done = call_program("evaluate_main.py", f"--run_dir={folder}")
    assert done.returncode == 1 and "was not made by clarel_tf" in done.stderr
    assert "name the folder of a finished run" in done.stderr and "new folder" not in done.stderr
    assert contents(folder) == before


def test_an_export_refuses_before_its_work_and_leaves_everything(tmp_path, exported_run):
    """tests/serving/test_export_versions.py has one that leaves what a person put beside it."""
    folder = Path(shutil.copytree(exported_run, tmp_path / "models"))
    (folder / "compose.yml").write_text("mine")
    (folder / "checksums.json").write_text("[]")
    before = contents(folder)
    with pytest.raises(ClarelError, match=r"checksums\.json is damaged; delete it"):
        export_run(None, {}, [], {}, folder)
    assert contents(folder) == before
    # As the message says.
    (folder / "checksums.json").unlink()
    (folder / ".staging").mkdir()
    (folder / ".staging" / "mine.txt").write_text("work")
    before = contents(folder)
    with pytest.raises(ClarelError, match=r"\.staging was not made by clarel_tf"):
        export_run(None, {}, [], {}, folder)
    assert contents(folder) == before


def test_what_killed_builds_left_is_told_from_what_is_not_ours(tmp_path):
    home = tmp_path / "pairs" / "plain"
    mine = home / "incomplete.AAAAAA_1.0.0"
    mine.mkdir(parents=True)
    raw = write_folder(tmp_path / "raw", make_data(5, 4, range(1, 2), 3))
    (mine / "thesis.tex").write_text("work")
    mixed, left = home / "incomplete.BBBBBB_1.0.0", home / "incomplete.CCCCCC_1.0.0"
    for folder in (mixed, left):
        folder.mkdir()
        ownership.write_mark(folder, "dataset")
        (folder / "pairs-train.tfrecord-00000-of-00001").write_bytes(b"half")
        (folder / "bucket_001.tmp").write_bytes(b"half")
    (mixed / "notes.txt").write_text("work")
    finished = home / "finished"
    shutil.copytree(left, finished)
    (home / "incomplete.FFFFFF_1.0.0").symlink_to(finished)
    busy = home / "incomplete.DDDDDD_1.0.0"
    busy.mkdir()
    (home / "incomplete.EEEEEE_1.0.0").mkdir()
    with ownership.marked_while_used(busy, "dataset"):
        prepare(get_builder("pairs", "plain", data_dir=str(tmp_path)), str(raw))
    assert (mine / "thesis.tex").read_text() == "work"
    assert (mixed / "notes.txt").exists() and (mixed / "bucket_001.tmp").exists()
    assert busy.exists() and not left.exists()
    assert (finished / "bucket_001.tmp").exists()
    assert not (home / "incomplete.EEEEEE_1.0.0").exists()
    assert ownership.kind_of(home / "1.0.0") == "dataset"


def test_a_lock_of_somebody_else_keeps_its_contents(tmp_path):
    (tmp_path / ".lock").write_text("pid 7")
    with pytest.raises(ClarelError, match=r"it holds \.lock"), RunFolder(tmp_path).opened(Config()):
        pass
    assert (tmp_path / ".lock").read_text() == "pid 7"


def test_deletion_by_name(tmp_path):
    own = re.compile(r"a\.txt|below/b\.txt|empty/")
    (tmp_path / "below").mkdir()
    (tmp_path / "empty").mkdir()
    for name in ("a.txt", "below/b.txt", "below/.7.partial.b.txt", "keep.txt"):
        (tmp_path / name).write_text("")
    with pytest.raises(ClarelError, match=r"holds keep\.txt"):
        ownership.delete_own(tmp_path, own, "folder")
    (tmp_path / "keep.txt").unlink()
    ownership.delete_own(tmp_path, own, "folder", keep=["a.txt"])
    assert os.listdir(tmp_path) == ["a.txt"]
    assert json.dumps(ownership.read_mark(tmp_path)) == "{}"
