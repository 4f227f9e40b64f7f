"""Plausible mistakes in flags: one line that names the flag and says what to do, no traceback."""

import json

import pytest

from tests.helpers.programs import call_program

MISTAKES = [
    ("train", ["--dataset=nope"], "unknown dataset 'nope' (--dataset)"),
    ("train", ["--config=nope"], "dataset 'demo' has no config 'nope' (--config)"),
    ("train", ["--config_file=none.json"], "--config_file: cannot read none.json"),
    ("train", ["--config_file=broken.json"], "--config_file: broken.json is not valid JSON"),
    ("train", ["--config_file=other.json"], "--config_file: unknown config key 'nonsense'"),
    ("train", ["--data_dir=a.txt"], "--data_dir=a.txt is a file; name the folder"),
    ("evaluate", ["--run_dir=none"], "--run_dir=none does not exist; name the folder"),
    ("evaluate", ["--run_dir=a.txt"], "--run_dir=a.txt was not made by clarel_tf"),
    ("extract", ["--images=.", "--output=a"], "--output=a must end in .npz"),
    ("extract", ["--images=.", "--output=a.npz", "--input_size=-3"], "flag --input_size=-3"),
    ("inspect", ["--dataset="], "unknown dataset '' (--dataset)"),
    ("sweep", ["--grid=kappa"], "--grid=kappa: expected NAME=VALUE"),
    ("sweep", ["--grid=kapa=1"], "--grid: unknown config key 'kapa'"),
    ("sweep", ["--grid=kappa=5"], "--grid: kappa must be at most 1"),
]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "a.txt").write_text("a text\n")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text(json.dumps({"nonsense": 1}))
    return tmp_path


@pytest.mark.parametrize(("program", "flags", "message"), MISTAKES)
def test_a_mistake_is_one_line_that_names_the_flag(place, program, flags, message):
    done = call_program(f"{program}_main.py", *flags, cwd=place)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.parametrize("program", [pytest.param("train", marks=pytest.mark.slow), "inspect"])
def test_a_wrong_vector_file_is_named_with_its_flag(place, demo_data_dir, program):
    for name in ("none.txt", "a.txt", "."):
        flags = ["--config=small", f"--data_dir={demo_data_dir}", f"--word_vectors={name}"]
        done = call_program(f"{program}_main.py", *flags, cwd=place)
        assert done.returncode == 1
        assert "word_vectors" in done.stderr and name in done.stderr


def test_a_vector_file_that_the_export_would_not_read_is_refused(finished_run, tmp_path):
    flags = [f"--run_dir={finished_run}", f"--export_dir={tmp_path / 'e'}", "--word_vectors=x"]
    done = call_program("export_main.py", *flags)
    assert done.returncode == 1
    assert "--word_vectors is for --export_vocabulary=all" in done.stderr
