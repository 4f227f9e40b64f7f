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

from clarel_tf.decision.class_store import ClassStore
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.saving import load_model
from clarel_tf.serving.class_files import parse_new_classes
from clarel_tf.serving.client import ServingClient, ServingError, connect
from clarel_tf.serving.endpoints import classifier_endpoints
from clarel_tf.serving.export import write_saved_model
from clarel_tf.serving.local import LocalTransport
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


@pytest.mark.filterwarnings("ignore:the model knows")
@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_alpha_and_new_classes(served, splits, kind):
    client = connect(served[2][kind], batch_size=3)
    features = splits["test_unseen"].image_features
    favoured = client.classify(features, alpha=1000.0)
    assert set(favoured["class_name"][:, 0]) <= {"kind 6", "kind 7"}
    new = client.classify(features, new_classes={"mine": ["a pink bird", "it is pink"]})
    assert new["class_name"].shape == (8, 3)
    assert set(new["class_name"].ravel()) <= {*NAMES, "mine"}


ANSWER = ("class_name", "distance", "probability", "accepted")
NEW = {"mine": ["a pink bird", "it is pink"], "kind 6": ["a grey bird"], "kind 7": ["a blue bird"]}


@pytest.mark.filterwarnings("ignore:the model knows")
@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_options_are_the_same_over_every_transport_and_in_parts(served, splits, kind):
    features = splits["test_unseen"].image_features
    local = ServingClient(LocalTransport(served[0]))
    asks = [
        {"k": 5},
        {"k": 2, "alpha": 1000.0, "threshold": 0.5},
        {"among": ["kind 1", "kind 7"]},
        {"new_classes": {"mine": NEW["mine"]}, "alpha": 0.5, "k": 1},
        {"new_classes": NEW, "replaces": ["kind 6"], "extends": ["kind 7"], "k": 100},
        {"new_classes": {"mine": NEW["mine"]}, "among": ("kind 3",), "k": np.int64(9)},
    ]
    widths = [5, 2, 2, 1, 9, 2]
    for ask, width in zip(asks, widths, strict=True):
        found, expected = connect(served[2][kind], batch_size=3).classify(features, **ask), None
        expected = local.classify(features, **ask)
        assert set(found) == set(expected) and found["class_name"].shape == (8, width)
        for name, value in expected.items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(found[name], value, atol=1e-5)
            else:
                assert found[name].tolist() == value.tolist()
        new = list(ask.get("new_classes", ()))
        assert ("new_class_rank" in found) == bool(new)
        if new:
            assert found["new_class_name"].tolist() == [new] * 8
            assert found["new_class_rank"].dtype == np.int64
    assert set(local.classify(features, k=2)) == {*ANSWER, "strangeness"}
    assert (
        len(
            local.classify(features[:0], k=2, new_classes=NEW, replaces=["kind 6", "kind 7"])[
                "accepted"
            ]
        )
        == 0
    )


@pytest.mark.parametrize("kind", ["rest", "grpc", "folder"])
def test_options_that_cannot_be_meant_are_named(served, splits, kind):
    features = splits["test_unseen"].image_features[:2]
    folder = ServingClient(LocalTransport(served[0]))
    client = folder if kind == "folder" else connect(served[2][kind])
    one = {"kind 6": ["a bird"]}
    cases = [
        # The server says these, since only it knows the classes and the width.
        (
            {"new_classes": one},
            "the new class 'kind 6' has the name of a stored class; put it into",
        ),
        ({"new_classes": {"KIND 6": ["a bird"]}}, "except for case or spaces"),
        ({"among": ["kind 66"]}, "among names 'kind 66'.* the nearest are 'kind 6'"),
        ({"image_features": features[:, :5]}, "have 5 numbers for each image.* takes 12; use the"),
        ({"image_features": features * np.nan, "k": 2}, r"must be finite \(there is NaN\)$"),
        # The client says these.
        ({"alpha": -3}, "alpha must be a number above -1, not -3"),
        ({"alpha": np.inf}, "alpha must be a number above -1"),
        ({"alpha": "1"}, "alpha must be a number above -1, not '1'"),
        *(({"k": k}, "must be 1 or more") for k in (0, -1, 2.0, True, "2")),
        ({"among": []}, "among has no class"),
        ({"among": "kind 6"}, "among takes a list of texts"),
        ({"replaces": ["kind 6"]}, "replaces names 'kind 6', but new_classes has no such class"),
        ({"new_classes": one, "extends": ["kind 7"]}, "extends names 'kind 7', but"),
    ]
    for options, message in cases:
        with pytest.raises(ClarelError, match=message) as caught:
            client.classify(options.pop("image_features", features), **options)
        assert "\n" not in str(caught.value) and "node" not in str(caught.value)
    assert client.classify(features, k=1)["class_name"].shape == (2, 1)


