"""What the client believes of an answer, and what it refuses; over real sockets."""

import copy
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2

from clarel_tf.errors import ClarelError, printable
from clarel_tf.serving.client import ServingClient, ServingError, connect
from clarel_tf.serving.local import LocalTransport, read_authorization
from clarel_tf.serving.versions import MODELS, load_version
from tests.helpers.hostile_servers import answering, grpc_answering, response
from tests.helpers.programs import run_program

GOOD = {
    "class_name": [["a", "b"], ["b", "a"]],
    "distance": [[0.5, 1.5], [1.0, 2.0]],
    "probability": [[0.75, 0.25], [0.5, 0.4995]],
    "accepted": [True, False],
}
TWO = np.zeros((2, 4), np.float32)
# The new class "x" is the second of both images; "y" is not among the nearest of the first.
NEW = {
    "class_name": [["a", "x"], ["y", "x"]],
    "distance": [[0.5, 1.5], [1.0, 2.0]],
    "probability": [[0.75, 0.2], [0.5, 0.4995]],
    "accepted": [True, False],
    "new_class_name": [["x", "y"], ["x", "y"]],
    "new_class_rank": [[2, 7], [2, 1]],
    "new_class_distance": [[1.5, 3.0], [2.0, 1.0]],
    "new_class_probability": [[0.2, 0.01], [0.4995, 0.5]],
    "new_class_known_words": [[1.0, 0.5], [1.0, 0.5]],
}
MINE = {
    "class_name": [["a", "mine"]] * 2,
    **{name: NEW[name] for name in ("distance", "probability", "accepted")},
    "new_class_name": [["mine"]] * 2,
    "new_class_rank": [[2]] * 2,
    "new_class_distance": [[1.5], [2.0]],
    "new_class_probability": [[0.2], [0.4995]],
    "new_class_known_words": [[1.0]] * 2,
}
# The same for what an answer says of new classes.
BAD_NEW = {
    "a NaN": ({"new_class_distance": [[1.5, float("nan")], [2, 1]]}, "NaN"),
    "a rank of 0": ({"new_class_rank": [[2, 0], [2, 1]]}, "not a whole number from 1"),
    "half a rank": ({"new_class_rank": [[2, 7.5], [2, 1]]}, "not a whole number from 1"),
    "a rank twice": ({"new_class_rank": [[7, 7], [2, 1]]}, "do not fit their distances"),
    "ranks turned round": ({"new_class_rank": [[7, 2], [2, 1]]}, "do not fit their distances"),
    "a rank as text": ({"new_class_rank": [["2", "7"], ["2", "1"]]}, "must hold numbers"),
    "a name as a number": ({"new_class_name": [[1, 2], [1, 2]]}, "must hold text"),
    "a negative distance": ({"new_class_distance": [[1.5, -3], [2, 1]]}, "below 0"),
    "a probability above 1": ({"new_class_probability": [[0.2, 2], [0.4, 0.5]]}, "between 0 and 1"),
    "a negative share": ({"new_class_known_words": [[-1, 0], [1, 1]]}, "share of known words"),
    "a share above 1": ({"new_class_known_words": [[1, 0], [1, 2]]}, "share of known words"),
    "another distance": ({"new_class_distance": [[1.4, 3], [2, 1]]}, "do not fit the nearest"),
    "another probability": (
        {"new_class_probability": [[0.3, 0.01], [0.4995, 0.5]]},
        "do not fit the nearest",
    ),
    "another name": ({"class_name": [["a", "b"], ["y", "x"]]}, "do not fit the nearest"),
    "nearer than the nearest": (
        {"new_class_distance": [[1.5, 3], [2, 1]], "distance": [[0.5, 3.5], [1, 2]]},
        "do not fit|not among them",
    ),
    "left out of the nearest": (
        {"new_class_rank": [[8, 7], [2, 1]], "new_class_distance": [[1.4, 1.3], [2, 1]]},
        "nearer than the nearest classes, but not among them",
    ),
    "too few columns": ({"new_class_rank": [[2], [2]]}, "do not fit together"),
    "too few rows": ({"new_class_rank": [[2, 7]]}, "not one row for each of the 2"),
    "no columns": ({"new_class_rank": [[], []]}, "lacks new_class_rank"),
    "a row for each class": ({"new_class_rank": [2, 7]}, "impossible shape"),
    "a lack": ({"new_class_rank": None}, "lacks new_class_rank"),
    "all lacking": ({name: None for name in NEW if name.startswith("new")}, "lacks new_class_name"),
    "no new class": ({name: [[], []] for name in NEW if "new" in name}, "lacks new_class_name"),
    "others": ({"new_class_name": [["y", "x"], ["y", "x"]]}, "do not fit the nearest|for other"),
    "more than k": (
        {
            "class_name": [["a", "x", "b"], ["y", "x", "a"]],
            "distance": [[0.5, 1.5, 1.6], [1.0, 2.0, 2.0]],
            "probability": [[0.75, 0.2, 0], [0.5, 0.4995, 0]],
        },
        "the answer has 3 classes, but k is 2",
    ),
    "not on offer": ({"class_name": [["c", "x"], ["y", "x"]]}, "'c', which is not on offer"),
}

