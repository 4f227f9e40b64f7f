"""Exports as the model server would load them: in C++, in a process without TensorFlow's Python."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from clarel_tf.data.loading import class_names, get_builder, load_splits
from clarel_tf.decision.selected import NoneThreshold, RuleSettings, Selected
from clarel_tf.evaluation.gzsl import harmonic_mean, per_class_accuracy
from clarel_tf.evaluation.zero_shot import embed_queries
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.images.decoding import decode_pictures
from clarel_tf.images.efficientnet_lite2 import build_network
from clarel_tf.models.distances import pairwise_distances_numpy
from clarel_tf.models.saving import load_model
from clarel_tf.reporting.results_table import results_table
from clarel_tf.serving.export import write_saved_model
from clarel_tf.serving.signatures import PrototypeClassifier
from clarel_tf.storage.files import read_json
from tests.helpers import pictures
from tests.helpers.cpp_calls import ask_cpp, signatures
from tests.helpers.independent_check import measure
from tests.helpers.programs import ROOT, call_program

MODELS = ("image_embedder", "text_embedder", "prototype_classifier")
SENTENCES = ["a small bird with a red crown", "", "zzz unknown", "blue, back!", "a " * 100_000]


@pytest.fixture(scope="module")
def exported(tmp_path_factory, demo_run, demo_data_dir):
    """A trained demo run and its export: (folder, model, splits, class names, results)."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "data").symlink_to(demo_data_dir)
    (folder / "run").symlink_to(demo_run[0] / "runs" / "demo")
    data = f"--data_dir={folder / 'data'}"
    flags = [data, f"--run_dir={folder / 'run'}", f"--export_dir={folder / 'models'}"]
    done = call_program("export_main.py", *flags, "--gallery_split=test_unseen")
    assert done.returncode == 0, done.stderr
    assert "Exported version 1" in done.stdout
    builder = get_builder("demo", "small", data_dir=str(folder / "data"))
    model = load_model(folder / "run" / "model.keras")
    return (
        folder,
        model,
        load_splits(builder),
        class_names(builder),
        RunFolder(folder / "run").read_results(),
    )


def test_embedders_equal_keras_for_every_batch(exported, tmp_path):
    folder, model, splits, _, _ = exported
    features = splits["test_unseen"].image_features
    calls = [("serving_default", {"image_features": features[:n]}) for n in (1, 2, 7, 0)]
    for n, answer in zip(
        (1, 2, 7, 0), ask_cpp(folder / "models/image_embedder/1", tmp_path, calls), strict=True
    ):
        expected = model.embed_images(features[:n])
        np.testing.assert_allclose(np.reshape(answer["embedding"], (-1, 16)), expected, atol=1e-5)
    batches = [
        SENTENCES[:1],
        SENTENCES[:2],
        (SENTENCES * 2)[:7],
        [],
        [b"\xff\xfe red", b"nul\x00 bird"],
    ]
    calls = [("serving_default", {"text": batch}) for batch in batches]
    for batch, answer in zip(
        batches, ask_cpp(folder / "models/text_embedder/1", tmp_path, calls), strict=True
    ):
        found = np.reshape(answer["embedding"], (-1, 16))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, model.embed_texts(batch), atol=1e-5)


