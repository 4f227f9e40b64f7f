"""Exported models and the client, on requests and answers made at random."""

import gzip
import json
import random
import socket
import zlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from clarel_tf.errors import ClarelError
from clarel_tf.models.saving import load_model
from clarel_tf.serving.class_files import parse_new_classes
from clarel_tf.serving.client import ServingClient, connect
from clarel_tf.serving.local import LocalTransport, answer_rows
from tests.conftest import NAMES
from tests.helpers.fuzzing import damaged, fuzz
from tests.helpers.hostile_servers import answering, grpc_answering, read_request, response, talking

EFFORTS = [{"cases": 150}, pytest.param({"seconds": 45.0}, marks=pytest.mark.slow)]
CORPUS = "a Red bird; Ünïcödé ÇA İstanbul ﬁn ﬀ 鳥 пти́ца 😀 \u0000 \u200d \ud7ff ½ ² Ⅷ ß ẞ 'x' {}[]"


@pytest.fixture(scope="module")
def exported(finished_run, exported_run, splits):
    """(client of an export in a folder, the model, features that fit)."""
    client = ServingClient(LocalTransport(exported_run))
    return client, load_model(finished_run / "model.keras"), splits["test_seen"].image_features


def any_sentence(chance: random.Random) -> bytes:
    text = "".join(chance.choices(CORPUS, k=chance.choice((0, 1, 5, 40, 400)))).encode()
    return damaged(text, chance) if chance.random() < 0.5 else text


@pytest.mark.parametrize("effort", EFFORTS)
def test_any_bytes_are_a_sentence_for_the_exported_model(exported, effort):
    client, model, _ = exported

    def attempt(chance: random.Random) -> None:
        sentences = [any_sentence(chance) for _ in range(chance.randint(1, 9))]
        found = client.predict("text_embedder", {"text": sentences})["embedding"]
        assert found.shape == (len(sentences), 16) and np.isfinite(found).all()
        np.testing.assert_allclose(found, model.embed_texts(sentences), atol=1e-4)
        # A sentence has one embedding, whatever stands beside it.
        alone = client.predict("text_embedder", {"text": sentences[-1:]})["embedding"]
        np.testing.assert_allclose(found[-1:], alone, atol=1e-4)

    outcome = fuzz(attempt, seed=1, **effort)
    print(f"batches of sentences: {outcome}")
    assert outcome["refused"] == 0


def any_matrix(chance: random.Random, good: np.ndarray) -> np.ndarray:
    """Rows that fit, or with a number or a shape that does not."""
    matrix = good[: chance.randrange(5)].copy()
    strange = (np.nan, np.inf, 1e38, -1e25, 1e-45, 0.0, 1e18)
    for _ in range(chance.choice((0, 0, 1, 3)) if matrix.size else 0):
        row, column = chance.randrange(matrix.shape[0]), chance.randrange(matrix.shape[1])
        matrix[row, column] = chance.choice(strange)
    kind = chance.randrange(12)
    if kind == 0:
        return matrix[:, :-1]
    if kind == 1:
        return matrix.ravel()
    return matrix[:, :, np.newaxis] if kind == 2 else matrix


def any_options(chance: random.Random, count: int, names: list[str]) -> dict:
    """Options that fit `count` images, or do not."""
    rows = chance.choice((0, count, count, 1))
    some = [*names, *names, "kind 1", "KIND 1", "\\E", "x" * 1000, "\x00"]
    return {
        "alpha": np.full(rows, chance.choice((0.0, 0.5, -0.5, -1.0, np.nan)), np.float32),
        "k": np.full(chance.choice((0, rows)), chance.choice((1, 2, 9, 2**31 - 1, 0)), np.int32),
        "among": chance.choices(["kind 1", "kind 2", "kind 7"], k=chance.choice((0, 0, 1, 3))),
        "replaces": chance.choices(some, k=chance.choice((0, 0, 1, 2))),
        "extends": chance.choices(some, k=chance.choice((0, 0, 0, 1))),
    }


@pytest.mark.parametrize("effort", EFFORTS)
def test_any_request_gets_a_right_answer_or_a_refusal(exported, effort):
    client, _, good = exported
    prototypes = np.eye(16, dtype=np.float32)

    def attempt(chance: random.Random) -> None:
        features = any_matrix(chance, good)
        inputs = {"image_features": features}
        names = chance.choices(["a", "b", "ü", "", "kind 1"], k=chance.randrange(4))
        signature = chance.choice(
            [
                *("serving_default", "classify_with_alpha", "classify_with_new_classes"),
                *("classify_with_prototypes", "embed_prototypes", "nonsense"),
                *("classify_with_options",) * 2,
            ]
        )
        if signature == "classify_with_options":
            inputs |= any_options(chance, len(features), names)
        if signature == "classify_with_alpha":
            count = chance.choice((len(features), len(features), 1, 0))
            values = chance.choice((0.0, 0.5, -0.5, -1.0, -7.0, 1e38, np.nan, np.inf))
            inputs["alpha"] = np.full(count, values, np.float32)
        elif signature in ("classify_with_new_classes", "classify_with_options"):
            inputs["sentences"] = ["a red bird"] * chance.choice((len(names), len(names), 1))
        elif signature == "classify_with_prototypes":
            inputs["prototypes"] = any_matrix(chance, prototypes)
        elif signature == "embed_prototypes":
            inputs = {"sentences": ["a bird"] * len(names)}
        if signature not in ("serving_default", "classify_with_alpha") or chance.random() < 0.05:
            inputs["class_names"] = names
        answer = client.predict("prototype_classifier", inputs, signature)
        if signature == "embed_prototypes":
            assert answer["class_name"].tolist() == list(dict.fromkeys(names))
            assert np.isfinite(answer["prototype"]).all()
            return
        # Nothing that is answered came from numbers that cannot be answered for.
        assert features.shape[1:] == good.shape[1:] and np.isfinite(features).all()
        assert np.isfinite(answer["distance"]).all() and (answer["distance"] >= 0).all()
        assert (np.diff(answer["distance"], axis=1) >= 0).all()
        assert ((answer["probability"] >= 0) & (answer["probability"] <= 1 + 1e-5)).all()
        assert (answer["probability"].sum(axis=1) <= 1 + 1e-4).all()
        assert {*answer["class_name"].ravel()} <= {*NAMES, *names}

    outcome = fuzz(attempt, seed=2, **effort)
    print(f"requests: {outcome}")
    assert outcome["read"] and outcome["refused"]


