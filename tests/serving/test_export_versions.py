"""A version of an export is there as three models or not at all, and its number is never reused."""

import contextlib
import io
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.saving import load_model
from clarel_tf.serving.client import ServingClient, ServingError, connect
from clarel_tf.serving.export import export_run, write_saved_model
from clarel_tf.serving.local import LocalTransport
from clarel_tf.serving.versions import (
    EMBED_WITH_ID,
    MODELS,
    is_older_export,
    newest_version,
    next_version,
    publish,
    put_aside_incomplete,
    versions_of,
)
from clarel_tf.storage import ownership
from tests.conftest import NAMES
from tests.helpers.model_server import serve
from tests.helpers.programs import call_program


def make_version(folder: Path, version: int, models=MODELS) -> None:
    for model in models:
        (folder / model / str(version)).mkdir(parents=True)
        (folder / model / str(version) / "saved_model.pb").write_bytes(b"a model")


def staged(folder: Path, models=MODELS) -> Path:
    for model in models:
        (folder / ".staging" / model).mkdir(parents=True)
        (folder / ".staging" / model / "saved_model.pb").write_bytes(b"a new model")
    return folder / ".staging"


def all_versions(folder: Path) -> list[set[int]]:
    return [versions_of(folder, model) for model in MODELS]


@pytest.fixture
def other_disk(tmp_path):
    path = Path(tempfile.mkdtemp(dir="/dev/shm")) if os.path.isdir("/dev/shm") else None
    if path is None or path.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second disk here")
    yield path
    shutil.rmtree(path)


def test_a_rename_that_fails_takes_the_others_back(tmp_path, other_disk):
    make_version(tmp_path, 1)
    # Each of the three in turn, by a folder that is a link to another disk.
    for number, model in enumerate(MODELS):
        staging = staged(tmp_path)
        (tmp_path / model).rename(tmp_path / "kept")
        (tmp_path / model).symlink_to(other_disk)
        with pytest.raises(OSError, match="cross-device"):
            publish(staging, tmp_path, next_version(tmp_path))
        (tmp_path / model).unlink()
        (tmp_path / "kept").rename(tmp_path / model)
        assert all_versions(tmp_path) == [{1}] * 3
        assert sorted(os.listdir(staging)) == sorted(MODELS)
        # The number was seen by whoever looked at the wrong moment: it is not used again.
        assert next_version(tmp_path) == number + 3
        shutil.rmtree(staging)
    publish(staged(tmp_path), tmp_path, next_version(tmp_path))
    assert all_versions(tmp_path) == [{1, 5}] * 3


def test_model_folders_that_cannot_take_a_version_are_refused_before_the_work(
    tmp_path, exported_run, other_disk
):
    exports = Path(shutil.copytree(exported_run, tmp_path / "models"))
    shutil.move(exports / "text_embedder", other_disk / "texts")
    (exports / "text_embedder").symlink_to(other_disk / "texts")
    with pytest.raises(ClarelError, match="text_embedder is on another disk"):
        export_run(None, {}, [], {}, exports)
    (exports / "text_embedder").unlink()
    (exports / "text_embedder").write_text("a file")
    with pytest.raises(ClarelError, match="text_embedder is not a folder"):
        export_run(None, {}, [], {}, exports)
    assert not (exports / ".staging").exists()


@pytest.fixture(scope="module")
def exported_again(tmp_path_factory, exported_run, finished_run, splits) -> tuple[Path, int, str]:
    """(folder, version, what was said) of an export to where two were killed before.

    A person put a file beside the models and changed their list.
    """
    exports = tmp_path_factory.mktemp("again") / "models"
    shutil.copytree(exported_run, exports)
    # Killed after its first rename; a second one after its second.
    for version, models in ((2, MODELS[:1]), (3, MODELS[:2])):
        for model in models:
            shutil.copytree(exports / model / "1", exports / model / str(version))
    (exports / "compose.yml").write_text("mine")
    (exports / "models.config").write_text("edited")
    (exports / "checksums.json").unlink()  # as one is told to if it is damaged
    model, results = (
        load_model(finished_run / "model.keras"),
        RunFolder(finished_run).read_results(),
    )
    with contextlib.redirect_stderr(io.StringIO()) as said:
        version = export_run(model, splits, NAMES, results, exports)
    return exports, version, said.getvalue()


def test_what_a_killed_export_left_is_put_aside_by_the_next(exported_again, exported_run):
    exports, version, said = exported_again
    assert version == 4
    assert all_versions(exports) == [{1, 4}] * 3
    first = [path / "1" / "saved_model.pb" for path in map(exports.joinpath, MODELS)]
    copied = [exported_run / path.relative_to(exports) for path in first]
    assert [p.stat().st_mtime_ns for p in first] == [p.stat().st_mtime_ns for p in copied]
    # Out of a server's sight, but nothing is deleted.
    assert (exports / "image_embedder" / "2.incomplete" / "saved_model.pb").exists()
    assert (exports / "text_embedder" / "3.incomplete" / "saved_model.pb").exists()
    assert "Only some models have version 3" in said


def test_an_export_leaves_what_a_person_put_beside_it(exported_again):
    exports, _, said = exported_again
    assert (exports / "compose.yml").read_text() == "mine"
    assert (exports / "models.config").read_text() == "edited"
    assert "models.config was changed by hand" in said


