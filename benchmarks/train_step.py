"""Time of a training step of the paper's size, compared with plain Keras, XLA and PyTorch.

[CLAREL_DATA=<folder with cub/>] python benchmarks/train_step.py [--json=PATH] [--check]

All implementations process the same batches in turn, in one process, with a large matrix product in
every round. The speed of a shared machine drifts, so ratios are computed within a round; the table
shows their median.
"""

import importlib.util
import os
import statistics
from collections.abc import Callable

import harness
import numpy as np
import paper_step
import tensorflow as tf
from captions import Corpus, load_corpus
from plain_clarel import PlainClarel
from step_flops import step_flops

from clarel_tf.config_sections import ModelConfig

BATCHES = 8
PRODUCT_SIZE = 2048
PRODUCT = f"matrix product, {PRODUCT_SIZE} x {PRODUCT_SIZE} x {PRODUCT_SIZE}"
OURS, PLAIN = "clarel_tf", "plain Keras, padded"


def matrix_product() -> Callable[[], None]:
    """A float32 product large enough for the machine to reach its peak rate."""
    left, right = (tf.random.normal([PRODUCT_SIZE, PRODUCT_SIZE]) for _ in range(2))
    return lambda: tf.matmul(left, right).numpy()


def contestants(
    words: list[str], batches: dict[str, np.ndarray], dropout: float, only: list[str] | None
) -> dict[str, Callable[[], float]]:
    """Training steps by name, all from the same weights; `only` keeps names with these words."""
    limit = batches["token_ids"].shape[-1]
    ours = paper_step.make_model(
        words, max_tokens=limit, text_dropout=dropout, image_dropout=dropout
    )
    plain = PlainClarel(ours)
    make = {
        OURS: lambda: paper_step.keras_step(ours, batches),
        PLAIN: lambda: paper_step.keras_step(plain, batches),
        "plain Keras, jit_compile": lambda: paper_step.keras_step(
            PlainClarel(ours), batches, jit_compile=True
        ),
    }
    if importlib.util.find_spec("torch"):
        import torch
        from torch_clarel import TorchClarel, torch_step

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        for name, packed in (("PyTorch, padded", False), ("PyTorch, packed sequences", True)):
            model = TorchClarel(plain, packed, ours.text_tower.l2, dropout)
            make[name] = lambda model=model: torch_step(model, batches)
    else:
        harness.progress("PyTorch is not installed (pip install -e '.[torch]'): left out")
    # Weights are copied before any step.
    kept = [name for name in make if not only or any(word in name for word in only)]
    return {name: make[name]() for name in kept}


def check(corpus: Corpus) -> None:
    """Prints the losses of a few steps without dropout, on captions without padding."""
    batches = paper_step.make_batches(corpus, 3, instances=8, captions=2, stretch=30)
    rows = {}
    for name, step in contestants(corpus.words, batches, 0.0, None).items():
        harness.progress(f"{name}: 3 steps")
        means = [step() for _ in range(3)]
        if "PyTorch" not in name:  # Keras shows the mean so far
            means = [means[0], 2 * means[1] - means[0], 3 * means[2] - 2 * means[1]]
        rows[name] = {f"loss {number}": value for number, value in enumerate(means)}
    harness.report("Losses of the first steps, all captions of 30 tokens, no dropout", rows, None)
    for row in rows.values():
        np.testing.assert_allclose(list(row.values()), list(rows[OURS].values()), rtol=2e-3)


def table(seconds: dict[str, list[float]], flops: float) -> dict[str, dict[str, float]]:
    """A row per implementation: times, ratio to ours, rate, share of the product's rate."""
    rows = {}
    product_flops = 2.0 * PRODUCT_SIZE**3
    for name, times in seconds.items():
        own_flops = product_flops if name == PRODUCT else flops
        rows[name] = harness.summary(times)
        rows[name]["gflops"] = own_flops / 1e9 / rows[name]["median_s"]
        if name == PRODUCT:
            continue
        if OURS in seconds:
            rows[name]["times_ours"] = harness.median_ratio(times, seconds[OURS])
        rows[name]["share"] = statistics.median(
            (flops / mine) / (product_flops / its)
            for mine, its in zip(times, seconds[PRODUCT], strict=True)
        )
    return rows


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.set_defaults(repeats=20)
    parser.add_argument("--check", action="store_true", help="compare losses instead of times")
    parser.add_argument("--only", nargs="*", help="contestants whose name has one of these words")
    arguments = parser.parse_args()
    corpus = load_corpus(BATCHES * paper_step.INSTANCES * paper_step.CAPTIONS)
    if arguments.check:
        check(corpus)
        return
    batches = paper_step.make_batches(corpus, BATCHES)
    lengths = np.count_nonzero(batches["token_ids"], axis=-1)
    settings = ModelConfig()
    flops = statistics.mean(
        sum(
            step_flops(
                one.ravel(),
                paper_step.INSTANCES,
                settings,
                paper_step.FEATURE_SIZE,
                paper_step.CLASSES,
            ).values()
        )
        for one in lengths
    )
    work = contestants(corpus.words, batches, settings.text_dropout, arguments.only)
    for name, step in work.items():
        harness.progress(f"{name}: first steps, which compile")
        for _ in range(3):
            step()
    seconds = harness.alternate({**work, PRODUCT: matrix_product()}, arguments.repeats, "steps")
    title = (
        f"One training step: {paper_step.INSTANCES} images with {paper_step.CAPTIONS} captions "
        f"({corpus.source}, {lengths.mean():.1f} tokens, at most {lengths.max()}), float32\n"
        f"It needs {flops / 1e9:.1f} GFLOP; share: of the rate of the matrix product in the "
        "same round; times_ours: median of the ratios of each round"
    )
    harness.report(title, table(seconds, flops), arguments.json)


if __name__ == "__main__":
    main()
