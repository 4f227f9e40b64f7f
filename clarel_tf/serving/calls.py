"""Bounds of one call to a model server: its time, its tries and the size of its answer."""

import time
from collections.abc import Callable
from typing import TypeVar

from clarel_tf.errors import ClarelError

Result = TypeVar("Result")

MAX_ANSWER_BYTES = 16 << 20  # of one answer, before and after it is decompressed
TRIES = 4
FIRST_WAIT = 0.1  # seconds; every further wait is twice as long
_LONGEST = 86_400.0  # seconds of a call


class ServingError(ClarelError):
    """The server could not be reached, refused a request, or gave an answer that cannot be used.

    Example:

    >>> issubclass(clarel_tf.ServingError, clarel_tf.ClarelError)
    True
    """


class Unavailable(ServingError):
    """The server cannot answer now; the same request may work a moment later."""


class Dropped(Unavailable):
    """The server had closed a connection that was kept; a fresh one may work at once."""


class TooLarge(ServingError):
    """The request, or the answer to it, is larger than the other side takes."""


class Deadline:
    """The end of a call. All parts of the call, and all its tries, share it."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until the end, above 0; raises ServingError if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.missed()
        return left

    def allows(self, seconds: float) -> bool:
        """True if there is time to wait so long and try again."""
        return time.monotonic() + seconds < self._end

    def missed(self) -> ServingError:
        """The error of a call that took too long."""
        return ServingError(f"no whole answer within {self._seconds:g} s")


def checked_timeout(seconds: float) -> float:
    """Seconds that a call may take; raises ClarelError unless it is a number that makes sense."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= _LONGEST:
        raise ClarelError(f"timeout must be above 0 s and at most a day, not {seconds!r}")
    return float(seconds)


def retrying(ask: Callable[[], Result], deadline: Deadline) -> Result:
    """The result of `ask`, called again where it raises Unavailable.

    There are at most TRIES calls. The waits between them double, and none of them goes beyond the
    deadline: the last error is raised instead. After Dropped there is no wait.
    """
    wait = FIRST_WAIT
    for _ in range(TRIES - 1):
        try:
            return ask()
        except Dropped:
            continue
        except Unavailable:
            if not deadline.allows(wait):
                raise
        time.sleep(wait)
        wait *= 2
    return ask()
