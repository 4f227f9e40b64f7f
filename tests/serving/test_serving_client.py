"""The client over real sockets, against a small server with the model server's interfaces."""

import csv
import io
import json
import shutil
import socket
import threading
import time

import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.models.saving import load_model
from clarel_tf.serving.client import ServingClient, ServingError, connect
from clarel_tf.serving.local import LocalTransport, parse_new_classes
from clarel_tf.serving.versions import MODELS, checksums_path
from clarel_tf.storage.checksums import MANIFEST
from tests.conftest import NAMES
from tests.helpers.model_server import serve
from tests.helpers.programs import call_program, run_program


@pytest.fixture(scope="module")
def served(finished_run, exported_run):
    """(export folder, model, {transport: address}) of a small run."""
    with serve(exported_run) as (rest, grpc):
        model = load_model(finished_run / "model.keras")
        yield exported_run, model, {"rest": rest, "grpc": grpc}


@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_answers_equal_the_model_in_parts_of_any_size(served, splits, kind):
    folder, model, addresses = served
    features = splits["test_seen"].image_features
    sentences = ["a red bird", "", "zzz", "ein Vögelchen"]
    for batch_size in (256, 5):
        client = connect(addresses[kind], batch_size=batch_size)
        np.testing.assert_allclose(
            client.embed_images(features), model.embed_images(features), atol=1e-5
        )
        np.testing.assert_allclose(
            client.embed_texts(sentences), model.embed_texts(sentences), atol=1e-5
        )
        answer = client.classify(features)
        local = ServingClient(LocalTransport(folder)).classify(features)
        assert answer["class_name"].tolist() == local["class_name"].tolist()
        assert answer["accepted"].tolist() == local["accepted"].tolist()
        np.testing.assert_allclose(answer["probability"], local["probability"], atol=1e-5)


@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_alpha_and_new_classes(served, splits, kind):
    client = connect(served[2][kind], batch_size=3)
    features = splits["test_unseen"].image_features
    favoured = client.classify(features, alpha=1000.0)
    assert set(favoured["class_name"][:, 0]) <= {"kind 6", "kind 7"}
    new = client.classify(features, new_classes={"mine": ["a pink bird", "it is pink"]})
    assert new["class_name"].shape == (8, 3)
    assert set(new["class_name"].ravel()) <= {*NAMES, "mine"}
    with pytest.raises(ClarelError, match="not both"):
        client.classify(features, alpha=0.1, new_classes={"mine": ["a bird"]})


@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_bad_requests_are_named_and_the_next_one_works(served, splits, kind):
    client = connect(served[2][kind])
    features = splits["test_seen"].image_features[:2]
    broken = features.copy()
    broken[0, 0] = np.nan
    cases = [
        (
            "image_embedder",
            {"image_features": features[:, :3]},
            "serving_default",
            "image_embedder",
        ),
        ("image_embedder", {"image_features": broken}, "serving_default", "image_embedder"),
        ("image_embedder", {"text": ["a bird"]}, "serving_default", "do not match"),
        ("text_embedder", {"text": ["a bird"]}, "no_such", "no_such"),
        ("no_model", {"text": ["a bird"]}, "serving_default", "no_model"),
        (
            "prototype_classifier",
            {"sentences": ["a bird"], "class_names": ["a", "b"]},
            "embed_prototypes",
            "one class name is needed for each sentence",
        ),
    ]
    for model, inputs, signature, message in cases:
        with pytest.raises(ServingError, match=message):
            client.predict(model, inputs, signature)
        assert client.embed_texts(["a bird"]).shape == (1, 16)