def test_a_model_that_is_served_alone_stays_in_sight(tmp_path):
    make_version(tmp_path, 1, MODELS[2:])
    put_aside_incomplete(tmp_path)
    assert versions_of(tmp_path, MODELS[2]) == {1}


def test_an_export_whose_mark_is_lost_or_damaged_goes_on(tmp_path, exported_run):
    exports = Path(shutil.copytree(exported_run, tmp_path / "models"))
    for damage in (lambda mark: mark.unlink(), lambda mark: mark.write_text("")):
        damage(exports / ownership.MARK)
        ownership.claim(exports, "export", "export_dir", is_older_export)
        assert ownership.kind_of(exports) == "export"


def test_incomplete_versions_below_a_complete_one_stay(tmp_path):
    make_version(tmp_path, 1, MODELS[:2])
    make_version(tmp_path, 2)
    put_aside_incomplete(tmp_path)
    assert all_versions(tmp_path) == [{1, 2}, {1, 2}, {2}]


def test_strays_in_a_model_folder_are_no_versions(tmp_path, exported_run, splits):
    exports = Path(shutil.copytree(exported_run, tmp_path / "models"))
    for model in MODELS:
        (exports / model / "3").write_text("a stray file")
        (exports / model / "007").mkdir()
        (exports / model / "12").mkdir()
        shutil.copytree(exports / model / "1", exports / model / "010")
    assert newest_version(exports, "image_embedder") == 1
    assert next_version(exports) == 13
    split = splits["test_unseen"]
    np.savez(tmp_path / "x.npz", image_ids=split.image_ids[:2], features=split.image_features[:2])
    flags = [f"--export_dir={exports}", f"--features={tmp_path / 'x.npz'}"]
    done = call_program("classify_main.py", *flags)
    assert done.returncode == 0, done.stderr


def test_the_models_of_an_export_carry_its_id(exported_run, exported_again, tmp_path):
    """What hands out or takes embeddings says which export it is of, a row at a time."""
    ids = set()
    features, names = tf.zeros([2, 12]), tf.constant(["a", "b"])
    loaded = {model: tf.saved_model.load(str(exported_run / model / "1")) for model in MODELS}
    classifier = loaded["prototype_classifier"].signatures
    answers = [
        loaded["image_embedder"].signatures[EMBED_WITH_ID](image_features=features),
        loaded["text_embedder"].signatures[EMBED_WITH_ID](text=names),
        classifier["embed_prototypes"](sentences=names, class_names=names),
        classifier["classify_with_prototypes"](
            image_features=features, prototypes=tf.zeros([2, 16]), class_names=names
        ),
    ]
    for answer in answers:
        assert answer["export_id"].shape == [2]
        ids |= set(answer["export_id"].numpy().tolist())
    assert len(ids) == 1
    assert "export_id" not in classifier["serving_default"](image_features=features)
    for model, inputs in (
        ("image_embedder", {"image_features": features}),
        ("text_embedder", {"text": names}),
    ):
        signatures = loaded[model].signatures
        (alone,) = signatures["serving_default"](**inputs).values()
        np.testing.assert_array_equal(alone, signatures[EMBED_WITH_ID](**inputs)["embedding"])
    newer = exported_again[0] / "text_embedder" / "4"
    again = tf.saved_model.load(str(newer))
    answer = again.signatures[EMBED_WITH_ID](text=tf.constant(["a"]))
    assert answer["export_id"].numpy()[0] not in ids

    # A server that has loaded the one model of the new export, and not yet the other.
    between = tmp_path / "between"
    shutil.copytree(exported_run / "image_embedder", between / "image_embedder")
    shutil.copytree(newer, between / "text_embedder" / "4")
    with serve(between) as addresses:
        for address in addresses:
            client = connect(address)
            assert client.embed_images(features.numpy()).shape == (2, 16)
            with pytest.raises(ServingError, match="changed to another export"):
                client.embed_texts(["a bird"])
            # One that asks for one kind of embeddings alone is not held up.
            client = connect(address)
            for _ in range(2):
                assert client.embed_texts(["a bird"]).shape == (1, 16)


def test_an_export_from_before_there_were_ids_is_served(exported_run, finished_run, tmp_path):
    """Its embedders have one signature."""
    model = load_model(finished_run / "model.keras")

    def embed(text):
        return {"embedding": model.text_tower(model.text_tower.tokenize(text))}

    signature = [tf.TensorSpec([None], tf.string, "text")]
    path = tmp_path / "text_embedder" / "1"
    write_saved_model(path, {"serving_default": (embed, signature)}, model)
    with serve(tmp_path) as addresses:
        clients = [ServingClient(LocalTransport(tmp_path)), *map(connect, addresses)]
        for client in clients:
            for _ in range(2):
                found = client.embed_texts(["a red bird"])
                np.testing.assert_allclose(found, model.embed_texts(["a red bird"]), atol=1e-5)


def test_an_older_export_without_a_mark_goes_on(tmp_path, exported_run):
    exports = Path(shutil.copytree(exported_run, tmp_path / "models"))
    (exports / ownership.MARK).unlink()
    (exports / "checksums.json").unlink()
    ownership.claim(exports, "export", "export_dir", is_older_export)
    assert ownership.kind_of(exports) == "export"
    (exports / ownership.MARK).unlink()
    (exports / "mine.txt").write_text("work")
    with pytest.raises(ClarelError, match=r"mine\.txt"):
        ownership.claim(exports, "export", "export_dir", is_older_export)
