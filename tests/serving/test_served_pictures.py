"""Pictures in requests, through the C++ loader: the features of extraction, and refusals."""

import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.images.extractor import Extractor
from clarel_tf.serving.refusals import plain_refusal, refused_pictures
from clarel_tf.serving.versions import OF_PICTURES
from tests.helpers import pictures
from tests.helpers.cpp_calls import ask_cpp, signatures
from tests.helpers.tiny_backbone import tiny_backbone

KINDS = pictures.many_kinds()
# Further inputs of the signatures of the classifier, for two new classes and so many images.
OTHERS = {
    "classify_with_alpha": lambda n: {"alpha": np.full(n, 0.3, "f4")},
    "classify_with_new_classes": lambda n: {
        "sentences": ["a pink bird", "a grey bird"],
        "class_names": ["mine", "other"],
    },
    "classify_with_options": lambda n: {
        "alpha": np.zeros(0, "f4"),
        "k": np.full(n, 4, "i4"),
        "among": ["kind 1", "kind 6", "kind 7"],
        "sentences": ["a pink bird"],
        "class_names": ["mine"],
        "replaces": [],
        "extends": [],
        "threshold": np.zeros(0, "f4"),
    },
    "classify_with_prototypes": lambda n: {
        "prototypes": np.eye(16, dtype="f4")[:3],
        "class_names": ["a", "b", "c"],
    },
}


@pytest.fixture(scope="module")
def extracted(tmp_path_factory):
    """Features of `KINDS` as `extract_main.py` makes them, from files."""
    folder = tmp_path_factory.mktemp("pictures")
    pictures.fill(folder, {f"{n}.bin": data for n, data in enumerate(KINDS.values())})
    names = [f"{n}.bin" for n in range(len(KINDS))]
    batches = Extractor(tiny_backbone()).batches(folder, names)
    return np.concatenate([features for _, features, _ in batches])


SOME = [("image_embedder", ["embed_with_id"])]
# An export without a gallery has no retrieval.
ALL = [(model, [*(names.keys() - {"retrieve_captions"})]) for model, names in OF_PICTURES.items()]


@pytest.mark.parametrize(
    "model,names", [*SOME, *(pytest.param(*case, marks=pytest.mark.slow) for case in ALL)]
)
def test_a_picture_gets_the_answer_of_its_extracted_features(
    model, names, exported_run, extracted, tmp_path
):
    """For more pictures than are in the network at once."""
    path, calls = exported_run / model / "1", []
    for name in names:
        others = OTHERS.get(name, lambda n: {})(len(extracted))
        calls.append((name, {"image_features": extracted} | others))
        calls.append((OF_PICTURES[model][name], {"image_bytes": list(KINDS.values())} | others))
    answers = ask_cpp(path, tmp_path, calls)
    for expected, answer in zip(answers[::2], answers[1::2], strict=True):
        assert answer.keys() == expected.keys() and "error" not in answer
        for name, values in expected.items():
            if isinstance(np.ravel(values)[0], str | bool):
                assert answer[name] == values
            else:
                np.testing.assert_allclose(answer[name], values, atol=1e-4)
    assert len({tuple(np.round(row, 3)) for row in extracted}) == 11  # or they would prove nothing


def test_bad_pictures_are_named_and_the_next_request_is_served(exported_run, tmp_path):
    """Also damage that shows only in decoding, and rows of a later block."""
    flipped = bytearray(KINDS["png"])
    flipped[60] ^= 255
    good, bad = KINDS["jpeg"], pictures.broken()
    problems = {3: "is damaged or cut off", 12: "is damaged or cut off"}
    some = [good] * 14
    some[3], some[12] = bytes(flipped), bad["cut jpeg"][0]
    calls = [("embed_pictures", {"image_bytes": [data]}) for data, _ in bad.values()]
    calls += [
        ("embed_pictures", {"image_bytes": some}),
        ("embed_pictures", {"image_bytes": [b""] * 20}),
        ("embed_pictures", {"image_bytes": []}),
        ("embed_pictures", {"image_bytes": [good, KINDS["1 x 1 png"]]}),
    ]
    *of_bad, two, many, none, last = ask_cpp(exported_run / "image_embedder/1", tmp_path, calls)
    for answer, (name, (_, problem)) in zip(of_bad, bad.items(), strict=True):
        assert f"image_bytes[0] {problem}" in answer["error"], name
        assert refused_pictures(plain_refusal(answer["error"])) == {0: problem}
    assert refused_pictures(plain_refusal(two["error"])) == problems
    listed = refused_pictures(plain_refusal(many["error"]))
    assert listed == dict.fromkeys(range(8), "is empty (0 bytes)")
    assert "image_bytes[7] is empty (0 bytes); and 12 more" in many["error"]
    assert none["embedding"] == []
    assert np.shape(last["embedding"]) == (2, 16)


def test_pictures_are_strings_and_every_output_has_the_batch_first(exported_run):
    for model, names in OF_PICTURES.items():
        offered = signatures(exported_run / model / "1")
        for name in {*names.values()} - {"retrieve_captions_of_pictures"}:
            info = offered[name].inputs["image_bytes"]
            assert info.dtype == tf.string.as_datatype_enum
            assert [dim.size for dim in info.tensor_shape.dim] == [-1]
            outputs = offered[name].outputs.values()
            assert all(output.tensor_shape.dim[0].size == -1 for output in outputs)
