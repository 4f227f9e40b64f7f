"""Data without some splits, with classes known by sentences alone, with images without captions."""

import dataclasses
import functools
import math

import numpy as np
import pytest

from clarel_tf.data.split import Split
from clarel_tf.decision.embedded_splits import embed_split
from clarel_tf.decision.prototypes import make_prototypes
from clarel_tf.experiments.ensemble_run import run_ensemble
from clarel_tf.experiments.experiment import run_experiment
from clarel_tf.experiments.reevaluation import evaluate_run
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.saving import load_model
from clarel_tf.reporting.results_table import evaluation_table, results_table
from clarel_tf.serving.client import ServingClient
from clarel_tf.serving.export import export_run
from clarel_tf.serving.local import LocalTransport
from clarel_tf.storage.files import read_json
from tests.conftest import NAMES, make_splits

EMPTY = {
    "only train": ["val_seen", "val_unseen", "test_seen", "test_unseen"],
    "no unseen classes": ["val_unseen", "test_unseen"],
    "no seen images": ["val_seen", "test_seen"],
}


def without(splits: dict[str, Split], empty: list[str]) -> dict[str, Split]:
    """`splits` with some of them empty; `trainval` is what is left to train on."""
    left = {
        name: split.select(np.full(len(split), name not in empty)) for name, split in splits.items()
    }
    classes = np.concatenate([left["train"].labels, left["val_unseen"].labels])
    left["trainval"] = left["trainval"].select(np.isin(left["trainval"].labels, classes))
    is_seen = np.isin(left["test_seen"].labels, classes)
    left["test_seen"] = left["test_seen"].select(is_seen)
    if not len(left["val_seen"]) and not len(left["val_unseen"]):
        left["trainval"] = dataclasses.replace(left["train"], name="trainval")
    return left


# A whole run without any test image, through all programs, is in tests/commands/test_own_data.py.
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def config(small_config):
    return small_config.override({"discriminant_evidence": 0.3})


@pytest.fixture(scope="module")
def runs(tmp_path_factory, config):
    """A function from the name of what is missing to (results, folder, splits)."""

    @functools.cache
    def run(name: str):
        splits = without(make_splits(), EMPTY[name])
        folder = tmp_path_factory.mktemp("run") / "run"
        return run_experiment(config, splits, folder, NAMES), folder, splits

    return run


TOLD = {
    "only train": [
        "ZSL, u and H: not measured, no test image is of an unseen class.",
        "s: not measured, no test image is of a seen class.",
        "alpha: 0, because validation needs",
    ],
    "no unseen classes": ["ZSL, u and H: not measured", "alpha: 0, because validation needs"],
    "no seen images": ["s and H: not measured, no test image is of a seen", "alpha: 0, because"],
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("only train", marks=slow),
        pytest.param("no unseen classes", marks=slow),
        "no seen images",
    ],
)
def test_what_cannot_be_measured_is_said_plainly(runs, name):
    results, folder, splits = runs(name)
    assert results.alpha == 0
    assert math.isnan(results.gzsl.h)
    assert math.isnan(results.gzsl.s) == (not len(splits["test_seen"]))
    assert math.isnan(results.zsl.top1) == math.isnan(results.gzsl.u)
    assert math.isnan(results.gzsl.u) == (not len(splits["test_unseen"]))
    table = results_table(results)
    page = (folder / "report.html").read_text(encoding="utf-8")
    for sentence in TOLD[name]:
        assert sentence in table and sentence in page
    assert "nan" not in table.lower() and ">nan<" not in page
    assert read_json(folder / "results.json")["gzsl"]["h"] is None
    assert RunFolder(folder).read_results().steps == results.steps
    assert (folder / "validation" / "model.keras").exists() == (name != "only train")


@slow
@pytest.mark.parametrize("name", EMPTY)
def test_evaluation_export_and_answers(runs, config, name, tmp_path):
    results, run, splits = runs(name)
    folder = RunFolder(run)
    stored, measures = evaluate_run(folder, config, splits, NAMES, 0)
    assert "not measured" in evaluation_table(stored, measures)
    model = load_model(run / "model.keras")
    export_run(model, splits, NAMES, results, tmp_path / "export", k=3)
    client = ServingClient(LocalTransport(tmp_path / "export"))
    images = splits["train"].image_features[:4]
    answer = client.classify(images)
    trained = {NAMES[label] for label in splits["trainval"].labels}
    offered = trained | {NAMES[label] for label in splits["test_unseen"].labels}
    assert {str(found) for found in answer["class_name"].ravel()} <= offered
    assert np.isfinite(answer["probability"]).all()
    if name == "only train":
        assert answer["accepted"].all()
    added = client.classify(images, None, {"emu": ["a red bird number 3"]})
    assert len(added["class_name"]) == 4


