"""Damages files at random, by seed, and watches what a reader makes of them."""

import random
import signal
import time
from collections.abc import Callable

from clarel_tf.errors import ClarelError

SECONDS_FOR_ONE = 20  # a reader of a small file that takes longer hangs
_TOKENS = (b"\x00", b"\xff", b"\n", b"\r", b'"', b",", b"|", b"\\", b"{", b"}", b"[", b" ", b"\t")
_NUMBERS = (b"0", b"-1", b"4294967295", b"99999999999999999999", b"1e999", b"nan", b"-inf", b"1_0")


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A copy with one to four accidents: flips, cuts, repetitions, strange tokens."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        length = chance.choice((1, 2, 8, 64, 512))
        kind = chance.randrange(7)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = data[at : at + length]
        elif kind == 3:
            data[at:at] = chance.choice(_TOKENS + _NUMBERS)
        elif kind == 4:
            data[at : at + length] = chance.randbytes(length)
        elif kind == 5 and chance.random() < 0.3:
            del data[at:]
        elif kind == 6:
            other = chance.randrange(len(data) + 1)
            data[at : at + length] = data[other : other + length]
    return bytes(data)


class Hangs(AssertionError):
    """A reader did not come back."""


def fuzz(
    attempt: Callable[[random.Random], None], seed: int, cases: int = 0, seconds: float = 0.0
) -> dict[str, int]:
    """Calls `attempt` for many seeds; it may return or raise ClarelError, and nothing else.

    Args:
      cases: how many, or 0 for as many as `seconds` allow.

    Returns:
      {"read": ..., "refused": ...}.
    """
    outcome = {"read": 0, "refused": 0}
    end, number = time.monotonic() + seconds, 0

    def give_up(*_):
        raise Hangs(f"case {seed}/{number} takes more than {SECONDS_FOR_ONE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    try:
        while number < cases if cases else time.monotonic() < end:
            signal.alarm(SECONDS_FOR_ONE)
            try:
                attempt(random.Random(f"{seed}/{number}"))
                outcome["read"] += 1
            except ClarelError as error:
                assert str(error).strip(), "an empty message"
                outcome["refused"] += 1
            except Exception as error:
                raise AssertionError(f"case {seed}/{number}: {error!r}") from error
            number += 1
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return outcome
