"""Time and peak memory of evaluating a large corpus of random embeddings.

python benchmarks/evaluate_corpus.py --captions=1000000 --classes=20000

The reference is the time of the matrix products alone that the evaluation needs.
"""

import resource
import time

import harness
import numpy as np

from clarel_tf.decision.embedded_splits import sum_captions
from clarel_tf.evaluation.caption_draws import CaptionDraws
from clarel_tf.evaluation.gzsl import area_under, seen_unseen_curve
from clarel_tf.evaluation.retrieval import average_precision_at
from clarel_tf.evaluation.zero_shot import queries_from


def caption_stream(labels, captions_each, width, seed, block=4096):
    """Yields random embedded captions in blocks; they are never all in memory."""
    instances = np.repeat(np.arange(len(labels)), captions_each)
    rng = np.random.default_rng(seed)
    for start in range(0, len(instances), block):
        part = instances[start : start + block]
        yield rng.standard_normal((len(part), width), np.float32), part


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.add_argument("--captions", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=10_000, help="test images of each kind")
    parser.add_argument("--width", type=int, default=1024)
    arguments = parser.parse_args()
    captions_each = 10
    instances = arguments.captions // captions_each
    rng = np.random.default_rng(0)
    # A fifth of the classes is unseen. Every class has an instance; the others are random.
    unseen_classes = arguments.classes // 5
    labels = {
        "seen": rng.integers(unseen_classes, arguments.classes, arguments.queries),
        "unseen": rng.integers(0, unseen_classes, arguments.queries),
    }
    labels["unseen"][:unseen_classes] = np.arange(min(unseen_classes, arguments.queries))
    support = rng.integers(unseen_classes, arguments.classes, instances - 2 * arguments.queries)
    seen_classes = np.arange(unseen_classes, arguments.classes)
    support[: len(seen_classes)] = seen_classes
    labels["support"] = support
    classes = np.arange(arguments.classes)

    seconds = {}
    started = time.perf_counter()
    order = ["seen", "unseen", "support"]
    caption_labels = np.repeat(np.concatenate([labels[name] for name in order]), captions_each)
    draws = CaptionDraws(caption_labels, classes, arguments.width)
    splits = []
    for seed, name in enumerate(order):
        # Only the queries need images; the other instances need only captions.
        count = len(labels[name])
        images = rng.standard_normal((count, arguments.width), np.float32)
        stream = caption_stream(labels[name], captions_each, arguments.width, seed)
        splits.append(sum_captions(labels[name], images, stream, [draws]))
        if name == "support":
            splits[-1] = splits[-1]._replace(images=images[:0])
    queries = queries_from(*splits)
    seconds["captions: prototypes and draws"] = time.perf_counter() - started

    started = time.perf_counter()
    evaluation = queries.evaluate()
    evaluation.gzsl(0.1)
    area_under(*seen_unseen_curve(*evaluation))
    seconds["u, s, H, AUSUC"] = time.perf_counter() - started

    started = time.perf_counter()
    queries.evaluate(leave_own_out=True).gzsl(0.1)
    seconds["the same, own captions left out"] = time.perf_counter() - started

    started = time.perf_counter()
    means = queries.prototypes.means()
    average_precision_at(queries.unseen.images, queries.unseen.labels, means, classes)
    seconds["AP@50"] = time.perf_counter() - started

    started = time.perf_counter()
    draws.curve(queries, 0.1)
    passes = 2 + 0.5 + draws.draws * len(draws.counts)
    seconds[f"captions curve, {draws.draws} draws"] = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    images = np.concatenate([queries.seen.images, queries.unseen.images])
    step = max(1, (1 << 24) // len(means))
    started = time.perf_counter()
    for start in range(0, len(images), step):
        images[start : start + step] @ means.T
    product = time.perf_counter() - started

    rows = {name: {"seconds": value} for name, value in seconds.items()}
    rows["all of it"] = {"seconds": sum(seconds.values()), "peak_gb": peak}
    rows["bare products of the same sizes"] = {"seconds": passes * product}
    without_stream = sum(seconds.values()) - seconds["captions: prototypes and draws"]
    rows["evaluation / bare products"] = {"ratio": without_stream / (passes * product)}
    title = (
        f"{arguments.captions} captions, {arguments.classes} classes, "
        f"{2 * arguments.queries} queries, {arguments.width} wide"
    )
    harness.report(title, rows, arguments.json)


if __name__ == "__main__":
    main()
