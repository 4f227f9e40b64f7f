"""Whether a command may go on with a folder."""

import dataclasses
import shutil
import subprocess
import sys

import numpy as np
import pytest

from clarel_tf.config import Config
from clarel_tf.data.protocols import apply_protocol
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import opened_run
from clarel_tf.experiments.fingerprints import split_fingerprints
from clarel_tf.experiments.reevaluation import evaluate_run
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.storage import checksums, files
from clarel_tf.storage.files import read_json
from tests.conftest import NAMES


def make_run(path, config=Config(), steps=100) -> RunFolder:
    """A run that has a checkpoint."""
    folder = RunFolder(path)
    with folder.opened(config):
        (folder.path / "checkpoints").mkdir()
        (folder.path / "checkpoints" / f"step_{steps:09d}.npz").write_bytes(b"")
    return folder


def open_and_close(folder: RunFolder, config=Config(), **flags) -> None:
    with folder.opened(config, **flags):
        pass


def test_the_same_config_may_go_on_and_another_may_not(tmp_path):
    folder = make_run(tmp_path / "deep" / "run", Config(seed=4))
    open_and_close(folder, Config(seed=4))
    with pytest.raises(ClarelError, match="seed=4, now it is 5"):
        open_and_close(folder, Config(seed=5))
    assert list(folder.path.rglob("step_*.npz"))


def test_a_run_that_failed_at_once_does_not_claim_its_folder(tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    open_and_close(folder, Config(seed=4))
    folder.data.begin({"train": "aa"})
    (folder.validation / "vocabulary.txt").write_text("bird")
    (folder.validation / "history.csv").write_text("step,loss")
    open_and_close(folder, Config(seed=4))
    assert capsys.readouterr().out == ""
    open_and_close(folder, Config(seed=5))
    told = capsys.readouterr().out
    assert "ended before its first checkpoint. Nothing of it is used" in told
    assert "(that one had seed=4)" in told
    assert not list(folder.validation.iterdir())
    folder.data.begin({"train": "bb"})
    assert '"seed": 5' in folder.config_path.read_text()


def test_restart_begins_anew_and_touches_nothing_else(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder.path / "results.json").write_text("{}")
    open_and_close(folder, Config(seed=1), restart=True)
    assert not folder.results_path.exists() and not list(folder.path.rglob("*.npz"))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ClarelError, match=r"not made by clarel_tf: it holds notes\.txt, run"):
        open_and_close(RunFolder(tmp_path), restart=True)
    assert (tmp_path / "notes.txt").exists()


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ClarelError, match="is a file"):
        open_and_close(RunFolder(tmp_path / "run"))
    with pytest.raises(ClarelError, match="cannot write to run_dir"):
        open_and_close(RunFolder(tmp_path / "run" / "below"))


def test_a_damaged_config_is_named(tmp_path):
    folder = make_run(tmp_path / "run")
    folder.config_path.write_text(folder.config_path.read_text()[:-20])
    with pytest.raises(ClarelError, match=r"config\.json is not valid JSON"):
        open_and_close(folder)


def test_other_data_is_refused(tmp_path):
    folder = make_run(tmp_path / "run")
    folder.data.begin({"train": {"images": "aa"}})
    folder.data.begin({"train": {"images": "aa"}})
    with pytest.raises(ClarelError, match="split 'train' of the dataset is not what the run"):
        folder.data.begin({"train": {"images": "bb"}})