def test_classifier_gives_exactly_the_results_of_the_run(exported, tmp_path):
    folder, model, splits, names, results = exported
    scores, shares, images = {}, [], 0
    asked = (("test_seen", "s"), ("test_unseen", "u"))
    answers = ask_cpp(
        folder / "models/prototype_classifier/1",
        tmp_path,
        [("serving_default", {"image_features": splits[name].image_features}) for name, _ in asked],
    )
    for (name, key), answer in zip(asked, answers, strict=True):
        split = splits[name]
        best = np.array([row[0] for row in answer["class_name"]])
        scores[key] = per_class_accuracy(best, np.array([names[label] for label in split.labels]))
        assert np.shape(answer["class_name"]) == (len(split), 5)
        assert (np.diff(answer["distance"], axis=1) >= 0).all()
        assert (np.sum(answer["probability"], axis=1) <= 1 + 1e-5).all()
        nearest, z = np.array(answer["distance"]), model.embed_images(split.image_features)
        none, arrays = results.none_of_these, np.load(folder / "run/classes.npz")
        unlikely = np.linalg.norm((z - arrays["image_mean"]) @ arrays["image_whitener"], axis=1)
        strange = nearest[:, 0] - none.lead * (nearest[:, 1] - nearest[:, 0])
        strange -= none.length * np.linalg.norm(z, axis=1)
        strange += none.unlikeliness * np.maximum(unlikely - none.usual, 0)
        seen_names = [
            str(n) for n, seen in zip(arrays["names"], arrays["is_seen"], strict=True) if seen
        ]
        odds = np.exp(np.asarray(model.image_classifier(z), np.float64))
        for row, name in enumerate(best):
            if name in seen_names:
                strange[row] -= none.doubt * np.log(
                    odds[row, seen_names.index(name)] / odds[row].sum()
                )
        away = np.abs(strange - none.distance) > 1e-3  # others may be rounded either way
        accepted = np.array(answer["accepted"])
        np.testing.assert_array_equal(accepted[away], (strange <= none.distance)[away])
        shares.append(100 * accepted.mean() * len(split))
        images += len(split)
    # As many are accepted as the evaluation says, but for one on the threshold.
    assert sum(shares) / images == pytest.approx(results.strangers.accepted, abs=101 / images)
    assert scores["u"] == pytest.approx(results.gzsl.u, abs=1e-9)
    assert scores["s"] == pytest.approx(results.gzsl.s, abs=1e-9)
    assert harmonic_mean(scores["u"], scores["s"]) == pytest.approx(results.gzsl.h, abs=1e-9)


def test_served_probabilities_are_the_softmax_over_all_classes(exported, tmp_path):
    folder, model, splits, names, results = exported
    parts = [splits[name] for name in ("test_seen", "test_unseen", "trainval")]
    queries = embed_queries(model, *parts[:2], parts[2:], results.rule)
    for split in parts[:2]:
        features = split.image_features[:9]
        call = ("serving_default", {"image_features": features})
        (answer,) = ask_cpp(folder / "models/prototype_classifier/1", tmp_path, [call])
        ((_, distances),) = queries.distance_blocks(model.embed_images(features))
        distances = distances * (1 + results.alpha * queries.is_seen)
        for row, given, best in zip(
            distances, answer["probability"], answer["class_name"], strict=True
        ):
            temperature = results.temperatures[0 if queries.is_seen[row.argmin()] else 1]
            odds = np.exp((row.min() - row.astype(float)) / temperature)
            expected = dict(zip(names, odds / odds.sum(), strict=True))
            np.testing.assert_allclose(given, [expected[name] for name in best], rtol=5e-3)


def test_a_plain_loop_over_the_embedders_gives_the_same_measures(exported):
    folder = exported[0]
    (built,) = (folder / "data" / "demo" / "small").glob("*.*.*")
    found, expected = measure(folder / "run", folder / "models", built)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_rule_of_the_paper_stands_beside_that_which_asks_more(exported):
    folder, model, splits, _, results = exported
    assert "captions alone" in results_table(results)
    rows = read_json(folder / "run/evaluation.json")["prototypes"]
    assert results.rule == RuleSettings(0.5, 0.35)
    assert rows["all"]["gzsl"] == vars(results.gzsl)
    assert rows["captions_alone"]["gzsl"] == vars(results.gzsl_captions_alone)
    seen, unseen, support = (splits[name] for name in ("test_seen", "test_unseen", "trainval"))
    by_captions = embed_queries(model, seen, unseen, [support]).evaluate()
    alpha = rows["captions_alone"]["alpha"]
    assert rows["captions_alone"]["gzsl"] == pytest.approx(vars(by_captions.gzsl(alpha)))
    assert rows["captions_alone"]["gzsl_alpha0"] != rows["all"]["gzsl_alpha0"]
    assert results.zsl_captions_alone.top1 == pytest.approx(by_captions.zsl())


def caption_scatter_by_loop(model, splits):
    by_class = {}
    for name in ("test_seen", "test_unseen", "trainval"):
        for label, captions in zip(splits[name].labels, splits[name].captions, strict=True):
            by_class.setdefault(label, []).extend(captions)
    squares, freedom = 0.0, 0
    for captions in by_class.values():
        embedded = model.embed_texts(captions).astype(np.float64)
        squares += np.square(embedded - embedded.mean(axis=0)).sum()
        freedom += len(captions) - 1
    return squares / freedom


