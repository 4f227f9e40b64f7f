"""Trains and evaluates for a given time in one process, and watches what it holds.

python tests/helpers/long_run.py --seconds=3600 --folder=FOLDER --data_dir=DATA_DIR

Before every look at the validation splits a line of JSON goes to standard output: seconds, step,
resident memory as it is, without the free memory that the C library happens to keep, and at its
peak, open files, and how often a graph was traced so far.
"""

import argparse
import contextlib
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.data.protocols import apply_protocol
from clarel_tf.data.split import Split
from clarel_tf.evaluation.selection import select
from clarel_tf.experiments.training_phase import build_model
from clarel_tf.models.vocabulary import build_vocabulary
from clarel_tf.presets import preset
from clarel_tf.training.loop import train
from clarel_tf.training.process_memory import give_back_free_memory, keep_few_kernels

LOOK_EVERY = 200


class TimeIsUp(Exception):
    """Ends the training from within."""


class Watch:
    """Evaluates when training asks for it, and writes down what the process holds then."""

    def __init__(self, model, splits: dict[str, Split], seconds: float):
        self._model, self._splits, self._seconds = model, splits, seconds
        self._started, self._looks, self._train_traces = time.monotonic(), 0, 0
        original = model.train_step

        def counted(batch):
            self._train_traces += 1  # runs when the graph is made, not when it is used
            return original(batch)

        model.train_step = counted

    def look(self) -> dict[str, float]:
        # Before it evaluates: 200 steps after the one before, whose garbage counts if it is kept.
        seconds = time.monotonic() - self._started
        self._write_down(seconds)
        if seconds > self._seconds:
            raise TimeIsUp
        chosen = select(
            self._model,
            self._splits["val_seen"],
            self._splits["val_unseen"],
            [self._splits["train"]],
        )
        self._looks += 1
        validation = chosen.validation
        return {
            "zsl": validation.zsl.top1,
            "h0": validation.gzsl_alpha0.h,
            "alpha": chosen.alpha,
            **vars(validation.gzsl),
        }

    def _write_down(self, seconds: float) -> None:
        embedders = (self._model._embed_image_batch, self._model._embed_token_batch)
        sample = {
            "seconds": round(seconds, 1),
            "evaluations": self._looks,
            "step": (self._looks + 1) * LOOK_EVERY,
            "resident_kb": kilobytes("VmRSS"),
            "held_kb": held_kilobytes(),
            "peak_kb": kilobytes("VmHWM"),
            "open_files": len(os.listdir("/proc/self/fd")),
            "traces": self._train_traces
            + sum(embedder.experimental_get_tracing_count() for embedder in embedders),
        }
        print(json.dumps(sample), flush=True)


def held_kilobytes() -> int:
    """Resident memory after free memory was given back, as training does at each checkpoint."""
    give_back_free_memory()
    return kilobytes("VmRSS")


def kilobytes(field: str) -> int:
    """A size that the kernel knows of this process, such as VmRSS."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{field}:")[1].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--data_dir", required=True)
    flags = parser.parse_args()
    keep_few_kernels()  # as the programs do
    builder = get_builder("demo", "small", data_dir=flags.data_dir)
    splits = apply_protocol(load_splits(builder), "clean")
    # A rate that does not fall: the schedule has no end that the hour would have to meet.
    config = preset("tiny").override(
        {"steps": 10**8, "schedule": "constant", "log_every": 200, "evaluate_every": LOOK_EVERY}
    )
    keras.utils.set_random_seed(0)
    split = splits["train"]
    classes = np.unique(split.labels)
    words = build_vocabulary(caption for captions in split.captions for caption in captions)
    model = build_model(config, words, split, len(classes))
    watch = Watch(model, splits, flags.seconds)
    with contextlib.suppress(TimeIsUp):
        train(model, split, classes, config.training, flags.folder, seed=0, evaluate=watch.look)


if __name__ == "__main__":
    main()
