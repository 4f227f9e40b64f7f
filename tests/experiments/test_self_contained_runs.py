"""A run keeps the word vectors that it needs: their file may move."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import run_experiment, run_validation
from clarel_tf.experiments.kept_vectors import keep_vectors, read_kept_vectors
from clarel_tf.experiments.reevaluation import evaluate_run
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.storage.files import read_json
from clarel_tf.storage.word_vectors import load_word_vectors
from tests.conftest import NAMES
from tests.helpers.programs import SMALL_MODEL, call_program

WORDS = ("a", "red", "blue", "green", "white", "black", "brown", "grey", "pink", "purple")


def write_vectors(path: Path, seed: int = 0) -> Path:
    rows = np.random.default_rng(seed).normal(size=(len(WORDS), 5)).round(3)
    lines = [" ".join([word, *map(str, row)]) for word, row in zip(WORDS, rows, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def test_kept_vectors_are_those_of_the_file(tmp_path, splits):
    source = write_vectors(tmp_path / "vectors.txt")
    kept = tmp_path / "kept.npz"
    keep_vectors(kept, str(source), (splits["train"], splits["trainval"]))
    asked = ["brown", "bird", "red", "purple"]
    ours, theirs = read_kept_vectors(kept, asked), load_word_vectors(source, asked)
    np.testing.assert_array_equal(ours.matrix[:3], theirs.matrix[:3])
    # "purple" is in the file, but in no caption: only what is needed is kept.
    assert ours.missing == ["bird", "purple"] and theirs.missing == ["bird"]
    damaged = bytearray(kept.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    kept.write_bytes(damaged)
    with pytest.raises(ClarelError, match="SHA-256"):
        read_kept_vectors(kept, asked)


def test_a_run_goes_on_and_is_evaluated_without_its_vector_file(tmp_path, splits, small_config):
    source = write_vectors(tmp_path / "files" / "vectors.txt")
    config = small_config.override({"word_vectors": str(source)})
    whole = run_experiment(config, splits, tmp_path / "whole", NAMES)
    run_validation(config, splits, tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "early")
    shutil.move(source, tmp_path / "moved.txt")
    # The second phase has words that the first had not, and their vectors.
    assert run_experiment(config, splits, tmp_path / "run", NAMES) == whole
    evaluation = read_json(tmp_path / "run" / "evaluation.json")
    folder = RunFolder(tmp_path / "run")
    assert evaluate_run(folder, config, splits, NAMES, config.seed)[1] == evaluation
    # So it is where the run was killed before its first checkpoint.
    chosen = read_json(folder.calibration_path)
    for path in (tmp_path / "early").rglob("*"):
        if path.name in ("model.keras", "calibration.json", "checkpoints"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert run_validation(config, splits, tmp_path / "early") == chosen
    # Where the file is now may be said, and it is compared.
    moved = config.override({"word_vectors": str(tmp_path / "moved.txt")})
    assert run_experiment(moved, splits, tmp_path / "run", NAMES)["zsl"] == whole["zsl"]
    write_vectors(tmp_path / "moved.txt", seed=1)
    with pytest.raises(ClarelError, match="the word-vector file is not what"):
        run_experiment(moved, splits, tmp_path / "run", NAMES)
    with pytest.raises(ClarelError, match=r"word_vectors=.*, now it is"):
        run_experiment(small_config, splits, tmp_path / "run", NAMES)


def test_export_needs_the_file_for_all_its_words_alone(tmp_path, demo_data_dir):
    source = write_vectors(tmp_path / "files" / "vectors.txt")
    data, run_dir = f"--data_dir={demo_data_dir}", f"--run_dir={tmp_path / 'run'}"
    flags = [*SMALL_MODEL, "--steps=4", "--batch_size=16", "--captions=1", "--warmup_steps=1"]
    done = call_program("train_main.py", data, run_dir, *flags, f"--word_vectors={source}")
    assert done.returncode == 0, done.stderr
    shutil.move(source, tmp_path / "moved.txt")
    write_vectors(tmp_path / "other.txt", seed=1)
    export = ["export_main.py", data, run_dir, f"--export_dir={tmp_path / 'models'}"]
    done = call_program(*export)
    assert done.returncode == 0, done.stderr
    every_word = [*export, "--export_vocabulary=all"]
    for flags, message in (
        ([], "say where it is with --word_vectors"),
        ([f"--word_vectors={tmp_path / 'other.txt'}"], "the word-vector file is not what"),
    ):
        done = call_program(*every_word, *flags)
        assert done.returncode == 1 and message in done.stderr, done.stderr
    done = call_program(*every_word, f"--word_vectors={tmp_path / 'moved.txt'}")
    assert done.returncode == 0, done.stderr
    assert "Exported version 2" in done.stdout