# Outputs that replace those of GOOD, and a part of the message; None takes an output away.
BAD = {
    "a NaN": ({"distance": [[0.5, float("nan")], [1, 2]]}, "NaN"),
    "an infinite distance": ({"distance": [[0.5, float("inf")], [1, 2]]}, "Infinity|infinite"),
    "a distance beyond float32": ({"distance": [[0.5, 1e39], [1, 2]]}, "infinite"),
    "a negative distance": ({"distance": [[-0.5, 1.5], [1, 2]]}, "below 0"),
    "falling distances": ({"distance": [[0.5, 1.5], [2, 1]]}, "not in order, nearest first"),
    "a negative probability": ({"probability": [[0.75, -0.25], [0.5, 0.5]]}, "between 0 and 1"),
    "a probability above 1": ({"probability": [[1.1, 0.0], [0.5, 0.5]]}, "between 0 and 1"),
    "too much probability": ({"probability": [[0.75, 0.26], [0.5, 0.5]]}, "add up to more than 1"),
    "rising probabilities": ({"probability": [[0.25, 0.75], [0.5, 0.5]]}, "highest first"),
    "accepted as text": ({"accepted": ["no", "no"]}, "must hold true or false, not text"),
    "accepted as numbers": ({"accepted": [1, 0]}, "must hold true or false, not numbers"),
    "accepted as a table": ({"accepted": [[True], [False]]}, "impossible shape"),
    "names that are numbers": ({"class_name": [[1, 2], [2, 1]]}, "must hold text, not numbers"),
    "numbers that are text": ({"distance": [["1", "2"], ["1", "2"]]}, "must hold numbers"),
    "mixed names": ({"class_name": [["a", 1], ["b", "a"]]}, "mixes"),
    "mixed numbers": ({"distance": [[True, 1.5], [1, 2]]}, "mixes"),
    "nothing": ({"distance": [[None, None], [None, None]]}, "neither text nor numbers"),
    "objects": ({"class_name": [[{"b64": "YQ=="}] * 2] * 2}, "neither text nor numbers"),
    "ragged rows": ({"class_name": [["a"], ["b", "a"]]}, "not a table"),
    "one number": ({"distance": 1.0}, "not a table"),
    "no classes": ({name: [[], []] for name in list(GOOD)[:3]}, "impossible shape"),
    "another k": ({"distance": [[0.5], [1.0]]}, "do not fit together"),
    "three dimensions": ({"distance": [[[0.5, 1.5]], [[1, 2]]]}, "impossible shape"),
    "one dimension": ({"distance": [0.5, 1.5]}, "impossible shape"),
    "too few rows": ({"accepted": [True]}, "not one row for each of the 2"),
    "a lack": ({"accepted": None}, "lacks accepted"),
    "a stranger that is NaN": ({"other": [float("nan")] * 2}, "NaN"),
}


def changed(changes: dict) -> dict:
    outputs = {**copy.deepcopy(GOOD), **changes}
    return {name: value for name, value in outputs.items() if value is not None}


def as_proto(outputs: dict) -> predict_pb2.PredictResponse:
    answer = predict_pb2.PredictResponse()
    for name, value in outputs.items():
        array = np.array(value)  # float64 where NumPy makes it so
        kind = tf.string if array.dtype.kind == "U" else array.dtype
        answer.outputs[name].CopyFrom(tf.make_tensor_proto(value, kind))
    return answer