def test_features_of_another_backbone_are_refused(tmp_path, splits, small_config, finished_run):
    def of(backbone, config=small_config):
        made = {name: dataclasses.replace(one, backbone=backbone) for name, one in splits.items()}
        return apply_protocol(made, config.protocol, config.class_division)

    first = BackboneRecord("ResNet50", "ab" * 32, 224, "caffe", False, 12)
    run = tmp_path / "run"
    with opened_run(run, small_config, of(first)):
        assert read_json(run / "data.json")["backbone"]["weights_sha256"] == "ab" * 32
        assert RunFolder(run).data.backbone == first
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step_000000004.npz").write_bytes(b"")  # there is work to lose
    other = dataclasses.replace(first, input_size=448, mirrored=True)
    message = (
        "the features of the run in .*run and of the dataset come from different backbones: "
        "input_size 224 and 448; mirrored False and True"
    )
    with pytest.raises(ClarelError, match=message), opened_run(run, small_config, of(other)):
        pass
    # A dataset may not say which network it was; then the features themselves are compared.
    with opened_run(run, small_config, of(None)):
        pass
    older = shutil.copytree(finished_run, tmp_path / "older")
    RunFolder(older).data.check(split_fingerprints(of(first)))
    evaluated = shutil.copytree(finished_run, tmp_path / "evaluated")
    noted = checksums.read_json(evaluated / "data.json", "")
    checksums.write_json(evaluated / "data.json", noted | {"backbone": dataclasses.asdict(first)})
    with pytest.raises(ClarelError, match="come from different backbones"):
        evaluate_run(RunFolder(evaluated), small_config, of(other), NAMES, seed=0)


def test_a_second_process_is_kept_out(tmp_path):
    folder = RunFolder(tmp_path / "run")
    code = f"""
from clarel_tf.config import Config
from clarel_tf.experiments.run_folder import RunFolder
with RunFolder({str(folder.path)!r}).opened(Config()):
    pass
"""
    with folder.opened(Config()):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "another process is working in run_dir" in done.stderr
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_leftovers_of_a_killed_writer_are_removed(tmp_path):
    folder = make_run(tmp_path / "run")
    leftover = folder.path / ".123.partial.history.csv"
    leftover.write_text("half")
    open_and_close(folder)
    assert not leftover.exists()


def test_a_run_of_0_1_is_evaluated_with_what_it_called_calibration(
    tmp_path, finished_run, splits, small_config
):
    run = shutil.copytree(finished_run, tmp_path / "run")
    selection = run / "validation" / "selection.json"
    values = read_json(selection)
    del values["alpha_captions_alone"], values["head_evidence"]
    files.write_json(run / "validation" / "calibration.json", values)
    selection.unlink()
    results, measures = evaluate_run(RunFolder(run), small_config, splits, NAMES, seed=0)
    assert measures.prototypes["all"].gzsl == results.gzsl
    assert not selection.exists()


def test_a_new_selection_counts_more_than_an_older_one(tmp_path, finished_run):
    run = shutil.copytree(finished_run, tmp_path / "run")
    shutil.copy(run / "validation" / "selection.json", run / "validation" / "calibration.json")
    assert RunFolder(run).selection_path.name == "selection.json"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("alpha", -2.0, "alpha is -2"), ("temperature", 0.0, "temperature is 0")],
)
def test_values_that_no_rule_can_use_are_refused(tmp_path, finished_run, name, value, message):
    run = shutil.copytree(finished_run, tmp_path / "run")
    values = read_json(run / "results.json") | {name: value}
    checksums.write_json(run / "results.json", values)
    with pytest.raises(ClarelError, match=message):
        RunFolder(run).read_results()


def test_kept_classes_that_do_not_fit_together_are_refused(tmp_path, finished_run):
    with np.load(finished_run / "classes.npz") as file:
        arrays = dict(file)
    ClassStore.load(finished_run / "classes.npz")
    for name, value in (
        ("is_seen", arrays["is_seen"][:-1]),
        ("names", arrays["names"][:-1]),
        ("counts", arrays["counts"] * 0),
        ("sums", arrays["sums"] * np.nan),
        ("caption_scatter", np.ones(3)),
        ("image_whitener", np.ones((3, 3))),
        ("discriminant_mean", np.ones(3)),  # and no other array of the discriminants
    ):
        path = tmp_path / "classes.npz"
        np.savez(path, **{**arrays, name: value})
        with pytest.raises(ClarelError, match=r"classes\.npz"):
            ClassStore.load(path)
