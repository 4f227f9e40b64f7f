"""Models that were saved by version 0.1, which made its towers itself."""

import dataclasses
import io
import json
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.models.ensemble import Ensemble
from clarel_tf.models.saving import load_model


def as_of_0_1(path: Path, target: Path, settings: dict, frozen_words: bool = False) -> None:
    """Rewrites a `.keras` file as version 0.1 wrote it."""
    model = load_model(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    config["config"] = {
        "vocabulary": list(model.text_tower.vocabulary),
        "feature_size": model.image_tower.input_size,
        "num_classes": model.num_classes,
        "model": settings,
        "loss": dataclasses.asdict(model.loss_settings),
        "frozen_words": frozen_words,
        "name": "clarel",
    }
    members["config.json"] = json.dumps(config).encode()
    weights = io.BytesIO(members["model.weights.h5"])
    with h5py.File(weights, "r+") as file:
        file.move("layers/caption_tower", "layers/text_tower")
    members["model.weights.h5"] = weights.getvalue()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_it_loads_with_the_same_weights(finished_run, small_config, splits, tmp_path):
    settings = dataclasses.asdict(small_config.model)
    as_of_0_1(finished_run / "model.keras", tmp_path / "model.keras", settings)
    older, newer = load_model(tmp_path / "model.keras"), load_model(finished_run / "model.keras")
    features, texts = splits["test_seen"].image_features, ["a red bird", "zzz", ""]
    np.testing.assert_array_equal(older.embed_images(features), newer.embed_images(features))
    np.testing.assert_array_equal(older.embed_texts(texts), newer.embed_texts(texts))
    older.save(tmp_path / "again.keras")
    np.testing.assert_array_equal(
        load_model(tmp_path / "again.keras").embed_texts(texts), newer.embed_texts(texts)
    )


def test_an_ensemble_is_named_with_what_to_do(finished_run, tmp_path):
    paths = [finished_run / "model.keras"] * 2
    Ensemble([load_model(path) for path in paths]).save(tmp_path / "new.keras")
    with zipfile.ZipFile(tmp_path / "new.keras") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    for one in config["config"]["members"]:
        del one["text_tower"]
    members["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(tmp_path / "old.keras", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ClarelError, match=r"old\.keras is an ensemble of version 0\.1"):
        load_model(tmp_path / "old.keras")
    assert load_model(tmp_path / "new.keras").embed_texts(["a bird"]).shape == (1, 32)
