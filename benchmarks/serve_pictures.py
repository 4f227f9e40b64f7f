"""Pictures in requests, compared with the bare network on ready pixels, in the C++ loader.

[CLAREL_DATA=<folder with cub/>] python benchmarks/serve_pictures.py [--batches 1 32]

A request holds encoded pictures; the answer has their nearest classes, as from any export. The
bare network gets pixels of the right size and gives features. Both run in processes with only the
C++ library, in turn, so that the drift of a shared machine affects both equally; a ratio is that
of the medians of one round.
"""

import os
import statistics
import tempfile
from pathlib import Path

import harness
import keras
import numpy as np
import tensorflow as tf
from serving import in_cpp

from clarel_tf.config_sections import ModelConfig
from clarel_tf.decision.selected import NoneThreshold, Selected
from clarel_tf.images.decoding import decode_pictures
from clarel_tf.images.loading import load_backbone
from clarel_tf.images.picture_files import list_pictures
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.standard_towers import standard_towers
from clarel_tf.serving.endpoints import with_pictures
from clarel_tf.serving.export import write_saved_model
from clarel_tf.serving.picture_graph import picture_graph
from clarel_tf.serving.signatures import PrototypeClassifier
from tests.helpers import pictures

CLASSES = 200
OURS, BARE, FEATURES = "pictures to answers", "bare network, ready pixels", "features to answers"


def photographs(count: int) -> list[bytes]:
    """Real ones if there are some, otherwise made ones of the same size."""
    if not os.environ.get("CLAREL_DATA"):
        made = (pictures.picture(500, 375, seed=n) for n in range(count))
        return [pictures.encoded(image, "JPEG", quality=90) for image in made]
    folder = Path(os.environ["CLAREL_DATA"], "cub", "photos_sample")
    names = list_pictures(folder)
    return [(folder / names[n * 7 % len(names)]).read_bytes() for n in range(count)]


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 32], help="pictures a call")
    parser.add_argument("--input_size", type=int, help="as for extract_main.py")
    parser.add_argument(
        "--calls", type=int, default=30, help="of one picture in a round; more of them take fewer"
    )
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    backbone = load_backbone(input_size=arguments.input_size)
    size, width = backbone.input_size, backbone.feature_width
    towers = standard_towers(ModelConfig(), ["bird"], feature_size=width)
    model = Clarel(*towers, num_classes=CLASSES)
    classifier = PrototypeClassifier(
        model,
        np.random.default_rng(1).standard_normal((CLASSES, model.embedding_size), np.float32),
        [f"class {i}" for i in range(CLASSES)],
        np.arange(CLASSES) % 4 > 0,
        Selected(alpha=0.02, temperature=1.0, none_of_these=NoneThreshold(100.0, 0.0, 0.0)),
    )
    features = tf.TensorSpec([None, width], tf.float32, "image_features")
    plain = {"serving_default": (classifier.classify, [features])}
    pixels = tf.TensorSpec([None, size, size, 3], tf.float32, "pixels")
    rows = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        endpoints = with_pictures("prototype_classifier", plain, picture_graph(backbone))
        write_saved_model(folder / "ours", endpoints, None, backbone)
        bare = {"serving_default": (lambda x: {"features": backbone.features(x)}, [pixels])}
        write_saved_model(folder / "bare", bare, None, backbone)
        for batch in arguments.batches:
            contents = photographs(batch)
            ready, problems = decode_pictures(tf.constant(contents), size)
            assert not any(problems.numpy())
            feeds = {
                OURS: ("ours", "classify_pictures", {"image_bytes": contents}),
                BARE: ("bare", "serving_default", {"pixels": ready.numpy()}),
                FEATURES: (
                    "ours",
                    "serving_default",
                    {"image_features": np.ones((batch, width), np.float32)},
                ),
            }
            calls = max(6, arguments.calls // batch)
            medians: dict[str, list[float]] = {name: [] for name in feeds}
            for number in range(arguments.repeats):
                harness.progress(f"{batch} a call: round {number + 1} of {arguments.repeats}")
                for name, (path, signature, feed) in feeds.items():
                    found = in_cpp(folder / path, folder, feed, calls + 3, signature)["seconds"]
                    medians[name].append(statistics.median(found[3:]))  # the first ones warm up
            for name, seconds in medians.items():
                ratios = [mine / its for mine, its in zip(seconds, medians[BARE], strict=True)]
                rows[f"{batch} a call, {name}"] = {
                    "median_ms": 1000 * statistics.median(seconds),
                    "least_ms": 1000 * min(seconds),
                    "most_ms": 1000 * max(seconds),
                    "pictures_per_s": batch / statistics.median(seconds),
                    "times_bare": statistics.median(ratios),
                    "least_times": min(ratios),
                    "most_times": max(ratios),
                }
    cores = len(os.sched_getaffinity(0))
    title = f"Requests with pictures, {backbone.record}, {cores} cores"
    harness.report(title, rows, arguments.json)


if __name__ == "__main__":
    main()
