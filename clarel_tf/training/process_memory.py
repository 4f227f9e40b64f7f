"""What keeps the memory of a long run flat."""

import ctypes
import functools
import os
from collections.abc import Callable

_KERNELS = 128


def keep_few_kernels() -> None:
    """Bounds oneDNN's cache of compiled kernels, before TensorFlow uses it for the first time.

    Packed batches have ever new shapes. oneDNN compiles kernels for each and keeps the last 1024,
    tens of megabytes that are hardly ever used again, and that take an hour to fill up.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_KERNELS))


def give_back_free_memory() -> None:
    """Returns every free page of the heap to the system; does nothing where that is not known.

    The C library keeps what was freed in many small pieces between those in use. Evaluations
    allocate tens of megabytes in ever different sizes, and resident memory would creep up although
    the amount in use stays the same.
    """
    trim = _malloc_trim()
    if trim:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """`malloc_trim` of the GNU C library, if this process uses that."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
