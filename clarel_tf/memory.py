"""Free memory goes back to the system, so that a long run does not seem to grow.

The C library keeps what was freed in many small pieces between those in use. Evaluations allocate
tens of megabytes in ever different sizes, and resident memory creeps up by some hundred kilobytes
each although the amount in use stays the same.
"""

import ctypes
import functools
from collections.abc import Callable


def give_back_free_memory() -> None:
    """Returns every free page of the heap to the system; does nothing where that is not known."""
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
