"""The model of all images: what it is trained on, killed and resumed, exported and asked."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.data.split import Split
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import run_experiment
from clarel_tf.experiments.phases import all_images, phases_of
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.saving import load_model
from clarel_tf.serving.client import ServingClient
from clarel_tf.serving.local import LocalTransport
from clarel_tf.storage.files import read_json
from clarel_tf.training.checkpoints import CheckpointFolder
from tests.conftest import NAMES, dataset_of_programs
from tests.helpers.programs import call_program


@pytest.fixture(scope="module")
def with_final(tmp_path_factory, run_with_vectors, splits):
    """A run that was finished before it got a final model, and its settings now.

    Its word-vector file has moved meanwhile.
    """
    config, finished, moved = run_with_vectors
    folder = tmp_path_factory.mktemp("final") / "run"
    shutil.copytree(finished, folder)
    config = config.override({"word_vectors": str(moved)})
    run_experiment(config, splits, folder, NAMES, final="all")
    return RunFolder(folder), config


def test_all_images_are_every_image_once(splits):
    overlapping = splits | {"val_seen": splits["test_seen"].select(np.arange(12) < 5)}
    found = all_images(overlapping)
    assert sorted(found.image_ids) == sorted(
        {image for split in overlapping.values() for image in split.image_ids}
    )
    assert len(found) == 24 + 8 + 36 + 12 + 8
    where = {
        image: (split, row)
        for split in splits.values()
        for row, image in enumerate(split.image_ids)
    }
    for row, image in enumerate(found.image_ids):
        split, own = where[image]
        assert found.labels[row] == split.labels[own]
        assert found.captions[row] == split.captions[own]
        np.testing.assert_array_equal(found.image_features[row], split.image_features[own])


def test_phases_by_hand(splits, small_config):
    assert [(p.title, p.config, p.later_steps) for p in phases_of(small_config, splits)] == [
        ("1/2 train", small_config, 12),
        ("2/2 trainval", small_config, 0),
    ]
    # 24 images, 36 and all 96: 18 steps are 4 passes of 36 images, 48 steps as many of 96.
    phases = phases_of(small_config.override({"equal_passes": True}), splits, "all")
    assert [(p.title, p.config.training.steps, p.later_steps) for p in phases] == [
        ("1/3 train", 12, 18 + 48),
        ("2/3 trainval", 18, 48),
        ("3/3 all", 48, 0),
    ]
    assert phases_of(small_config, splits, "all")[2].config.training.steps == 32


def test_a_finished_run_gets_a_final_model_and_keeps_everything_else(
    with_final, run_with_vectors, splits
):
    with_final, finished_run = with_final[0], run_with_vectors[1]
    for name in ("results.json", "model.keras", "classes.npz", "report.html", "evaluation.json"):
        assert (with_final.path / name).read_bytes() == (finished_run / name).read_bytes()
    final, results = with_final.read_final(), with_final.read_results()
    assert (final.images, final.classes, final.steps, final.seed) == (96, 8, 32, 0)
    # By value, which is the default: as it was selected on validation data.
    assert final.alpha == results.alpha and results.is_of_the_paper
    model = load_model(with_final.final / "model.keras")
    # Temperatures go by the gaps between the classes of each model, other than an image's own, and
    # by the number of classes: 4 in the first phase, 8 now.
    everything, prototypes = (
        all_images(splits),
        ClassStore.load(with_final.final / "classes.npz").prototypes.means(),
    )
    gaps = []
    for image, label in zip(
        model.embed_images(everything.image_features), everything.labels, strict=True
    ):
        others = sorted(
            np.linalg.norm(image - prototypes[i]) for i in range(8) if NAMES[i] != NAMES[label]
        )
        gaps.append(others[1] - others[0])
    selection = with_final.read_selection()
    factor = np.sqrt(np.mean(gaps) / selection.distance_scale.gap * (4 / 8) ** (1 / 3))
    assert final.temperature == pytest.approx(selection.temperature * factor, rel=1e-3)
    assert model.image_classifier.units == 8
    classes = ClassStore.load(with_final.final / "classes.npz")
    assert classes.names == NAMES and classes.is_seen.all()
    captions = [text for own in all_images(splits).captions for text in own]
    assert classes.prototypes.counts.sum() == len(captions)
    page = (with_final.final / "report.html").read_text()
    assert "all 96 images of 8 classes" in page and "those of the model before" in page
    assert f"{results.gzsl.h:.1f}" in page
    # All splits together have so many images of a class, three captions each.
    for name, images in (("kind 0", 16), ("kind 5", 12), ("kind 7", 4)):
        assert f"<bdi>{name}</bdi></td><td>{images}</td><td>{3 * images}</td>" in page


class Killed(Exception):
    """Stands for the end of the process."""


# By default tests/training/test_training.py resumes a phase, and this is one more.
@pytest.mark.slow
def test_killed_while_it_trains_it_ends_like_an_unbroken_one(
    with_final, run_with_vectors, splits, tmp_path, monkeypatch
):
    with_final, small_config = with_final
    folder = RunFolder(shutil.copytree(run_with_vectors[1], tmp_path / "run"))
    save = CheckpointFolder.save

    def save_and_die(self, model, step):
        save(self, model, step)
        if step == 16:
            raise Killed

    monkeypatch.setattr(CheckpointFolder, "save", save_and_die)
    with pytest.raises(Killed):
        run_experiment(small_config, splits, folder.path, NAMES, final="all")
    monkeypatch.undo()
    # Without the flag nothing goes on, and the tested model is what is exported.
    run_experiment(small_config, splits, folder.path, NAMES)
    assert not folder.final_path.exists()
    done = call_program(
        "export_main.py", f"--run_dir={folder.path}", f"--export_dir={tmp_path / 'models'}"
    )
    assert done.returncode == 0, done.stderr
    assert "is not finished, so the tested model is exported" in done.stderr
    assert "final" not in (tmp_path / "models" / "SERVING.md").read_text()
    run_experiment(small_config, splits, folder.path, NAMES, final="all")
    for name in ("final.json", "vocabulary.txt", "report.html"):
        ours, theirs = folder.final / name, with_final.final / name
        if name != "report.html":  # its curve has times
            assert ours.read_bytes() == theirs.read_bytes()
    ours, theirs = (
        load_model(run.final / "model.keras").get_weights() for run in (folder, with_final)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_export_is_of_the_final_model(with_final, splits, tmp_path):
    with_final = with_final[0]
    settings = read_json(with_final.path / "config.json")
    assert not Path(settings["word_vectors"]).exists()
    models = tmp_path / "models"
    done = call_program(
        "export_main.py", f"--run_dir={with_final.path}", f"--export_dir={models}", "--k=8"
    )
    assert done.returncode == 0, done.stderr
    assert "of the final model, trained on all images" in done.stdout
    assert "trained on all 96 images of 8 classes" in (models / "SERVING.md").read_text()
    unseen = splits["test_unseen"]
    answer = ServingClient(LocalTransport(models)).classify(unseen.image_features)
    names, distances = nearest_by_hand(with_final, splits, unseen)
    # Every class is a seen one: all distances are rescaled alike.
    np.testing.assert_allclose(
        answer["distance"], distances * (1 + with_final.read_final().alpha), rtol=1e-4
    )
    assert answer["class_name"].tolist() == names


def nearest_by_hand(folder: RunFolder, splits: dict[str, Split], asked: Split):
    """All class names of each image, nearest first, and their distances, by a plain loop."""
    model = load_model(folder.final / "model.keras")
    prototypes = []
    for label in range(8):
        captions = [
            text
            for split in splits.values()
            for own, of in zip(split.captions, split.labels, strict=True)
            for text in own
            if of == label
        ]
        prototypes.append(model.embed_texts(captions).mean(axis=0))
    images = model.embed_images(asked.image_features)
    distances = np.array([[np.linalg.norm(z - p) for p in prototypes] for z in images])
    order = distances.argsort(axis=1)
    return [[NAMES[label] for label in row] for row in order], np.sort(distances, axis=1)


def test_the_tested_model_is_evaluated_as_before(with_final, run_with_vectors, splits, tmp_path):
    finished_run = run_with_vectors[1]
    run = shutil.copytree(with_final[0].path, tmp_path / "run")
    with dataset_of_programs(splits):
        done = call_program("evaluate_main.py", f"--run_dir={run}")
    assert done.returncode == 0, done.stderr
    assert (run / "evaluation.json").read_bytes() == (finished_run / "evaluation.json").read_bytes()


def test_restart_moves_the_final_model_aside_too(with_final, tmp_path):
    with_final, config = with_final
    folder = RunFolder(shutil.copytree(with_final.path, tmp_path / "run"))
    with folder.opened(config, restart=True):
        assert not folder.final.exists()
    assert (tmp_path / "run.old-1" / "final" / "model.keras").exists()


def test_what_has_no_final_model_says_so(finished_run, splits, small_config, tmp_path):
    with pytest.raises(ClarelError, match="final is 'some'; it must be one of: none, all"):
        run_experiment(small_config, splits, tmp_path / "run", final="some")
    for flag in ("--repeats=2", "--validation_only"):
        done = call_program("train_main.py", "--final=all", flag)
        assert done.returncode == 1
        assert "--final=all is for one whole run" in done.stderr


def test_words_of_the_test_captions_get_their_vectors(
    with_final, run_with_vectors, splits, tmp_path
):
    config, finished, moved = run_with_vectors
    folder = shutil.copytree(finished, tmp_path / "run")
    with pytest.raises(ClarelError, match="the final model needs it for the words of the test"):
        run_experiment(config, splits, folder, NAMES, final="all")
    for path, has_it in ((finished, False), (with_final[0].final, True)):
        tower = load_model(path / "model.keras").text_tower
        assert ("grey" in tower.vocabulary) == has_it  # it is in captions of a test class alone
    row = tower.tokenize(tf.constant(["grey"])).numpy()[0, 0]
    [line] = [line for line in moved.read_text().splitlines() if line.startswith("grey ")]
    np.testing.assert_allclose(tower.words.numpy()[row], [float(x) for x in line.split()[1:]])
