"""Tokens, ids and the vocabulary file."""

import pytest
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.vocabulary import (
    Tokenizer,
    build_vocabulary,
    load_vocabulary,
    save_vocabulary,
)

WORDS = ["a", "red", "bird", "ü", "s"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("a red bird", [2, 3, 4, 0]),
        ("A RED, bird!", [2, 3, 4, 0]),  # case and punctuation
        ("red-bird's", [3, 4, 6, 0]),  # punctuation becomes a space
        ("Ü", [5, 0, 0, 0]),  # upper case beyond ASCII
        ("a purple bird", [2, 1, 4, 0]),  # an unknown word keeps its place
        ("red red red red bird bird", [3, 3, 3, 3]),  # cut at the limit
        ("", [1, 0, 0, 0]),  # no token: one unknown word
        (" ?! ", [1, 0, 0, 0]),
        (b"\xff\xfered\xff bird", [3, 4, 0, 0]),  # invalid UTF-8
        (b"red\x00bird", [3, 4, 0, 0]),  # a NUL
        ("red " * 100_000, [3, 3, 3, 3]),
    ],
)
def test_token_ids(text, ids):
    assert Tokenizer(WORDS, 4)(tf.constant([text])).numpy().tolist() == [ids]


def test_empty_batch():
    assert Tokenizer(WORDS, 4)(tf.zeros([0], tf.string)).shape == (0, 4)


def test_vocabulary_is_sorted_by_count_then_by_letter():
    captions = ["B a, c!", b"b A", "b"]
    assert build_vocabulary(captions) == ["b", "a", "c"]
    assert build_vocabulary(captions, min_count=2) == ["b", "a"]
    assert build_vocabulary(["z y x"]) == ["x", "y", "z"]


def test_no_word_left():
    with pytest.raises(ClarelError, match="min_word_count"):
        build_vocabulary(["a b c"], min_count=2)


def test_file_round_trip(tmp_path):
    path = tmp_path / "vocabulary.txt"
    save_vocabulary(path, WORDS)
    assert load_vocabulary(path) == WORDS
    assert path.read_text(encoding="utf-8").splitlines() == WORDS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"a\nb", "newline"),
        (b"a\nb\na\n", "line 3: 'a' appears twice"),
        (b"a\n\nb\n", "line 2"),
        (b"a\ntwo words\n", "line 2"),
        (b"a\n\xff\n", "not UTF-8"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with pytest.raises(ClarelError, match=message):
        load_vocabulary(path)
