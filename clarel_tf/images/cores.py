"""How extraction divides the cores: as many batches at once as cores, up to eight."""

import os

_MOST_BATCHES = 8


def batches_at_once() -> int:
    """How many batches of pictures are worked on at the same time."""
    return min(len(os.sched_getaffinity(0)), _MOST_BATCHES)


def keep_batches_apart() -> None:
    """Lets the operations of a batch stay on its share of the cores, mostly one.

    Otherwise all cores share every operation, which takes 7 % more of their time. Call it before
    TensorFlow is first used, in a program that only extracts features.
    """
    share = len(os.sched_getaffinity(0)) // batches_at_once()
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(share))
