"""`Progress`, lines about a long work on pictures."""

import time
from collections.abc import Callable

_TELL_EVERY = 10.0  # seconds

Tell = Callable[[str], None]


class Progress:
    """Tells how many pictures are done, and the remaining time."""

    def __init__(self, whole: int, tell: Tell):
        self._whole, self._tell, self._done = whole, tell, 0
        self._started = self._told = time.monotonic()

    def add(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._told < _TELL_EVERY and self._done < self._whole:
            return
        self._told = now
        rate = self._done / max(now - self._started, 1e-9)
        left = round((self._whole - self._done) / rate)
        hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
        self._tell(
            f"{self._done:,} of {self._whole:,} pictures, {rate:.0f} a second, "
            f"{hours}:{minutes:02d}:{seconds:02d} left"
        )