def taken_off(said, images: np.ndarray, prototypes: np.ndarray, excess=0.0) -> np.ndarray:
    """What fitted discriminants take off distances, spelled out: [N, E], [C, E] -> [N, C]."""
    fields = {name: np.asarray(value) for name, value in said._asdict().items()}
    squares = np.square(prototypes[:, np.newaxis] - fields["prototypes"]).sum(axis=2)
    squares = np.maximum(squares - np.reshape(excess, (-1, 1)), 0.0)
    mixtures = np.exp(-squares / fields["width"]) @ fields["solver"]
    halves = 0.5 * np.einsum("ck,kl,cl->c", mixtures, fields["products"], mixtures)
    scores = (images - fields["mean"]) @ fields["directions"] @ mixtures.T
    return fields["weight"] * (scores - halves)


def discriminants(exported):
    _, model, splits, _, results = exported
    seen, unseen, support = (splits[name] for name in ("test_seen", "test_unseen", "trainval"))
    return embed_queries(model, seen, unseen, [support], results.rule).rule.discriminants


def new_class_distances(exported, images, means, counts, replaced=-1) -> np.ndarray:
    """Distances to classes of a request, [N, E] and [C, E] -> [N, C], spelled out.

    They are less by what the mean of few sentences is off by, as far as they say something, and by
    what the discriminants say, and more by the offset that the reference images ask for.
    """
    folder, model, splits, _, results = exported
    kept, said = np.load(folder / "run/classes.npz"), discriminants(exported)
    scatter = caption_scatter_by_loop(model, splits)
    squares = np.square(means - kept["description_center"]).sum(axis=1)
    says = np.minimum(1.0, squares / (kept["description_typical"] + scatter / counts))
    excess = says * scatter / counts

    def without_offset(embedded):
        plain = pairwise_distances_numpy(embedded, means)
        plain = np.sqrt(np.maximum(plain**2 - excess, 1e-12))
        return plain - taken_off(said, embedded, means, excess)

    references = kept["description_references"]
    is_gone = kept["description_rival_columns"] == replaced
    rivals = kept["description_rival_nearest"]
    rivals = np.where(is_gone, kept["description_rival_second"], rivals)
    gains = -np.sort(-(rivals[:, np.newaxis] - without_offset(references)), axis=0)
    place = np.clip(says**2 * results.descriptions.share * len(references) - 0.5, 0, None)
    low, column = place.astype(int), np.arange(len(means))
    offset = gains[low, column] + (place - low) * (gains[low + 1, column] - gains[low, column])
    return without_offset(images) + np.maximum(offset, 0.0)


def test_classes_that_replace_or_extend_stored_ones_by_hand(exported, tmp_path):
    folder, model, splits, _, results = exported
    features = splits["test_unseen"].image_features[:7]
    images, sentences = model.embed_images(features), ["a red bird", "a tiny crimson animal"]
    kept, embedded = np.load(folder / "run/classes.npz"), model.embed_texts(sentences)
    # A class that is often the nearest rival, or its absence would change nothing.
    gone = int(np.bincount(kept["description_rival_columns"]).argmax())
    seen, unseen = np.flatnonzero(kept["is_seen"])[3], np.flatnonzero(~kept["is_seen"])[2]
    calls = []
    for row, option in ((gone, "replaces"), (seen, "extends"), (unseen, "extends")):
        inputs = {"image_features": features, "alpha": np.zeros(0, "f4"), "k": np.zeros(0, "i4")}
        inputs["threshold"] = np.zeros(0, "f4")
        inputs |= {"among": [], "replaces": [], "extends": [], option: [str(kept["names"][row])]}
        inputs |= {"sentences": sentences, "class_names": [str(kept["names"][row])] * 2}
        calls.append(("classify_with_options", inputs))
    answers = ask_cpp(folder / "models/prototype_classifier/1", tmp_path, calls)
    found = [np.array(answer["new_class_distance"])[:, 0] for answer in answers]
    mean, said = embedded.mean(axis=0, keepdims=True), discriminants(exported)
    expected = new_class_distances(exported, images, mean, np.array([2]), gone)[:, 0]
    np.testing.assert_allclose(found[0], expected, rtol=1e-3)
    logits = np.asarray(model.image_classifier(images))
    log_shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for row, distances in ((seen, found[1]), (unseen, found[2])):
        total = kept["sums"][row] + embedded.sum(axis=0)
        prototype = (total / (kept["counts"][row] + 2)).astype("f4")[np.newaxis]
        expected = pairwise_distances_numpy(images, prototype) - taken_off(said, images, prototype)
        if row == seen:
            expected[:, 0] -= 0.5 * log_shares[:, np.count_nonzero(kept["is_seen"][:row])]
            expected *= 1 + results.alpha
        np.testing.assert_allclose(distances, expected[:, 0], rtol=1e-3)
    words = " ".join(sentences).split()
    share = sum(word in set(model.text_tower.vocabulary) for word in words) / len(words)
    for answer in answers:
        assert answer["new_class_known_words"][0] == pytest.approx([share])


