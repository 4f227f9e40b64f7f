"""The overhead of a run besides its steps: input pipeline, start-up, and graph tracing.

[CLAREL_DATA=<folder with cub/>] python benchmarks/around_the_step.py [--json=PATH]

It measures the same step with `training_batches` and with prepared batches; the seconds from the
import of TensorFlow to the end of the first step on demo data, in a new process; and the number of
traces of the step over batches with varying caption lengths.
"""

import json
import os
import subprocess
import sys
import tempfile

import harness
import numpy as np
import paper_step
import tensorflow as tf
from captions import load_corpus

from clarel_tf.data.split import Split
from clarel_tf.training.batches import training_batches

IMAGES = 7057  # trainval of CUB

# As `train_main.py --dataset=demo`, but ends after the first step.
_START = """
import json, sys, time
import tensorflow as tf
started = time.perf_counter()
import keras
import numpy as np
import tensorflow_datasets as tfds
from clarel_tf.data import loading as dataset_loading
from clarel_tf.experiments import training_phase as phase
from clarel_tf import presets
from clarel_tf.training import loop as training
from clarel_tf.data.protocols import apply_protocol
from clarel_tf.models.vocabulary import build_vocabulary
tfds.disable_progress_bar()
settings = presets.preset(sys.argv[2]).override({"steps": 1, "warmup_steps": 0})
builder = dataset_loading.get_builder("demo", "small", data_dir=sys.argv[1])
dataset_loading.prepare(builder)
prepared = time.perf_counter()
split = apply_protocol(dataset_loading.load_splits(builder), "clean")["train"]
classes = np.unique(split.labels)
words = build_vocabulary(caption for captions in split.captions for caption in captions)
model = phase.build_model(settings, words, split, len(classes))
first = []

class Clock(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        first.append(time.perf_counter())

model.compile(optimizer=training.make_optimizer(settings.training), jit_compile=False)
batches = training.training_batches(
    split, classes, model.text_tower, batch_size=settings.training.batch_size,
    captions=settings.training.captions, seed=0, first_step=0, steps=1)
model.fit(batches, epochs=1, steps_per_epoch=1, verbose=0, shuffle=False,
    callbacks=[Clock()])
print(json.dumps({"seconds": first[0] - started, "of_building_data": prepared - started}))
"""


def made_up_split(sentences: list[str]) -> Split:
    """A split of these sentences, ten per image, with random features and labels."""
    rng = np.random.default_rng(0)
    images = len(sentences) // paper_step.CAPTIONS
    encoded = [sentence.encode() for sentence in sentences]
    features = rng.gamma(0.5, 1.0, (images, paper_step.FEATURE_SIZE)).astype(np.float32)
    return Split(
        "trainval",
        np.array([f"image_{i}" for i in range(images)]),
        features,
        rng.integers(0, paper_step.CLASSES, images),
        [encoded[10 * i : 10 * (i + 1)] for i in range(images)],
    )


def pipeline(rounds: int, steps: int) -> dict[str, dict[str, float]]:
    """Times and numbers of traces: `rounds` rounds of `steps` steps from each source in turn."""
    corpus = load_corpus(IMAGES * paper_step.CAPTIONS)
    split = made_up_split(corpus.sentences)
    model = paper_step.make_model(corpus.words)
    traces = []
    original = model.train_step

    def counted(batch):
        traces.append(1)  # runs when the graph is traced, not when it is executed
        return original(batch)

    model.train_step = counted
    paper_step.compile_as_training_does(model)
    warm_up = 3
    fed = training_batches(
        split,
        np.arange(paper_step.CLASSES),
        model.text_tower,
        batch_size=paper_step.INSTANCES,
        captions=0,
        seed=0,
        first_step=0,
        steps=warm_up + rounds * steps,
    )
    # The same batches, prepared in advance, so that both sources have the same captions.
    harness.progress("drawing the ready batches")
    ready = list(fed)
    ready = {key: np.stack([batch[key] for batch in ready]) for key in ready[0]}
    sources = {
        "ready batches": tf.data.Dataset.from_tensor_slices(ready).prefetch(4),
        "training_batches": fed,
    }
    work = {}
    for name, dataset in sources.items():
        step = paper_step.step_on(model, iter(dataset))
        for _ in range(warm_up):
            step()
        work[name] = lambda step=step: [step() for _ in range(steps)]
    traced_first = len(traces)
    seconds = harness.alternate(work, rounds, f"{steps} steps each")
    rows = {
        f"a step, {name}": harness.summary([s / steps for s in times])
        for name, times in seconds.items()
    }
    ratio = harness.median_ratio(seconds["training_batches"], seconds["ready batches"])
    rows["a step, training_batches"]["added_percent"] = 100 * (ratio - 1)
    rows["traces in the first steps"] = {"count": traced_first}
    rows[f"traces in {2 * rounds * steps} steps after those"] = {
        "count": len(traces) - traced_first
    }
    return rows


def start_up(preset: str, data_dir: str) -> dict[str, float]:
    """Seconds until the end of the first step, in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", _START, data_dir, preset],
        cwd=harness.ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.set_defaults(repeats=12)
    parser.add_argument("--steps", type=int, default=4, help="steps of each source in a round")
    arguments = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, preset in (
            ("first step, demo data, data to be built", "tiny"),
            ("first step, demo data", "tiny"),
            ("first step, demo data, paper's sizes", "paper"),
        ):
            harness.progress(name)
            rows[name] = start_up(preset, folder)
    rows |= pipeline(arguments.repeats, arguments.steps)
    harness.report("What a run costs besides its steps", rows, arguments.json)


if __name__ == "__main__":
    main()