@pytest.mark.parametrize("case", BAD)
def test_wrong_answers_by_rest(case):
    changes, message = BAD[case]
    with answering(lambda request: response({"outputs": changed(changes)})) as address:
        with pytest.raises(ServingError, match=message) as caught:
            connect(address).classify(TWO)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def asked_for_new(address):
    described = {"x": ["a bird"], "y": ["it", "is"]}
    return connect(address).classify(TWO, new_classes=described, k=2, among=["a", "b"])


@pytest.mark.filterwarnings("ignore:the model knows")
@pytest.mark.parametrize("case", [None, *BAD_NEW])
def test_what_answers_say_of_new_classes(case):
    changes, message = BAD_NEW[case] if case else ({}, "")
    outputs = {name: value for name, value in {**NEW, **changes}.items() if value is not None}
    with (
        answering(lambda request: response({"outputs": outputs})) as rest,
        grpc_answering(lambda *_: as_proto(outputs)) as by_grpc,
    ):
        for address in (rest, by_grpc):
            if case:
                with pytest.raises(ServingError, match=message) as caught:
                    asked_for_new(address)
                assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
            else:
                assert asked_for_new(address)["new_class_rank"].tolist() == [[2, 7], [2, 1]]


# gRPC has no way to say these.
_JSON_ONLY = {"mixed names", "mixed numbers", "nothing", "objects", "ragged rows"}


@pytest.mark.parametrize("case", [case for case in BAD if case not in _JSON_ONLY])
def test_wrong_answers_by_grpc(case):
    answer = as_proto(changed(BAD[case][0]))
    with grpc_answering(lambda *_: answer) as address, pytest.raises(ServingError):
        connect(address).classify(TWO)


def test_right_answers_are_believed():
    many = changed({"probability": [[1.0, 0.0], [0.5004, 0.5]], "distance": [[0, 0], [1, 1]]})
    for outputs in (GOOD, many):
        with (
            answering(lambda _, outputs=outputs: response({"outputs": outputs})) as rest,
            grpc_answering(lambda *_, outputs=outputs: as_proto(outputs)) as by_grpc,
        ):
            for address in (rest, by_grpc):
                found = connect(address).classify(TWO)
                assert found["class_name"].tolist() == outputs["class_name"]
                assert found["accepted"].dtype == bool and found["distance"].dtype == np.float32


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "no 'outputs'"),
        (b"null", "no 'outputs'"),
        (b"{}", "no 'outputs'"),
        (b'{"outputs": {}}', "lacks embedding"),
        (b'{"outputs": [[NaN, 1]]}', "NaN is not a number"),
        (b'{"outputs": [[-Infinity, 1]]}', "Infinity is not a number"),
        (b'{"outputs": [[1e999, 1]]}', "infinite"),
        (b'{"outputs": [[1e39, 1]]}', "infinite"),
        (b'{"outputs": [[1' + b"0" * 400 + b"]]}", "a number of 40 digits"),
        (b'{"outputs": [[1' + b"0" * 5000 + b"]]}", "not JSON|40 digits"),
        (b'{"outputs": [["a"]]}', "must hold numbers"),
        (json.dumps({"outputs": {str(n): [[1.0]] for n in range(65)}}).encode(), "65 outputs"),
        (b'{"outputs": [[]]}', "impossible shape"),
        (b"[" * 60_000, "not JSON"),
        (b'{"outputs": ' + b"[" * 500 + b"1" + b"]" * 500 + b"}", "not a table"),
        (b"\xff\xfe\x00", "not JSON"),
    ],
)
def test_wrong_embeddings(body, message):
    with (
        answering(lambda request: response(body)) as address,
        pytest.raises(ServingError, match=message),
    ):
        connect(address).embed_texts(["a bird"])


def claiming(shape: list[int], **fields) -> tensor_pb2.TensorProto:
    proto = tensor_pb2.TensorProto(dtype=tf.float32.as_datatype_enum)
    for size in shape:
        proto.tensor_shape.dim.add().size = size
    proto.MergeFrom(tensor_pb2.TensorProto(**fields))
    return proto