GOOD_OUTPUTS = {
    "class_name": [["a", "b"], ["b", "a"]],
    "distance": [[0.5, 1.5], [1.0, 2.0]],
    "probability": [[0.75, 0.25], [0.5, 0.5]],
    "accepted": [True, False],
}


def believed(client: ServingClient) -> None:
    """Asks for two images; whatever the client lets through keeps the rules of an answer."""
    found = client.classify(np.zeros((2, 4), np.float32))
    distance, probability = found["distance"], found["probability"]
    assert found["class_name"].shape == distance.shape == probability.shape
    assert found["accepted"].shape == (2,) and found["accepted"].dtype == bool
    assert np.isfinite(distance).all() and (np.diff(distance, axis=1) >= 0).all()
    assert ((probability >= 0) & (probability <= 1 + 1e-5)).all()
    assert (probability.sum(axis=1) <= 1 + 1e-3).all()
    rows = answer_rows(["one", "two"], found)
    assert rows and all(type(row["class"]) is str for row in rows)


def as_proto(outputs: dict) -> predict_pb2.PredictResponse:
    answer = predict_pb2.PredictResponse()
    for name, value in outputs.items():
        answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    return answer


@pytest.mark.parametrize("effort", EFFORTS)
def test_whatever_a_server_answers(effort):
    good = json.dumps({"outputs": GOOD_OUTPUTS}).encode()
    answer = [response(good)]
    with answering(lambda request: answer[0]) as address:
        client = connect(address, timeout=5)
        believed(client)

        def attempt(chance: random.Random) -> None:
            status = chance.choice(("200 OK",) * 8 + ("400 Bad", "404 Absent", "307 Elsewhere"))
            answer[0] = response(damaged(good, chance), status)
            believed(client)

        outcome = fuzz(attempt, seed=3, **effort)
    print(f"answers: {outcome}")
    assert outcome["refused"]


@pytest.mark.parametrize("effort", EFFORTS)
def test_whatever_http_a_server_speaks(effort):
    """Heads, lengths, chunks and compression are damaged as well; then the server hangs up."""
    plain = json.dumps({"outputs": GOOD_OUTPUTS}).encode()
    half = len(plain) // 2
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (plain[:half], plain[half:], b""))
    head = b"HTTP/1.1 200 OK\r\n"
    forms = (
        response(plain),
        head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
        response(gzip.compress(plain, mtime=0), headers=("Content-Encoding: gzip",)),
        response(zlib.compress(plain), headers=("Content-Encoding: deflate",)),
        b"HTTP/1.1 100 Continue\r\n\r\n" + response(plain),
        head + b"\r\n" + plain,
        b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + plain,
    )
    answer = [b""]

    def talk(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(answer[0])

    with talking(talk) as port:
        client = connect(f"http://127.0.0.1:{port}", timeout=5)
        for answer[0] in forms:
            believed(client)

        def attempt(chance: random.Random) -> None:
            answer[0] = damaged(chance.choice(forms), chance)
            believed(client)

        outcome = fuzz(attempt, seed=5, **effort)
    print(f"HTTP: {outcome}")
    assert outcome["refused"]


@pytest.mark.parametrize("effort", EFFORTS)
def test_whatever_grpc_message_a_server_sends(effort):
    good = as_proto(GOOD_OUTPUTS).SerializeToString(deterministic=True)
    answer = [good]
    with grpc_answering(lambda *_: answer[0]) as address:
        client = connect(address, timeout=5)
        believed(client)

        def attempt(chance: random.Random) -> None:
            answer[0] = damaged(good, chance)
            believed(client)

        outcome = fuzz(attempt, seed=6, **effort)
    print(f"gRPC messages: {outcome}")
    assert outcome["refused"]


@pytest.mark.parametrize("effort", EFFORTS)
def test_any_words_of_a_new_class(effort):
    def attempt(chance: random.Random) -> None:
        item = any_sentence(chance).decode("utf-8", "replace") + chance.choice((":", ""))
        classes = parse_new_classes([item, "cardinal: a red bird"])
        assert all(name and all(sentences) for name, sentences in classes.items())

    print(f"new classes: {fuzz(attempt, seed=4, **{**effort, 'seconds': 5.0})}")


def test_mistakes_that_would_be_answered_all_the_same(exported):
    """A string is a list of letters, and a class without sentences is not there."""
    client, _, good = exported
    for call in (
        lambda: client.embed_texts("a red bird"),
        lambda: client.classify(good[:1], new_classes={"mine": "a red bird"}),
        lambda: client.classify(good[:1], new_classes={"mine": []}),
        lambda: client.classify(good[0]),
        lambda: client.classify([[1.0], [1.0, 2.0]]),
    ):
        with pytest.raises(ClarelError):
            call()
