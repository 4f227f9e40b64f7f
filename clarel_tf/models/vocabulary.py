"""Tokenisation: standardising and splitting text; building, saving and loading a vocabulary.

Id 0 means "no token" (padding), id 1 an unknown word, and word number i of the list has id i + 2.
The same TensorFlow code tokenises for training and inside an exported graph.
"""

import collections
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.towers import TextTower
from clarel_tf.storage import checksums, files

PADDING_ID = 0
UNKNOWN_ID = 1
FIRST_WORD_ID = 2


@keras.saving.register_keras_serializable(package="clarel_tf")
def standardize(text: tf.Tensor) -> tf.Tensor:
    """Lower-case text in which everything but letters, marks and digits is a space.

    Args:
      text: strings of any shape, in UTF-8; invalid bytes count as spaces.

    Returns:
      Strings of the same shape.
    """
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", replacement_char=ord(" "))
    # The pattern runs before `lower`, which stops at a NUL character.
    text = tf.strings.regex_replace(text, r"[^\p{L}\p{M}\p{N}]+", " ")
    return tf.strings.lower(text, encoding="utf-8")


@keras.saving.register_keras_serializable(package="clarel_tf")
class Tokenizer(keras.layers.Layer):
    """Turns sentences into rows of token ids, inside the graph.

    A sentence is cut after `max_tokens` tokens. One without any token (empty, or punctuation
    alone) becomes a single unknown word, so that a row of zeros always means "no caption".
    """

    def __init__(self, words: Sequence[str], max_tokens: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.words = list(words)
        self.max_tokens = max_tokens
        self.lookup = keras.layers.TextVectorization(
            standardize=standardize,
            split="whitespace",
            output_sequence_length=max_tokens,
            vocabulary=self.words,
            name="lookup",
        )

    def call(self, text: tf.Tensor) -> tf.Tensor:
        """Strings [N] -> token ids, int32 [N, max_tokens], padded with 0 on the right."""
        ids = tf.cast(self.lookup(text), tf.int32)
        ids = tf.ensure_shape(ids, [None, self.max_tokens])
        is_empty = tf.equal(ids[:, :1], PADDING_ID)
        first = tf.where(is_empty, UNKNOWN_ID, ids[:, :1])
        return tf.concat([first, ids[:, 1:]], axis=1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "words": self.words, "max_tokens": self.max_tokens}


class TokenizedCaptions(NamedTuple):
    """The captions of N instances.

    Attributes:
      token_ids: int32 [M, T], all captions, instance after instance.
      instance: int64 [M], the instance that each caption belongs to.
    """

    token_ids: np.ndarray
    instance: np.ndarray


def tokenize_captions(captions: Sequence[Sequence[bytes]], tower: TextTower) -> TokenizedCaptions:
    """Tokenises the captions of N instances as a text tower does it."""
    flat = [caption for of_instance in captions for caption in of_instance]
    blocks = [np.zeros((0, tower.max_tokens), np.int32)]
    for start in range(0, len(flat), 10_000):
        block = tf.constant(flat[start : start + 10_000], tf.string)
        blocks.append(tower.tokenize(block).numpy())
        if blocks[-1].shape[1:] != (tower.max_tokens,):
            raise ClarelError(
                f"{type(tower).__name__}.tokenize must give {tower.max_tokens} ids (max_tokens) a "
                f"sentence, not {list(blocks[-1].shape[1:])}"
            )
    counts = [len(of_instance) for of_instance in captions]
    return TokenizedCaptions(np.concatenate(blocks), np.repeat(np.arange(len(captions)), counts))


def build_vocabulary(captions: Iterable[str | bytes], min_count: int = 1) -> list[str]:
    """The words of `captions` that occur at least `min_count` times, most frequent first.

    Example:

    >>> clarel_tf.build_vocabulary(["A red bird.", "a blue bird"])
    ['a', 'bird', 'blue', 'red']
    """
    counts: collections.Counter[bytes] = collections.Counter()
    captions = list(captions)
    for start in range(0, len(captions), 10_000):
        block = tf.constant(captions[start : start + 10_000], tf.string)
        counts.update(tf.strings.split(standardize(block)).flat_values.numpy().tolist())
    kept = [(-count, word.decode("utf-8")) for word, count in counts.items() if count >= min_count]
    if not kept:
        raise ClarelError(
            f"no word occurs at least {min_count} times in the training captions; "
            "lower min_word_count or look at the captions"
        )
    return [word for _, word in sorted(kept)]


def save_vocabulary(path: Path, words: Sequence[str]) -> None:
    """Writes one word a line."""
    checksums.write_text(path, "".join(f"{word}\n" for word in words))


def load_vocabulary(path: Path) -> list[str]:
    """Reads what `save_vocabulary` wrote; names the line of anything that cannot be a word."""
    try:
        text = files.read_regular(path).decode("utf-8")
    except OSError as error:
        raise ClarelError(f"cannot read the vocabulary {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ClarelError(f"the vocabulary {path} is not UTF-8 text ({error.reason})") from error
    words = text.split("\n")
    if words.pop() or not words:
        raise ClarelError(f"the vocabulary {path} is empty or does not end with a newline")
    seen: set[str] = set()
    for number, word in enumerate(words, start=1):
        if word in seen or not word or word.split() != [word]:
            what = "appears twice" if word in seen else "is not a single word"
            raise ClarelError(f"the vocabulary {path}, line {number}: {word!r} {what}")
        seen.add(word)
    # After the checks that name a line. Only the checksum detects a changed letter.
    checksums.check(path, "delete it, and the training command makes it again from the captions")
    return words
