"""Whether a command may go on with a folder."""

import pytest

from clarel_tf.config import Config
from clarel_tf.errors import ClarelError
from clarel_tf.run_folder import RunFolder


def test_a_new_folder_gets_the_config_and_the_same_config_may_go_on(tmp_path):
    folder = RunFolder(tmp_path / "deep" / "run")
    folder.open(Config(seed=4))
    RunFolder(folder.path).open(Config(seed=4))
    with pytest.raises(ClarelError, match="seed=4, now it is 5"):
        RunFolder(folder.path).open(Config(seed=5))


def test_restart_deletes_a_run_but_nothing_else(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.open(Config())
    (folder.path / "results.json").write_text("{}")
    folder.open(Config(seed=1), restart=True)
    assert not folder.results_path.exists()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ClarelError, match="holds no run"):
        RunFolder(tmp_path).open(Config(), restart=True)
    assert (tmp_path / "notes.txt").exists()


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ClarelError, match="is a file"):
        RunFolder(tmp_path / "run").open(Config())
    with pytest.raises(ClarelError, match="cannot write to run_dir"):
        RunFolder(tmp_path / "run" / "below").open(Config())


def test_a_damaged_config_is_named(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.open(Config())
    folder.config_path.write_text(folder.config_path.read_text()[:-20])
    with pytest.raises(ClarelError, match=r"config\.json is not valid JSON"):
        folder.open(Config())


def test_other_data_is_refused(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.open(Config())
    folder.check_data({"train": {"images": "aa"}})
    folder.check_data({"train": {"images": "aa"}})
    with pytest.raises(ClarelError, match="not the one that the run"):
        folder.check_data({"train": {"images": "bb"}})
