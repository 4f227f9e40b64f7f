"""Captions per second of the text tower, compared with the plain padded tower.

[CLAREL_DATA=<folder with cub/>] python benchmarks/embed_corpus.py [--captions=20000] [--json=PATH]

The corpus is divided into blocks, and both towers embed each block in turn.
"""

import statistics
import time

import harness
import numpy as np
import paper_step
import tensorflow as tf
from captions import CUB_CAPTIONS, load_corpus

from clarel_tf.models.vocabulary import tokenize_captions
from tests.helpers.plain_text_tower import PlainTextTower

OURS, PLAIN = "clarel_tf, embed_token_ids", "plain Keras tower, padded"


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.set_defaults(repeats=1)
    parser.add_argument("--captions", type=int, default=CUB_CAPTIONS)
    parser.add_argument("--batch", type=int, default=2048, help="captions of a batch, for both")
    parser.add_argument("--block", type=int, default=8192, help="captions before the other's turn")
    arguments = parser.parse_args()
    corpus = load_corpus(arguments.captions)
    model = paper_step.make_model(corpus.words)
    started = time.perf_counter()
    token_ids = tokenize_captions([corpus.sentences], model.text_tower).token_ids
    tokenizing = time.perf_counter() - started
    plain = PlainTextTower(model.text_tower)
    spec = tf.TensorSpec([None, token_ids.shape[1]], tf.int32)
    plain_graph = tf.function(lambda ids: plain(ids), [spec])

    def embed_plainly(ids: np.ndarray) -> np.ndarray:
        starts = range(0, len(ids), arguments.batch)
        return np.concatenate(
            [plain_graph(tf.constant(ids[i : i + arguments.batch])).numpy() for i in starts]
        )

    towers = {
        OURS: lambda ids: model.embed_token_ids(ids, batch_size=arguments.batch),
        PLAIN: embed_plainly,
    }
    harness.progress("first batches, which compile")
    some = token_ids[: 2 * arguments.batch]
    np.testing.assert_allclose(towers[OURS](some), towers[PLAIN](some), atol=1e-4)
    seconds: dict[str, list[float]] = {name: [] for name in towers}
    for start in range(0, len(token_ids), arguments.block):
        block = token_ids[start : start + arguments.block]
        harness.progress(f"captions {start} to {start + len(block)} of {len(token_ids)}")
        work = {name: lambda tower=tower, ids=block: tower(ids) for name, tower in towers.items()}
        for name, times in harness.alternate(work, arguments.repeats).items():
            seconds[name].append(statistics.median(times))
    rows = {}
    for name, times in seconds.items():
        total = sum(times)
        rows[name] = {
            "seconds": total,
            "per_second": len(token_ids) / total,
            "times_plain": harness.median_ratio(seconds[PLAIN], times),
        }
    rows["reading words (not in the rows above)"] = {
        "seconds": tokenizing,
        "per_second": len(token_ids) / tokenizing,
    }
    title = (
        f"{len(token_ids)} captions ({corpus.source}, "
        f"{np.count_nonzero(token_ids) / len(token_ids):.1f} tokens) in batches of "
        f"{arguments.batch}; times_plain: median over {len(seconds[OURS])} blocks"
    )
    harness.report(title, rows, arguments.json)


if __name__ == "__main__":
    main()