def test_alpha_new_classes_and_prototypes_with_the_request(exported, tmp_path):
    folder, model, splits, _, results = exported
    features = splits["test_unseen"].image_features[:7]
    sentences = ["a red bird", "a tiny crimson animal", "a large blue bird"]
    kinds = ["cardinal", "cardinal", "jay"]
    alphas = np.full(7, results.alpha, np.float32)
    path = folder / "models/prototype_classifier/1"
    plain, with_alpha, huge, new, prototypes = ask_cpp(
        path,
        tmp_path,
        [
            ("serving_default", {"image_features": features}),
            ("classify_with_alpha", {"image_features": features, "alpha": alphas}),
            ("classify_with_alpha", {"image_features": features, "alpha": alphas * 0 + 100}),
            (
                "classify_with_new_classes",
                {"image_features": features, "sentences": sentences, "class_names": kinds},
            ),
            ("embed_prototypes", {"sentences": sentences, "class_names": kinds}),
        ],
    )
    assert with_alpha["class_name"] == plain["class_name"]
    unseen = set(np.unique(splits["test_unseen"].labels))
    assert all(int(name[:3]) - 1 in unseen for row in huge["class_name"] for name in row)
    embedded = model.embed_texts(sentences)
    expected = np.stack([embedded[:2].mean(axis=0), embedded[2]])
    assert prototypes["class_name"] == ["cardinal", "jay"]
    np.testing.assert_allclose(prototypes["prototype"], expected, atol=1e-5)
    images = model.embed_images(features)
    corrected = new_class_distances(exported, images, expected, np.array([2, 1]))
    for row in range(7):
        merged = sorted(
            [
                *zip(plain["distance"][row], plain["class_name"][row], strict=True),
                *zip(corrected[row].tolist(), ["cardinal", "jay"], strict=True),
            ]
        )[:5]
        assert new["class_name"][row] == [name for _, name in merged]
        np.testing.assert_allclose(new["distance"][row], [d for d, _ in merged], rtol=1e-3)
    (alone,) = ask_cpp(
        path,
        tmp_path,
        [
            (
                "classify_with_prototypes",
                {
                    "image_features": features,
                    "prototypes": np.array(prototypes["prototype"], np.float32),
                    "class_names": prototypes["class_name"],
                },
            )
        ],
    )
    distances = pairwise_distances_numpy(images, expected)
    distances -= taken_off(discriminants(exported), images, expected)
    np.testing.assert_allclose(alone["distance"], np.sort(distances, axis=1), atol=1e-3)
    np.testing.assert_allclose(np.sum(alone["probability"], axis=1), 1.0, atol=1e-5)


def test_a_classifier_that_looks_at_blocks_of_classes_gives_the_same_answers(exported, tmp_path):
    _, model, splits, _, _ = exported
    rng = np.random.default_rng(0)
    prototypes = rng.normal(size=(23, 16)).astype("f4")
    names = [f"class {i}" for i in range(23)]
    features = splits["test_seen"].image_features[:3]
    spec = tf.TensorSpec([None, 1280], tf.float32, "image_features")
    answers = []
    for block in (1000, 5):
        classifier = PrototypeClassifier(
            model,
            prototypes,
            names,
            np.arange(23) % 3 > 0,
            Selected(alpha=0.1, temperature=0.7, none_of_these=NoneThreshold(9.0, 0.0, 0.0)),
            k=5,
            block=block,
        )
        path = tmp_path / f"block_{block}"
        write_saved_model(path, {"serving_default": (classifier.classify, [spec])}, None)
        answers += ask_cpp(path, tmp_path, [("serving_default", {"image_features": features})])
    assert answers[0]["class_name"] == answers[1]["class_name"]
    np.testing.assert_allclose(answers[0]["distance"], answers[1]["distance"], atol=1e-5)
    np.testing.assert_allclose(answers[0]["probability"], answers[1]["probability"], atol=1e-5)


