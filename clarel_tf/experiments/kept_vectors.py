"""Word vectors in the folder of a run, so that it does not need the vector file again."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.vocabulary import build_vocabulary
from clarel_tf.storage import checksums
from clarel_tf.storage.array_files import read_npz
from clarel_tf.storage.word_vectors import WordVectors, load_word_vectors

_REMEDY = "restore a copy, or delete it: it is made again from the vector file"


def keep_vectors(path: Path, source: str, splits: Iterable[Split]) -> None:
    """Writes the vectors of all words of some splits' captions, unless they are there.

    Args:
      path: an `.npz` file; gets `words`, str [N], and `vectors`, float32 [N, width].
      source: the vector file.
    """
    if path.exists():
        return
    captions = (caption for split in splits for caption in split.all_captions())
    words = build_vocabulary(captions, min_count=1)
    try:
        found = load_word_vectors(source, words)
    except ClarelError as error:
        raise ClarelError(f"word_vectors: {error}") from error
    missing = set(found.missing)
    rows = [row for row, word in enumerate(words) if word not in missing]
    with checksums.written_aside(path) as temporary:
        np.savez(temporary, words=np.array(words)[rows], vectors=found.matrix[rows])


def kept_vectors(folder: RunFolder, config: Config, splits: dict[str, Split]) -> Path | None:
    """The file with the word vectors of both phases; writes it before the first phase."""
    if not config.word_vectors:
        return None
    path = folder.word_vectors_path
    keep_vectors(path, config.word_vectors, (splits["train"], splits["trainval"]))
    return path


def read_kept_vectors(path: Path, words: Sequence[str]) -> WordVectors:
    """The vectors of `words` from the file of `keep_vectors`."""
    checksums.check(path, _REMEDY)
    arrays = read_npz(path, ("words", "vectors"))
    if set(arrays) != {"words", "vectors"} or len(arrays["words"]) != len(arrays["vectors"]):
        raise ClarelError(f"{path} is damaged; {_REMEDY}")
    row_of_word = {str(word): row for row, word in enumerate(arrays["words"])}
    matrix = np.zeros((len(words), arrays["vectors"].shape[1]), np.float32)
    for row, word in enumerate(words):
        if word in row_of_word:
            matrix[row] = arrays["vectors"][row_of_word[word]]
    return WordVectors(matrix, [word for word in words if word not in row_of_word])