@pytest.mark.parametrize("kind", ["rest", "folder"])
def test_words_that_the_model_does_not_know_are_a_warning(served, splits, kind):
    features = splits["test_unseen"].image_features[:2]
    folder = ServingClient(LocalTransport(served[0]))
    client = folder if kind == "folder" else connect(served[2][kind])
    # "number" and the colours of the trained classes are known, "qwerty" and "zxcv" are not.
    new = {"good": ["a red bird number"], "odd": ["a red bird qwerty", "zxcv"]}
    with pytest.warns(UserWarning, match="only 60 % of the words of the new class 'odd'") as caught:
        found = client.classify(features, new_classes=new)
    assert len(caught) == 1
    np.testing.assert_allclose(found["new_class_known_words"], [[1.0, 0.6]] * 2, atol=1e-6)


def test_exports_of_older_versions_answer_what_they_can(served, splits, finished_run, tmp_path):
    """They lack `classify_with_options`; of the others, these are all that a client asks for."""
    model, classes = load_model(finished_run / "model.keras"), finished_run / "classes.npz"
    endpoints = classifier_endpoints(
        *(model, ClassStore.load(classes), {}),
        *(RunFolder(finished_run).read_results(), 3, None, "old"),
    )
    older = ("serving_default", "classify_with_alpha", "classify_with_new_classes")
    endpoints = {name: endpoints[name] for name in older}
    write_saved_model(tmp_path / "prototype_classifier" / "1", endpoints, model)
    features = splits["test_unseen"].image_features[:2]
    mine = {"mine": NEW["mine"]}
    with serve(tmp_path) as addresses:
        for transport in (*map(connect, addresses), ServingClient(LocalTransport(tmp_path))):
            assert transport.classify(features)["class_name"].shape == (2, 3)
            assert transport.classify(features, alpha=0.5)["class_name"].shape == (2, 3)
            with pytest.warns(UserWarning, match="older version.* export the run again"):
                assert set(transport.classify(features, new_classes=mine)) == set(ANSWER)
            for options in ({"k": 2}, {"among": ["kind 1"]}, {"alpha": 0.5, "new_classes": mine}):
                with pytest.raises(ServingError, match=r"older version.* export the run again"):
                    transport.classify(features, **options)


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
    new = ["--new_class=pink one: a pink bird; it is pink", "--alpha=0.5", "--k=2"]
    done = run_program("classify_main.py", f"--export_dir={folder}", images, *new, "--format=json")
    assert done.returncode == 0, done.stderr
    assert "warning:" not in done.stderr  # the warning is in the row that it is about
    rows = json.loads(done.stdout)
    for image_id in split.image_ids[:2]:
        own = [row for row in rows if row["image_id"] == image_id]
        ranks = [row["rank"] for row in own]
        assert ranks[:2] == [1, 2] and ranks == sorted(ranks)
        (pink,) = (row for row in own if row["class"] == "pink one")
        # Of a, pink, bird, it, is, pink: two.
        assert pink["known_words"] == pytest.approx(1 / 3)
        assert "only 33 % of the words of the new class 'pink one'" in pink["warning"]
        assert all(row["known_words"] is None for row in own if row is not pink)
    for address in addresses.values():
        flags = [f"--server={address}", images, *new]
        asked = call_program("classify_main.py", *flags, "--format=csv")
        assert asked.returncode == 0, asked.stderr
        assert asked.stderr.startswith("warning: the model knows only 33 %")
        found = list(csv.DictReader(io.StringIO(asked.stdout)))
        assert [row["class"] for row in found] == [row["class"] for row in rows]
        table = call_program("classify_main.py", *flags)
        assert table.stdout.count("pink one") == 2 and table.stderr == asked.stderr
    (tmp_path / "new.csv").write_text("class,sentence\nkind 6,a red bird\nyours,a blue bird\n")
    done = call_program(
        "classify_main.py",
        *(f"--export_dir={folder}", images, f"--new_classes={tmp_path / 'new.csv'}", "--k=9"),
        *("--new_class=mine: a red bird", "--replaces=kind 6", "--among=kind 1,kind 6"),
        "--format=json",
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == 8
    assert {row["class"]: row["known_words"] for row in rows} == {
        **{"kind 1": None, "kind 6": 1.0, "mine": 1.0, "yours": 1.0}
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "give one of --export_dir, --run_dir and --server"),
        (["--export_dir=x"], "--features, or --dataset"),
        (["--export_dir=x", "--features=none.npz"], "--features: cannot read none.npz: no such"),
        (["--export_dir=x", "--features=."], "--features: . is a folder, not a file"),
        (["--export_dir=x", "--features=c.npz"], "--features: c.npz: image_ids has 3 names, but"),
        (["--export_dir=x", "--features=y", "--new_class=a"], "expected 'name: sentence"),
        (["--export_dir=x", "--features=y", "--alpha=-3"], "--alpha must be a number above -1"),
        (["--export_dir=x", "--features=y", "--threshold=nan"], "--threshold must be a finite"),
        (["--export_dir=x", "--features=y", "--among="], "--among has no class; name some, or"),
        (["--server=ftp://x", "--features=b2.npz"], "--server: server address 'ftp://x': unknown"),
        (
            ["--server=x:1", "--features=b2.npz", "--authorization_file=none"],
            "--authorization_file: cannot read none",
        ),
        (
            ["--server=https://x:1", "--features=b2.npz", "--ca_file=none.pem"],
            "--server: cannot use ca_file none.pem",
        ),
        (["--export_dir=x", "--features=y", "--k=0"], "--k=0: 0 is not a positive integer"),
        (["--export_dir=x", "--features=y", "--new_classes=none.json"], "--new_classes: cannot"),
        (["--export_dir=x", "--features=b2.npz"], "--export_dir: x does not exist; name the"),
        (["--export_dir=.", "--features=b2.npz"], "--export_dir: . holds no export"),
        (["--export_dir=x", "--features=a.jpg"], "--features=a.jpg is not an .npz file; give a"),
        (["--export_dir=x", "--features=a.csv"], "np.savez(path, image_ids=..., features=...)"),
        (["--export_dir=x", "--features=b.npz"], "--features=b.npz has no array 'features'"),
    ],
)
def test_program_names_what_is_missing(tmp_path, flags, message):
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff\xe0 a photograph")
    (tmp_path / "a.csv").write_text("1,2,3\n")
    np.savez(tmp_path / "b.npz", images=np.ones((2, 12)))
    np.savez(tmp_path / "b2.npz", features=np.ones((2, 12)))
    np.savez(tmp_path / "c.npz", features=np.ones((2, 12)), image_ids=["a", "b", "c"])
    done = call_program("classify_main.py", *flags, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and message in done.stderr


def test_program_names_the_file_with_features_of_another_width(served, tmp_path):
    np.savez(tmp_path / "x.npz", features=np.ones((2, 5)))
    for where in (f"--export_dir={served[0]}", f"--server={served[2]['rest']}"):
        done = call_program("classify_main.py", where, "--features=x.npz", cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith("error: --features=x.npz: ")
        assert "have 5 numbers for each image, but this model takes 12; use the" in done.stderr