@slow  # its settings without validation are those of a single run
def test_an_ensemble_without_validation(runs, config, tmp_path):
    _, run, splits = runs("only train")
    results = run_ensemble(config, splits, tmp_path / "ensemble", [run], NAMES)
    assert results.alpha == 0 and results.temperature == 1.0


@pytest.fixture(scope="module")
def described() -> dict[str, Split]:
    """Data where images lack captions and class 6 has sentences and no images."""
    splits = make_splits()
    for name in ("train", "trainval"):
        captions = [[] if row % 5 == 0 else own for row, own in enumerate(splits[name].captions)]
        descriptions = {0: [b"a red bird of all birds"]}
        splits[name] = dataclasses.replace(
            splits[name], captions=captions, descriptions=descriptions
        )
    unseen = splits["test_unseen"]
    unseen = unseen.select(unseen.labels == 7)
    texts = {6: [b"a grey bird number 2", b"a grey bird"]}
    splits["test_unseen"] = dataclasses.replace(unseen, descriptions=texts)
    return splits


# By default tests/commands/test_own_data.py has such a class, from the raw files to answers.
@slow
def test_a_class_known_by_sentences_is_offered_and_not_measured(described, small_config, tmp_path):
    splits, run = described, tmp_path / "run"
    results = run_experiment(small_config, splits, run, NAMES)
    measures = read_json(run / "evaluation.json")
    assert results.gzsl.u >= 0 and len(measures["new_classes"]["all"]["real"]) == 5
    with np.load(run / "classes.npz") as stored:
        row = stored["names"].tolist().index("kind 6")
        assert not stored["is_seen"][row] and stored["counts"][row] == 2
        mean = stored["sums"][row] / 2
    model = load_model(run / "model.keras")
    by_hand = model.embed_texts(["a grey bird number 2", "a grey bird"]).mean(axis=0)
    np.testing.assert_allclose(mean, by_hand, rtol=1e-4, atol=1e-5)
    export_run(model, splits, NAMES, results, tmp_path / "export", k=8)
    answer = ServingClient(LocalTransport(tmp_path / "export")).classify(
        splits["test_seen"].image_features[:3]
    )
    assert all("kind 6" in {str(name) for name in row} for row in answer["class_name"])


def test_each_sentence_counts_once_in_a_prototype(described, finished_run):
    model = load_model(finished_run / "model.keras")
    support = described["trainval"]
    prototypes = make_prototypes([embed_split(model, support)])
    for label in np.unique(support.labels):
        texts = [
            text
            for own, of in zip(support.captions, support.labels, strict=True)
            if of == label
            for text in own
        ] + support.descriptions.get(int(label), [])
        row = prototypes.classes.tolist().index(label)
        assert prototypes.counts[row] == len(texts)
        by_hand = model.embed_texts(texts).mean(axis=0)
        np.testing.assert_allclose(prototypes.means()[row], by_hand, rtol=1e-3, atol=1e-4)


def test_borrowed_captions_are_of_the_class_and_change_nothing_else():
    split = Split(
        "train",
        np.array(["a", "b", "c", "d"]),
        np.zeros((4, 2), np.float32),
        np.array([0, 0, 1, 1]),
        [[b"one", b"two"], [], [], []],
        {1: [b"described"], 2: [b"another class"]},
    )
    borrowed = split.with_borrowed_captions()
    assert borrowed.captions == [[b"one", b"two"], [b"one", b"two"], [b"described"], [b"described"]]
    assert borrowed.captions == split.with_borrowed_captions().captions
    assert split.captions[1] == [] and split.select(split.labels == 0).descriptions == {}
    assert split.all_captions() == [b"one", b"two", b"described", b"another class"]
    assert split.caption_labels().tolist() == [0, 0, 1, 2]
