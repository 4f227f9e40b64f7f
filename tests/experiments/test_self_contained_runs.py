"""A run keeps the word vectors that it needs: their file may move."""

import shutil

import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.measures import Measures
from clarel_tf.experiments.experiment import run_experiment, run_validation
from clarel_tf.experiments.kept_vectors import keep_vectors, read_kept_vectors
from clarel_tf.experiments.reevaluation import evaluate_run
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.storage.files import read_json
from clarel_tf.storage.records import from_json
from clarel_tf.storage.word_vectors import load_word_vectors
from tests.conftest import NAMES, write_vectors
from tests.helpers.programs import call_program


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


def test_a_run_goes_on_and_is_evaluated_without_its_vector_file(tmp_path, splits, run_with_vectors):
    config, reference, moved = run_with_vectors
    whole = RunFolder(reference).read_results()
    shutil.copytree(reference.with_name("half"), tmp_path / "run")
    # The second phase has words that the first had not, and their vectors.
    first = tmp_path / "run" / "validation" / "model.keras"
    before = first.stat().st_mtime_ns
    assert run_experiment(config, splits, tmp_path / "run", NAMES) == whole
    assert first.stat().st_mtime_ns == before
    evaluation = read_json(tmp_path / "run" / "evaluation.json")
    folder = RunFolder(tmp_path / "run")
    assert evaluate_run(folder, config, splits, NAMES, config.seed)[1] == from_json(
        Measures, evaluation, "evaluation.json"
    )
    # Where the file is now may be said, and it is compared.
    there = config.override({"word_vectors": shutil.copy(moved, str(tmp_path / "there.txt"))})
    assert run_experiment(there, splits, tmp_path / "run", NAMES).zsl == whole.zsl
    write_vectors(tmp_path / "there.txt", seed=1)
    with pytest.raises(ClarelError, match="the word-vector file is not what"):
        run_experiment(there, splits, tmp_path / "run", NAMES)
    without = config.override({"word_vectors": ""})
    with pytest.raises(ClarelError, match=r"word_vectors=.*, now it is"):
        run_experiment(without, splits, tmp_path / "run", NAMES)


@pytest.mark.slow  # the second phase begins without the file in the test above
def test_a_run_that_was_killed_before_its_first_checkpoint_begins_without_the_file(
    tmp_path, splits, run_with_vectors
):
    config, reference, _ = run_with_vectors
    early = shutil.copytree(reference.with_name("half"), tmp_path / "early")
    for path in early.rglob("*"):
        if path.name in ("model.keras", "selection.json", "checkpoints"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert run_validation(config, splits, early) == RunFolder(reference).read_selection()


def test_export_needs_the_file_for_all_its_words_alone(tmp_path, run_with_vectors):
    """tests/experiments/test_final_model.py exports the words of the captions without it."""
    _, run_dir, moved = run_with_vectors
    other = write_vectors(tmp_path / "other.txt", seed=1)
    export = ["export_main.py", f"--run_dir={run_dir}", f"--export_dir={tmp_path / 'models'}"]
    every_word = [*export, "--export_vocabulary=all"]
    for flags, message in (
        ([], "give its path with --word_vectors"),
        ([f"--word_vectors={other}"], "the word-vector file is not what"),
    ):
        done = call_program(*every_word, *flags)
        assert done.returncode == 1 and message in done.stderr, done.stderr
    done = call_program(*every_word, f"--word_vectors={moved}")
    assert done.returncode == 0, done.stderr
    assert "Exported version 1" in done.stdout