def test_every_file_of_an_export_is_checked(served, splits, tmp_path):
    exports = shutil.copytree(served[0], tmp_path / "models")
    features = splits["test_seen"].image_features[:2]

    questions = {
        "image_embedder": lambda client: client.embed_images(features),
        "text_embedder": lambda client: client.embed_texts(["a red bird"]),
        "prototype_classifier": lambda client: client.classify(features),
    }

    def ask(*models: str) -> None:
        for model in models or MODELS:
            questions[model](ServingClient(LocalTransport(exports)))

    tried = 0
    for path in sorted(exports.rglob("*")):
        if not path.is_file() or path.parent == exports or path.name == MANIFEST:
            continue
        good = path.read_bytes()
        assert good
        middle = len(good) // 2
        flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
        for damaged in (good[:middle], flipped):
            path.write_bytes(damaged)
            with pytest.raises(ClarelError, match="is damaged: its SHA-256") as caught:
                ask(path.relative_to(exports).parts[0])
            assert str(path) in str(caught.value)
            tried += 1
        path.write_bytes(good)
    assert tried >= 2 * 4 * len(MODELS)  # graph, variables and their index, warm-up
    ask()
    # A version that only some of the models have is not mixed with the version before.
    shutil.copytree(exports / "image_embedder" / "1", exports / "image_embedder" / "2")
    (exports / "image_embedder" / "2" / "saved_model.pb").write_bytes(b"")
    ask("image_embedder")
    # Without checksums, as an older export: whatever TensorFlow says, in one line.
    checksums_path(exports / "image_embedder" / "1").unlink()
    (exports / "image_embedder" / "1" / "saved_model.pb").write_bytes(b"\xff" * 50)
    with pytest.raises(ClarelError, match="cannot be loaded"):
        ask("image_embedder")


def test_nobody_there_and_nobody_answers():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for address in (f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"):
            started = time.monotonic()
            with pytest.raises(ServingError):
                connect(address, timeout=0.5).embed_texts(["a bird"])
            assert time.monotonic() - started < 10
    for address in (f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"):
        with pytest.raises(ServingError):
            connect(address, timeout=0.5).embed_texts(["a bird"])


@pytest.mark.parametrize("seconds", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_many_clients_at_once_lose_no_request(served, splits, seconds):
    features = splits["test_seen"].image_features
    expected = served[1].embed_images(features[:1])
    asked, answered, failures = [], [], []
    end = time.monotonic() + seconds

    def ask(number: int) -> None:
        client = connect(served[2]["grpc" if number % 2 else "rest"])
        try:
            while time.monotonic() < end:
                asked.append(number)
                found = client.embed_images(features[:1])
                np.testing.assert_allclose(found, expected, atol=1e-5)
                answered.append(number)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=[number]) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(answered) == len(asked)
    assert set(answered) == set(range(32))
    print(f"{len(answered)} requests of 32 clients in {seconds} s")


def test_new_classes_are_parsed():
    assert parse_new_classes(["a: x; y ;", "b:z", "a: w"]) == {"a": ["x", "y", "w"], "b": ["z"]}
    for bad in ("no sentence", "name:", ": a bird"):
        with pytest.raises(ClarelError, match="expected 'name: sentence"):
            parse_new_classes([bad])


def test_program_asks_a_folder_or_a_server(served, splits, tmp_path):
    folder, _, addresses = served
    split = splits["test_unseen"]
    np.savez(
        tmp_path / "images.npz", image_ids=split.image_ids[:2], features=split.image_features[:2]
    )
    images = f"--features={tmp_path / 'images.npz'}"
    new = "--new_class=pink one: a pink bird; it is pink"
    done = run_program("classify_main.py", f"--export_dir={folder}", images, new, "--format=json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["image_id"], row["rank"]) for row in rows[:4]] == [
        *((str(split.image_ids[0]), rank) for rank in (1, 2, 3)),
        (str(split.image_ids[1]), 1),
    ]
    for address in addresses.values():
        asked = call_program("classify_main.py", f"--server={address}", images, new, "--format=csv")
        assert asked.returncode == 0, asked.stderr
        found = list(csv.DictReader(io.StringIO(asked.stdout)))
        assert [row["class"] for row in found] == [row["class"] for row in rows]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--export_dir or --server"),
        (["--export_dir=x"], "--features, or --dataset"),
        (["--export_dir=x", "--features=none.npz"], "cannot read none.npz"),
        (["--export_dir=x", "--features=y", "--new_class=a"], "expected 'name: sentence"),
    ],
)
def test_program_names_what_is_missing(tmp_path, flags, message):
    done = call_program("classify_main.py", *flags, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and message in done.stderr
