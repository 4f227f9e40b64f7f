"""Software versions of a worker in one line, for comparison between workers.

Workers with different code would train without an error and give a wrong result.
"""

import collections
import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path

from clarel_tf import __version__

_PACKAGE = Path(__file__).resolve().parents[2]


def source_hash(package: Path = _PACKAGE) -> str:
    """A hash of the names and contents of all `.py` files below `package`."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def software() -> str:
    """Versions and the hash of the sources, as `name=value` pairs separated by spaces."""
    import keras
    import tensorflow as tf

    parts = {
        "clarel_tf": __version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
        "sources": source_hash(),
    }
    return " ".join(f"{name}={value}" for name, value in parts.items())


def differences(by_worker: Mapping[int, str]) -> dict[int, str]:
    """How each worker differs from the majority: worker -> text; in a tie the chief is right.

    Args:
      by_worker: worker -> what `software` returned there.
    """
    in_order = [by_worker[worker] for worker in sorted(by_worker)]
    usual = collections.Counter(in_order).most_common(1)[0][0]
    return {
        worker: _difference(by_worker[worker], usual)
        for worker in sorted(by_worker)
        if by_worker[worker] != usual
    }


def _difference(own: str, usual: str) -> str:
    ours, theirs = (dict(part.partition("=")[::2] for part in x.split()) for x in (own, usual))
    words = {"sources": "the source files of clarel_tf, hash"}
    return ", ".join(
        f"{words.get(name, name)} {ours.get(name, 'unknown')} instead of {theirs.get(name, 'none')}"
        for name in dict.fromkeys([*theirs, *ours])
        if ours.get(name) != theirs.get(name)
    )
