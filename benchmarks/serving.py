"""Latency and throughput of exports in TensorFlow's C++ loader, compared with references.

python benchmarks/serving.py [--classes 200 10000 1000000]

Sizes are the paper's, weights are random, sentences have the lengths of CUB captions.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import captions
import harness
import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from clarel_tf.config_sections import ModelConfig
from clarel_tf.decision.selected import NoneThreshold, Selected
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.standard_towers import standard_towers
from clarel_tf.serving.embeddings import embed_images, embed_texts
from clarel_tf.serving.export import write_saved_model
from clarel_tf.serving.signatures import PrototypeClassifier
from tests.helpers.plain_text_tower import PlainTextTower

ROUNDS = 5


def in_cpp(
    path: Path, folder: Path, feeds: dict, repeats: int, name: str = "serving_default"
) -> dict:
    """Times a signature in a process with only the C++ library."""
    message = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    signature = message.meta_graphs[0].signature_def[name]
    request = {}
    for key, value in feeds.items():
        if isinstance(value, list):
            texts = [text if isinstance(text, bytes) else text.encode() for text in value]
            request[signature.inputs[key].name] = [text.hex() for text in texts]
        else:
            np.save(folder / f"{key}.npy", value)
            request[signature.inputs[key].name] = str(folder / f"{key}.npy")
    fetches = {name: info.name for name, info in signature.outputs.items()}
    call = {"feeds": request, "fetches": fetches}
    body = {"path": str(path), "calls": [call], "repeats": repeats}
    command = [
        sys.executable,
        str(harness.ROOT / "tests" / "helpers" / "cpp_loader.py"),
        tf.sysconfig.get_lib(),
    ]
    done = subprocess.run(
        command,
        input=json.dumps(body),
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return json.loads(done.stdout)[0]


def timed(function, repeats: int) -> list[float]:
    """Seconds of each call, after two warm-up calls."""
    function(), function()
    return harness.alternate({"it": function}, repeats)["it"]


def row(seconds: list[float], items: int) -> dict[str, float]:
    """Median and 95th percentile in milliseconds, and items per second."""
    median = float(np.median(seconds))
    return {
        "p50_ms": 1e3 * median,
        "p95_ms": 1e3 * float(np.percentile(seconds, 95)),
        "per_second": items / median,
    }


def embedders(model: Clarel, folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    """One and 64 images and sentences: C++ loader, Keras, and a plain padded text tower."""
    features = tf.TensorSpec([None, model.feature_size], tf.float32, "image_features")
    text = tf.TensorSpec([None], tf.string, "text")
    image_path, text_path = folder / "image_embedder", folder / "text_embedder"
    write_saved_model(
        image_path,
        {"serving_default": (lambda x: {"embedding": embed_images(model, x)}, [features])},
        None,
    )
    write_saved_model(
        text_path,
        {"serving_default": (lambda x: {"embedding": embed_texts(model, x)}, [text])},
        model,
    )
    plain = PlainTextTower(model.text_tower)
    plain_graph = tf.function(lambda x: plain(model.text_tower.tokenize(x)), [text])
    whole = keras.Sequential([keras.Input([model.feature_size]), model.image_tower])
    rows = {}
    for count in (1, 64):
        images = np.random.default_rng(0).normal(size=(count, model.feature_size)).astype("f4")
        texts = captions.drawn_sentences(count)
        tensor = tf.constant(texts)
        calls = (40 if count == 1 else 10) * repeats
        images_name = f"{count} image{'s' * (count > 1)}"
        texts_name = f"{count} sentence{'s' * (count > 1)}"
        contestants = {
            f"{images_name}, C++ loader": lambda images=images, calls=calls: in_cpp(
                image_path, folder, {"image_features": images}, calls
            )["seconds"],
            f"{images_name}, Keras predict": lambda images=images: timed(
                lambda: whole.predict(images, verbose=0), repeats
            ),
            f"{texts_name}, C++ loader": lambda texts=texts, calls=calls: in_cpp(
                text_path, folder, {"text": texts}, calls
            )["seconds"],
            f"{texts_name}, plain padded tower": lambda tensor=tensor: timed(
                lambda: plain_graph(tensor).numpy(), 4 * repeats
            ),
        }
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(ROUNDS):  # in turn: the speed of a shared machine drifts
            for name, measure in contestants.items():
                found = measure()
                seconds[name] += found[len(found) // 10 :]  # the first calls warm up
        rows |= {name: row(found, count) for name, found in seconds.items()}
    return rows


def bare_product(prototypes: np.ndarray, feature_size: int):
    """A linear layer, the product with the prototypes and top-k: the minimum for an answer."""
    stored = tf.Variable(prototypes, trainable=False)
    weights = tf.Variable(np.zeros((feature_size, prototypes.shape[1]), "f4"), trainable=False)

    def answer(image_features):
        values = tf.matmul(tf.matmul(image_features, weights), stored, transpose_b=True)
        return {"values": tf.math.top_k(values, 5).values}

    return answer


def classifiers(
    model: Clarel, folder: Path, sizes: list[int], batch: int, repeats: int
) -> dict[str, dict[str, float]]:
    """The classifier with many classes, compared with the product and top-k alone."""
    rows = {}
    width = model.embedding_size
    features = tf.TensorSpec([None, model.feature_size], tf.float32, "image_features")
    images = np.random.default_rng(0).normal(size=(batch, model.feature_size)).astype("f4")
    for size in sizes:
        prototypes = np.random.default_rng(1).standard_normal((size, width), np.float32)
        classifier = PrototypeClassifier(
            model,
            prototypes,
            [f"class {i}" for i in range(size)],
            np.arange(size) % 4 > 0,
            Selected(alpha=0.02, temperature=1.0, none_of_these=NoneThreshold(100.0, 0.0, 0.0)),
        )
        path = folder / f"classifier_{size}"
        write_saved_model(path, {"serving_default": (classifier.classify, [features])}, None)
        bare_path = folder / f"bare_{size}"
        bare = bare_product(prototypes, model.feature_size)
        write_saved_model(bare_path, {"serving_default": (bare, [features])}, None)
        times: dict[str, list[float]] = {"ours": [], "bare": []}
        peak = 0.0
        for _ in range(ROUNDS):  # in turn
            found = in_cpp(path, folder, {"image_features": images}, repeats)
            times["ours"] += found["seconds"][1:]
            peak = max(peak, found["peak_mb"])
            feeds = {"image_features": images}
            times["bare"] += in_cpp(bare_path, folder, feeds, repeats)["seconds"][1:]
        rows[f"{size} classes, classifier"] = row(times["ours"], batch) | {"peak_mb": peak}
        rows[f"{size} classes, bare product"] = row(times["bare"], batch)
        ratio = np.median(times["ours"]) / np.median(times["bare"])
        rows[f"{size} classes, ratio"] = {"ratio": float(ratio)}
    return rows


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="*", default=[200, 10_000, 1_000_000])
    parser.add_argument("--batch", type=int, default=64, help="images a request of the classifier")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    towers = standard_towers(ModelConfig(), captions.WORDS, feature_size=2048)
    model = Clarel(*towers, num_classes=150)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = embedders(model, Path(folder), arguments.repeats)
        rows |= classifiers(
            model, Path(folder), arguments.classes, arguments.batch, arguments.repeats
        )
    title = f"Exports of the paper's sizes ({time.perf_counter() - started:.0f} s in all)"
    harness.report(title, rows, arguments.json)


if __name__ == "__main__":
    main()
