"""Requests and answers of any width: parts by bytes, and halves where a server wants less."""

import json
import shutil

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.experiments.training_phase import build_model
from clarel_tf.models.vocabulary import build_vocabulary
from clarel_tf.serving.client import ServingError, connect
from clarel_tf.serving.export import export_run
from tests.conftest import NAMES
from tests.helpers.hostile_servers import answering, grpc_answering, response
from tests.helpers.model_server import serve


@pytest.fixture(scope="module")
def wide(finished_run, splits, small_config, tmp_path_factory):
    """(model, {transport: address}) of a small model whose embeddings are 4,096 wide."""
    support = splits["trainval"]
    words = build_vocabulary(c for captions in support.captions for c in captions)
    config = small_config.override({"embedding_size": 4096})
    model = build_model(config, words, support, num_classes=6)
    folder = tmp_path_factory.mktemp("wide")
    export_run(model, splits, NAMES, RunFolder(finished_run).read_results(), folder, k=3)
    with serve(folder) as (rest, by_grpc):
        yield model, {"rest": rest, "grpc": by_grpc}
    shutil.rmtree(folder)


# By default `test_parts_are_cut_by_bytes_and_by_rows` has rows of this width, and
# test_serving_client.py compares what real exports answer in parts of any size.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rows"), [("rest", 100), ("grpc", 256), ("grpc", 600), ("rest", 600)]
)
def test_embeddings_of_four_thousand_numbers(wide, kind, rows):
    model, addresses = wide
    client = connect(addresses[kind])
    features = np.random.default_rng(0).normal(size=(rows, 12)).astype(np.float32)
    found = client.embed_images(features)
    assert found.shape == (rows, 4096)
    np.testing.assert_allclose(found, model.embed_images(features), atol=1e-5)
    texts = [f"a red bird number {row}" for row in range(rows)]
    np.testing.assert_allclose(client.embed_texts(texts), model.embed_texts(texts), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_prototypes_of_four_thousand_numbers(wide, kind):
    """They go with every part: 150 of them are more than half of what a server takes."""
    client = connect(wide[1][kind])
    names = [f"class {number}" for number in range(150)]
    inputs = {"sentences": [f"a bird of {name}" for name in names], "class_names": names}
    made = client.predict("prototype_classifier", inputs, "embed_prototypes")
    assert made["prototype"].shape == (150, 4096)
    inputs = {
        "image_features": np.random.default_rng(0).normal(size=(300, 12)).astype(np.float32),
        "prototypes": made["prototype"],
        "class_names": made["class_name"].tolist(),
    }
    answer = client.predict("prototype_classifier", inputs, "classify_with_prototypes")
    assert answer["class_name"].shape == (300, 3)


def counted(sizes: list[tuple[int, int]], most_rows: int):
    """REST and gRPC servers that take `most_rows` rows, and note the rows and bytes they get."""

    def rest(request):
        rows = json.loads(request.body)["inputs"]["image_features"]
        sizes.append((len(rows), len(request.body)))
        if len(rows) > most_rows:
            return response({"error": "less"}, "413 Payload Too Large")
        return response({"outputs": [row[:1] for row in rows]})

    def by_grpc(request, context):
        rows = tf.make_ndarray(request.inputs["image_features"])
        sizes.append((len(rows), request.ByteSize()))
        if len(rows) > most_rows:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "less")
        answer = predict_pb2.PredictResponse()
        answer.outputs["embedding"].CopyFrom(tf.make_tensor_proto(rows[:, :1]))
        return answer

    return rest, by_grpc


def test_parts_are_cut_by_bytes_and_by_rows():
    sizes = []
    rest, by_grpc = counted(sizes, 10**9)
    with answering(rest) as first, grpc_answering(by_grpc) as second:
        for address in (first, second):
            for rows, width in ((300, 4096), (600, 3), (3, 600_000)):
                sizes.clear()
                features = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)
                found = connect(address).embed_images(features)
                np.testing.assert_allclose(found, features[:, :1], rtol=1e-6)
                assert sum(count for count, _ in sizes) == rows
                assert all(size < 2_100_000 or count == 1 for count, size in sizes)
                assert max(count for count, _ in sizes) <= 256
            assert len(sizes) == 3  # rows of more than 2 MB each


def test_long_texts_are_cut_by_bytes():
    sizes = []

    def answer(request):
        texts = json.loads(request.body)["inputs"]["text"]
        sizes.append(len(request.body))
        return response({"outputs": [[float(len(text))] for text in texts]})

    lengths = [10, 900_000, 900_000, 900_000, 3_000_000, 5, 5]
    with answering(answer) as address:
        found = connect(address).embed_texts(["ü" * (length // 2) for length in lengths])
    assert found[:, 0].tolist() == [length // 2 for length in lengths]
    assert sorted(size > 2_100_000 for size in sizes) == [False] * (len(sizes) - 1) + [True]


@pytest.mark.parametrize("most_rows", [1, 3, 100])
def test_a_server_that_wants_less_gets_halves(most_rows):
    sizes = []
    rest, by_grpc = counted(sizes, most_rows)
    features = np.arange(260, dtype=np.float32).reshape(130, 2)
    with answering(rest) as first, grpc_answering(by_grpc) as second:
        for address in (first, second):
            sizes.clear()
            np.testing.assert_array_equal(connect(address).embed_images(features), features[:, :1])
            assert sum(count for count, _ in sizes if count <= most_rows) == 130


def test_a_server_that_takes_nothing():
    sizes = []
    rest, by_grpc = counted(sizes, 0)
    with answering(rest) as first, grpc_answering(by_grpc) as second:
        for address in (first, second):
            sizes.clear()
            with pytest.raises(ServingError, match="less"):
                connect(address).embed_images(np.ones((256, 2), np.float32))
            assert [count for count, _ in sizes] == [256, 128, 64, 32, 16, 8, 4, 2, 1]