def test_gallery_is_searched_nearest_first(exported, tmp_path):
    folder, model, splits, _, _ = exported
    split = splits["test_unseen"]
    captions, images = ask_cpp(
        folder / "models/prototype_classifier/1",
        tmp_path,
        [
            ("retrieve_captions", {"image_features": split.image_features[:3]}),
            ("retrieve_images", {"text": SENTENCES[:2]}),
        ],
    )
    flat = [caption for own in split.captions for caption in own]
    distances = pairwise_distances_numpy(
        model.embed_images(split.image_features[:3]), model.embed_texts(flat)
    )
    np.testing.assert_allclose(captions["distance"], np.sort(distances, axis=1)[:, :5], atol=1e-4)
    assert all(text.encode() in flat for row in captions["caption"] for text in row)
    distances = pairwise_distances_numpy(
        model.embed_texts(SENTENCES[:2]), model.embed_images(split.image_features)
    )
    np.testing.assert_allclose(images["distance"], np.sort(distances, axis=1)[:, :5], atol=1e-4)


def test_bad_requests_get_an_error_and_the_next_one_an_answer(exported, tmp_path):
    folder, _, splits, _, _ = exported
    features = splits["test_seen"].image_features[:2]
    broken = features.copy()
    broken[1, 3] = np.nan
    calls = [
        ("serving_default", {"image_features": broken}),
        ("serving_default", {"image_features": features[:, :-1]}),
        (
            "classify_with_new_classes",
            {"image_features": features, "sentences": ["a bird"], "class_names": ["a", "b"]},
        ),
        ("serving_default", {"image_features": features}),
    ]
    answers = ask_cpp(folder / "models/prototype_classifier/1", tmp_path, calls)
    assert "image_features must be finite" in answers[0]["error"]
    assert "image_features have 1279 numbers for each image" in answers[1]["error"]
    assert "one class name is needed for each sentence" in answers[2]["error"]
    assert len(answers[3]["class_name"]) == 2


def test_photographs_get_the_same_answer_on_every_way(exported, tmp_path):
    """As features of `extract_main.py`, in the loader, and by `classify_main.py`."""
    folder, _, splits, _, _ = exported
    record = RunFolder(folder / "run").data.backbone
    stored = splits["test_unseen"].pictures.read(splits["test_unseen"].image_ids[:2])
    photos = {f"{name}.jpg": data for name, data in stored.items()}
    photos |= {"wide.png": pictures.encoded(pictures.picture(500, 300), "PNG")}
    photos |= {"turned.jpg": pictures.turned(6, image=pictures.picture(640, 480, seed=1))}
    pictures.fill(tmp_path / "photos", photos)
    flags = [f"--images={tmp_path / 'photos'}", f"--output={tmp_path / 'f.npz'}"]
    done = call_program(
        "extract_main.py", *flags, f"--input_size={record.input_size}", "--nomirrored"
    )
    assert done.returncode == 0, done.stderr
    extracted = np.load(tmp_path / "f.npz")
    inputs = {"image_bytes": [photos[name] for name in extracted["image_ids"]]}
    expected, found = ask_cpp(
        folder / "models/prototype_classifier/1",
        tmp_path,
        [
            ("serving_default", {"image_features": extracted["features"]}),
            ("classify_pictures", inputs),
        ],
    )
    assert found["class_name"] == expected["class_name"] and len(found["distance"]) == 4
    np.testing.assert_allclose(found["distance"], expected["distance"], atol=1e-4)
    np.testing.assert_allclose(found["probability"], expected["probability"], atol=1e-4)
    for place in (f"--run_dir={folder / 'run'}", f"--export_dir={folder / 'models'}"):
        arguments = [str(tmp_path / "photos"), place, "--format=json"]
        done = call_program("classify_main.py", *arguments)
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)
        assert [row["class"] for row in rows] == list(np.ravel(expected["class_name"]))
        distances = np.ravel(expected["distance"])
        np.testing.assert_allclose([row["distance"] for row in rows], distances, atol=1e-4)


