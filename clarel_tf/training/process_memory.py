"""Limits the memory of a long run: fewer cached kernels, no free pages kept."""

import ctypes
import functools
import os
from collections.abc import Callable

_KERNELS = 128


def keep_few_kernels() -> None:
    """Limits oneDNN's cache of compiled kernels; call it before TensorFlow first uses the cache.

    Almost every packed batch has a new shape. oneDNN compiles kernels for each shape and keeps the
    last 1024. They take tens of megabytes and are hardly ever reused.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_KERNELS))


def give_back_free_memory() -> None:
    """Returns free pages of the heap to the system; does nothing without the GNU C library.

    The C library keeps freed memory in small pieces between those in use. Evaluations allocate tens
    of megabytes in varying sizes, so resident memory would grow while the amount in use does not.
    """
    trim = _malloc_trim()
    if trim:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """`malloc_trim` of the GNU C library, or None."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