STRING, RESOURCE = tf.string.as_datatype_enum, tf.resource.as_datatype_enum
CLAIMS = {
    "gigabytes": (claiming([2, 1 << 33], float_val=[1.0]), "too large"),
    "more than fits": (claiming([2, 1 << 62], float_val=[1.0]), "too large"),
    "fewer than claimed": (claiming([2, 16], float_val=[1.0]), "does not hold"),
    "more than claimed": (claiming([2, 1], float_val=[1.0] * 3), "does not hold"),
    "content cut short": (claiming([2, 16], tensor_content=b"\0" * 100), "does not hold"),
    "content too long": (claiming([2, 1], tensor_content=b"\0" * 12), "does not hold"),
    "a negative size": (claiming([2, -1], float_val=[1.0]), "too large"),
    "no shape": (claiming([], float_val=[1.0]), "one or two dimensions"),
    "many dimensions": (claiming([2] + [1] * 200, float_val=[1, 2]), "one or two dimensions"),
    "another field": (claiming([2, 1], int_val=[1, 2]), "does not hold"),
    "a strange type": (claiming([2, 1], dtype=RESOURCE), "unexpected type"),
    "no such type": (claiming([2, 1], dtype=9999), "unexpected type"),
    "text as content": (claiming([2, 1], dtype=STRING, tensor_content=b"ab"), "does not hold"),
    "text": (claiming([2, 1], dtype=STRING, string_val=[b"a", b"b"]), "must hold numbers"),
    "a NaN": (claiming([2, 1], float_val=[float("nan"), 1]), "NaN"),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_messages_that_claim_what_they_do_not_hold(case):
    proto, message = CLAIMS[case]
    answer = predict_pb2.PredictResponse()
    answer.outputs["embedding"].CopyFrom(proto)
    with (
        grpc_answering(lambda *_: answer) as address,
        pytest.raises(ServingError, match=message),
    ):
        connect(address).embed_texts(["a bird", "a bird"])


def test_parts_must_fit_together():
    widths = []

    def answer(request):
        widths.append(2 + len(widths))
        return response({"outputs": [[1.0] * widths[-1]]})

    with (
        answering(answer) as address,
        pytest.raises(ServingError, match="parts of the answer do not fit together"),
    ):
        connect(address, batch_size=1).embed_texts(["a bird", "a bird"])


def test_answers_of_a_folder_are_checked_too(exported_run):
    class Twisted(LocalTransport):
        """A folder whose export answers with the order of its rows turned round."""

        def predict(self, *arguments):
            answer = super().predict(*arguments)
            return {
                name: value[:, ::-1] if value.ndim > 1 else value for name, value in answer.items()
            }

    features = np.ones((3, 12), np.float32)
    assert len(ServingClient(LocalTransport(exported_run)).classify(features)["distance"]) == 3
    with pytest.raises(ServingError, match="not in order, nearest first"):
        ServingClient(Twisted(exported_run)).classify(features)


@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_texts_may_be_bytes(kind):
    seen = []

    def rest(request):
        inputs = json.loads(request.body)["inputs"]
        seen.append({name: inputs[name] for name in inputs if name != "image_features"})
        return response({"outputs": MINE if "image_features" in inputs else [[1.0]] * 2})

    def by_grpc(request, context):
        inputs = {
            name: [text.decode() for text in tf.make_ndarray(proto).tolist()]  # numbers: none
            for name, proto in request.inputs.items()
            if name != "image_features"
        }
        seen.append(inputs)
        return as_proto(MINE if "image_features" in request.inputs else {"embedding": [[1.0]] * 2})

    with answering(rest) as first, grpc_answering(by_grpc) as second:
        client = connect(first if kind == "rest" else second)
        client.embed_texts([b"a v\xc3\xb6gel \xff", "plain \ud800"])
        assert seen.pop() == {"text": ["a vögel \ufffd", "plain ?"]}
        client.predict("text_embedder", {"text": np.array([b"a", b"b"])})
        assert seen.pop() == {"text": ["a", "b"]}
        client.classify(TWO, new_classes={b"mine": [b"a bird", "it"], "mine": ("more",)})
        assert seen.pop() == {
            "sentences": ["a bird", "it", "more"],
            "class_names": ["mine", "mine", "mine"],
            **{name: [] for name in ("alpha", "k", "among", "replaces", "extends", "threshold")},
        }
        for wrong in ([1], [None], [["a"]], 5, None, "a bird", b"a bird"):
            with pytest.raises(ClarelError, match="takes"):
                client.embed_texts(wrong)
            with pytest.raises(ClarelError, match="takes"):
                client.classify(TWO, new_classes={"mine": wrong})
        with pytest.raises(ClarelError, match="takes texts, not int"):
            client.classify(TWO, new_classes={1: ["a bird"]})
        with pytest.raises(ClarelError, match="has no sentence"):
            client.classify(TWO, new_classes={"mine": []})
        for nameless in ("", "  "):
            with pytest.raises(ClarelError, match="a class without a name"):
                client.classify(TWO, new_classes={nameless: ["a bird"]})
        with pytest.raises(ClarelError, match="must be a dictionary"):
            client.classify(TWO, new_classes=["a bird"])
        with pytest.raises(ClarelError, match="must have rows"):
            client.predict("image_embedder", {"image_features": np.array(1.0)})


def test_embeddings_of_two_exports_are_not_mixed():
    ids = []

    def answer(request):
        count = len(json.loads(request.body)["inputs"]["text"])
        own = ids.pop(0)
        outputs = {"embedding": [[1.0]] * count}
        if own is not None:
            outputs["export_id"] = own if isinstance(own, list) else [own] * count
        return response({"outputs": outputs})

    with answering(answer) as address:
        client = connect(address, batch_size=2)

        def ask(*exports) -> None:
            ids[:] = exports
            assert client.embed_texts(["a bird"] * (2 * len(exports))).shape[1] == 1

        ask("one", "one")
        ask(None)  # of an export without a mark
        ask("one")
        # It stays with the first one: another thread may hold embeddings of that.
        for exports in (["two"], ["one", "two"], [["one", "two"]], ["two"]):
            with pytest.raises(ServingError, match=r"changed to another export.*connect again"):
                ask(*exports)
        ask("one", "one")
        with pytest.raises(ServingError, match="must hold text"):
            ask([1, 2])
        with pytest.raises(ServingError, match="do not fit together"):
            ask("one", None)
        ids[:] = ["one"]
        answer_of_one = client.predict("text_embedder", {"text": ["a bird"]})
        assert set(answer_of_one) == {"embedding"}


def test_a_folder_keeps_its_version(exported_run, tmp_path):
    """An export that appears between two questions does not mix its embeddings with the others."""
    exports = shutil.copytree(exported_run, tmp_path / "models")
    client = ServingClient(LocalTransport(exports))
    assert client.embed_images(np.ones((1, 12), np.float32)).shape == (1, 16)
    for model in MODELS:
        (exports / model / "2").mkdir()
        (exports / model / "2" / "saved_model.pb").write_bytes(b"another export")
    assert client.embed_texts(["a bird"]).shape == (1, 16)
    assert len(client.classify(np.ones((1, 12), np.float32))["accepted"]) == 1
    with pytest.raises(ClarelError, match="cannot be loaded"):
        ServingClient(LocalTransport(exports)).embed_texts(["a bird"])
    assert load_version(exports, "text_embedder", 1).signatures
    with pytest.raises(ClarelError, match="no version 7 of text_embedder"):
        load_version(exports, "text_embedder", 7)


def test_printable():
    assert printable("a plain text, ünïcödé 鳥 😀") == "a plain text, ünïcödé 鳥 😀"
    assert printable("\x1b[2J\r\n\t\x00\x7f") == "\\x1b[2J\\r\\n\\t\\x00\\x7f"
    assert printable("a\u202eb\u2028\ud800\xa0") == "a\\u202eb\\u2028\\ud800\\xa0"


def test_messages_on_the_terminal_are_printable(tmp_path):
    done = run_program("classify_main.py", "--server=http://a\x1b[2J", "--features=x\x1b.npz")
    assert done.returncode == 1 and done.stderr.startswith("error: ")
    assert "\x1b" not in done.stderr and "\\x1b" in done.stderr


def test_authorization_files(tmp_path):
    assert read_authorization(None) is None
    (tmp_path / "value").write_bytes(b" Bearer abc \r\n")
    assert read_authorization(str(tmp_path / "value")) == "Bearer abc"
    (tmp_path / "bytes").write_bytes(b"\xff")
    for path in (tmp_path / "bytes", tmp_path, tmp_path / "none"):
        with pytest.raises(ClarelError):
            read_authorization(str(path))