def test_a_known_bad_export_fails_in_the_loader(exported, tmp_path):
    """The negative control: it loads in Python, so only the C++ loader can tell."""
    model = exported[1]
    module = tf.Module()
    module.model = model
    module.serve = tf.function(
        lambda image_features: {"embedding": model.image_tower(image_features)},
        [tf.TensorSpec([None, 1280], tf.float32, "image_features")],
    )
    tf.saved_model.save(module, str(tmp_path / "bad"), {"serving_default": module.serve})
    features = np.zeros((1, 1280), np.float32)
    (answer,) = ask_cpp(
        tmp_path / "bad", tmp_path, [("serving_default", {"image_features": features})]
    )
    assert "Could not find variable" in answer["error"]


def test_signatures_operations_and_sizes(exported):
    folder, model, _, _, _ = exported
    text = signatures(folder / "models/text_embedder/1")["serving_default"].inputs["text"]
    assert (text.dtype, [d.size for d in text.tensor_shape.dim]) == (
        tf.string.as_datatype_enum,
        [-1],
    )
    image = signatures(folder / "models/image_embedder/1")["serving_default"]
    assert [d.size for d in image.inputs["image_features"].tensor_shape.dim] == [-1, 1280]
    assert [d.size for d in image.outputs["embedding"].tensor_shape.dim] == [-1, 16]
    assert set(signatures(folder / "models/prototype_classifier/1")) >= {
        *("serving_default", "classify_with_alpha", "classify_with_new_classes"),
        "classify_with_options",
        *("embed_prototypes", "classify_with_prototypes", "retrieve_captions", "retrieve_images"),
    }
    for name in MODELS:
        path = folder / "models" / name / "1"
        graph = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        graph = graph.meta_graphs[0].graph_def
        nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
        own = {f.signature.name for f in graph.library.function}
        for operation in {node.op for node in nodes} - own:
            assert tf.raw_ops.__dict__.get(operation) is not None, operation
        for node in nodes:
            assert not node.attr["_XlaMustCompile"].b and "Cudnn" not in node.op
            assert "GPU" not in node.device
    # Weights are stored once, those of the backbone too.
    weights = sum(4 * int(np.prod(v.shape)) for v in model.text_tower.variables)
    stored = sum(p.stat().st_size for p in (folder / "models/text_embedder/1/variables").iterdir())
    assert stored < 1.3 * weights + 20_000
    backbone = 4 * build_network(160).count_params()
    stored = sum(p.stat().st_size for p in (folder / "models/image_embedder/1/variables").iterdir())
    assert backbone < stored < 1.05 * backbone


def test_what_a_server_reads_beside_the_models(exported):
    folder = exported[0]
    config = model_server_config_pb2.ModelServerConfig()
    text_format.Parse((folder / "models/models.config").read_text(), config)
    listed = {c.name: c.base_path for c in config.model_config_list.config}
    assert listed == {name: f"/models/{name}" for name in MODELS}
    for name in MODELS:
        record = folder / "models" / name / "1" / "assets.extra" / "tf_serving_warmup_requests"
        inputs = {}
        for data in tf.data.TFRecordDataset(str(record)).as_numpy_iterator():
            request = prediction_log_pb2.PredictionLog.FromString(data).predict_log.request
            assert request.model_spec.name == name
            offered = signatures(folder / "models" / name / "1")
            assert request.inputs.keys() == offered[request.model_spec.signature_name].inputs.keys()
            inputs |= {key: tf.make_ndarray(proto) for key, proto in request.inputs.items()}
        if name != "text_embedder":  # a record that is refused would fail the whole load
            _, problems = decode_pictures(inputs.pop("image_bytes"), 32)
            assert problems.numpy().tolist() == [b""]
            assert inputs["image_features"].shape == (1, 1280)


@pytest.mark.slow
def test_a_killed_export_leaves_nothing_that_a_server_would_load(exported, tmp_path):
    folder = exported[0]
    command = [sys.executable, str(ROOT / "export_main.py"), f"--data_dir={folder / 'data'}"]
    command += [f"--run_dir={folder / 'run'}", f"--export_dir={tmp_path / 'models'}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("models/.staging/*/saved_model.pb")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not [p for p in tmp_path.glob("models/*/*") if p.name.isdigit()]
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert not (tmp_path / "models" / ".staging").exists()
    assert (tmp_path / "models" / "image_embedder" / "1" / "saved_model.pb").exists()
