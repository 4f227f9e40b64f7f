"""The time of a training step against the sizes of batch, captions and embedding.

[CLAREL_DATA=<folder with cub/>] python benchmarks/step_growth.py --plot=PATH.png [--json=PATH]

One size varies at a time; the others have the paper's values. For a longer caption limit, captions
are either repeated to fill it or left unchanged, which costs nothing without padding.
"""

import statistics
from typing import NamedTuple

import harness
import keras
import matplotlib
import paper_step
import tensorflow as tf
from captions import Corpus, load_corpus
from plain_clarel import PlainClarel

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {"clarel_tf": "#1f6fb2", "plain Keras": "#c8553d"}


class Panel(NamedTuple):
    """One size that varies, and how it is shown."""

    title: str
    values: tuple[int, ...]
    unit: str


PANELS = {
    "instances": Panel("Images a batch, 10 captions each", (8, 16, 32, 64, 128, 256), "images"),
    "captions": Panel("Captions an image, 32 images", (1, 2, 3, 5, 10), "captions"),
    "limit": Panel("Caption limit, captions longer with it", (30, 60, 90, 120), "tokens"),
    "embedding_size": Panel("Width of the joint space", (256, 512, 1024, 2048, 4096), "numbers"),
}


def measure(
    corpus: Corpus, size: str, value: int, stretch: int, plain: bool, repeats: int
) -> dict[str, float]:
    """Median seconds of a step of our model and, if `plain`, of plain Keras, measured in turn."""
    changes = {"max_tokens": value} if size == "limit" else {}
    if size == "embedding_size":
        changes = {"embedding_size": value}
        batches = paper_step.make_batches(corpus, 3)
    else:
        batches = paper_step.make_batches(corpus, 3, **{size: value}, stretch=stretch)
    ours = paper_step.make_model(corpus.words, **changes)
    models = {"clarel_tf": ours}
    if plain:
        models["plain Keras"] = PlainClarel(ours)
    steps = {name: paper_step.keras_step(model, batches) for name, model in models.items()}
    for step in steps.values():
        step(), step()
    seconds = harness.alternate(steps, repeats)
    keras.backend.clear_session()
    return {name: statistics.median(times) for name, times in seconds.items()}


def draw(found: dict[str, dict[str, dict[int, float]]], path: str) -> None:
    """Draws seconds per step in four log-log panels; `found` is by size, line and value."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.2), layout="constrained")
    for axis, (size, lines) in zip(axes.ravel(), found.items(), strict=False):
        panel = PANELS[size]
        for name, points in lines.items():
            is_short = "as they are" in name
            axis.plot(
                list(points),
                list(points.values()),
                "o--" if is_short else "o-",
                color=next(colour for key, colour in COLOURS.items() if name.startswith(key)),
                alpha=0.55 if is_short else 1.0,
                label=name,
            )
        axis.set(title=panel.title, xlabel=panel.unit, ylabel="seconds a step")
        axis.set(xscale="log", yscale="log")
        axis.set_xticks(panel.values, [str(value) for value in panel.values])
        axis.minorticks_off()
        low = min(min(points.values()) for points in lines.values())
        high = max(max(points.values()) for points in lines.values())
        ticks = [t for t in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low / 2 < t < high * 2]
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.suptitle("Time of a training step (32 images, 10 captions, limit 30, width 1024)")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.add_argument("--plot", help="write the picture to this file")
    parser.add_argument("--sizes", nargs="*", choices=list(PANELS), default=list(PANELS))
    parser.add_argument("--points", type=int, default=9, help="at most so many values of a size")
    parser.add_argument("--no_plain", action="store_true", help="leave plain Keras out")
    arguments = parser.parse_args()
    tf.get_logger().setLevel("ERROR")  # it would warn that every new model is traced anew
    corpus = load_corpus(3 * 256 * paper_step.CAPTIONS)
    found: dict[str, dict[str, dict[int, float]]] = {}
    rows = {}
    for size in arguments.sizes:
        lines = found.setdefault(size, {})
        for value in PANELS[size].values[: arguments.points]:
            stretches = {"": max(value // 30, 1) if size == "limit" else 1}
            if size == "limit":
                stretches[", captions as they are"] = 1
            for suffix, stretch in stretches.items():
                harness.progress(f"{size} {value}{suffix}")
                with_plain = not arguments.no_plain and not suffix
                seconds = measure(corpus, size, value, stretch, with_plain, arguments.repeats)
                for name, median in seconds.items():
                    lines.setdefault(name + suffix, {})[value] = median
                key = f"{PANELS[size].title}: {value}{suffix}"
                rows[key] = {f"{name}_s": median for name, median in seconds.items()}
    harness.report(f"Seconds of a training step ({corpus.source})", rows, arguments.json)
    if arguments.plot:
        draw(found, arguments.plot)


if __name__ == "__main__":
    main()
