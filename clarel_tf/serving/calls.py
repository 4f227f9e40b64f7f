"""Limits of one call to a model server: time, retries, size of the answer."""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from clarel_tf.errors import ClarelError

Result = TypeVar("Result")

MAX_ANSWER_BYTES = 16 << 20  # of one answer, before and after it is decompressed
TRIES = 4
FIRST_WAIT = 0.1  # seconds; each further wait is twice as long
_LONGEST = 86_400.0  # seconds, for one call


class ServingError(ClarelError):
    """The server could not be reached, refused the request, or gave an unusable answer.

    Example:

    >>> issubclass(clarel_tf.ServingError, clarel_tf.ClarelError)
    True
    """


class Unavailable(ServingError):
    """The server cannot answer now; the same request may succeed later."""


class Dropped(Unavailable):
    """The server had closed a kept-alive connection; a new connection may work at once."""


class TooLarge(ServingError):
    """The request or its answer exceeds a size limit."""


class BadPictures(ServingError):
    """The request has bytes that are no picture, or not one that is decoded.

    Attributes:
      problems: what is wrong, such as "is empty (0 bytes)", by row; there may be more bad rows.
    """

    def __init__(self, problems: Mapping[int, str]):
        named = (f"image_bytes[{row}] {problem}" for row, problem in problems.items())
        super().__init__("; ".join(named))
        self.problems = dict(problems)


class Deadline:
    """The deadline of a call, shared by all its parts and retries."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, above 0; raises ServingError after the deadline."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.missed()
        return left

    def allows(self, seconds: float) -> bool:
        """True if there is time to wait for `seconds` and try again."""
        return time.monotonic() + seconds < self._end

    def missed(self) -> ServingError:
        """The error for a call that took too long."""
        return ServingError(f"no whole answer within {self._seconds:g} s")


def checked_timeout(seconds: float) -> float:
    """`seconds`, if it is a valid time limit of a call; otherwise raises ClarelError."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= _LONGEST:
        raise ClarelError(f"timeout must be above 0 s and at most a day, not {seconds!r}")
    return float(seconds)


def retrying(ask: Callable[[], Result], deadline: Deadline) -> Result:
    """The result of `ask`, which is retried if it raises Unavailable.

    There are at most TRIES calls, with doubling waits between them and none after Dropped. If a
    wait would pass the deadline, the last error is raised.
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
