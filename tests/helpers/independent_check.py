"""Measures an export once more, with nothing of the package: ZSL, u, s and H from SavedModels.

python tests/helpers/independent_check.py --run_dir=RUN --export_dir=EXPORT \\
    --built=DATA/cub/custom/1.0.0

Images and captions are read by TFDS from the folder of the built dataset, embedded by the exported
embedders, and everything after that is a plain loop over classes and images. If the run asks its
image head, the weights of that come from RUN/model.keras; discriminants are fitted here once more.
The figures must be those of RUN/results.json; the exit code says whether they are.
"""

import argparse
import json
import os
import sys
import zipfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import h5py
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds


def newest(folder: Path) -> str:
    return str(max(folder.iterdir(), key=lambda version: int(version.name)))


def load(export_dir: Path, name: str):
    return tf.saved_model.load(newest(export_dir / name)).signatures["serving_default"]


def embed(function, argument: str, items: np.ndarray, block: int = 1000) -> np.ndarray:
    parts = []
    for start in range(0, len(items), block):
        (answer,) = function(**{argument: tf.constant(items[start : start + block])}).values()
        parts.append(answer.numpy().astype(np.float64))
    return np.concatenate(parts)


def head_of(run_dir: Path, weight: float):
    """What to add to the distances of an image: {class number: length} by image."""
    with zipfile.ZipFile(run_dir / "model.keras") as archive, archive.open("model.weights.h5") as f:
        variables = h5py.File(f, "r")["image_classifier/vars"]
        kernel, bias = (variables[name][()].astype(np.float64) for name in "01")

    def doubts(image: np.ndarray) -> np.ndarray:
        odds = np.exp(image @ kernel + bias - (image @ kernel + bias).max())
        return -weight * np.log(odds / odds.sum())

    return doubts


def ledoit_wolf(deviations: np.ndarray) -> np.ndarray:
    """The covariance of centred rows, drawn towards the identity as by Ledoit and Wolf (2004).

    Their definitions, term by term: the products of single rows scatter around the sample
    covariance, and as much of its distance from the identity as that explains is taken away.
    """
    count, size = deviations.shape
    sample = deviations.T @ deviations / count
    level = np.trace(sample) / size
    distance = np.square(sample - level * np.eye(size)).sum()
    # The squared norm of (row row' - sample) of each row, multiplied out.
    norm = np.square(sample).sum()
    noise = sum((row @ row) ** 2 - 2 * row @ sample @ row + norm for row in deviations) / count**2
    share = min(noise / distance, 1.0)
    return share * level * np.eye(size) + (1 - share) * sample


def discriminants_of(images, labels, prototypes: dict[int, np.ndarray], strength: float):
    """What to take off the distance of an image from a class: f(prototype)(image).

    Args:
      images, labels: of the training split.
      prototypes: of its classes.
    """
    if not strength:
        return lambda prototype: lambda image: 0.0
    images, labels = np.asarray(images, np.float64), np.asarray(labels)
    known = sorted(prototypes)
    means = np.array([images[labels == label].mean(axis=0) for label in known])
    around = images - means[np.searchsorted(known, labels)]
    inverse, centre = np.linalg.inv(ledoit_wolf(around)), means.mean(axis=0)
    places = np.array([prototypes[label] for label in known], np.float64)
    squares = [np.square(a - b).sum() for i, a in enumerate(places) for b in places[:i]]
    width = 0.5 * np.median(squares)

    def likeness(place: np.ndarray) -> np.ndarray:
        return np.exp([-np.square(place - other).sum() / width for other in places])

    kernel = np.array([likeness(place) for place in places])
    dual = np.linalg.solve(kernel + 0.03 * np.eye(len(places)), means - centre)

    def score_of(prototype: np.ndarray, weight: float):
        mean = likeness(prototype) @ dual
        along, half = inverse @ mean, 0.5 * mean @ inverse @ mean
        return lambda image: weight * ((image - centre) @ along - half)

    some = images[:: 1 + len(images) // 4096]
    plain = [score_of(place, 1.0) for place in places]
    of_scores = np.mean([np.std([score(image) for score in plain]) for image in some])
    of_distances = np.mean([np.linalg.norm(places - image, axis=1).std() for image in some])
    return lambda prototype: score_of(prototype, strength * of_distances / of_scores)


def accuracy(
    images, labels, prototypes: dict[int, np.ndarray], seen: set[int], alpha, doubts, score_of
):
    """Percent of right answers, of each class first and then over the classes."""
    right: dict[int, list[bool]] = {}
    scores = {label: score_of(prototype) for label, prototype in prototypes.items()}
    for image, label in zip(images, labels, strict=True):
        best, best_distance = None, np.inf
        doubt = dict(zip(sorted(seen), doubts(image), strict=True)) if seen else {}
        for candidate, prototype in prototypes.items():
            distance = np.sqrt(((image - prototype) ** 2).sum()) - scores[candidate](image)
            if candidate in seen:
                distance = (1 + alpha) * (distance + doubt[candidate])
            if distance < best_distance:
                best, best_distance = candidate, distance
        right.setdefault(label, []).append(best == label)
    return 100 * np.mean([np.mean(of_class) for of_class in right.values()])


def measure(run_dir: Path, export_dir: Path, built: Path) -> tuple[dict, dict]:
    """(what the SavedModels give, what results.json says), each by the name of the measure."""
    results = json.loads((run_dir / "results.json").read_text())
    builder = tfds.builder_from_directory(built)
    image_embedder, text_embedder = (
        load(export_dir, name) for name in ("image_embedder", "text_embedder")
    )
    sums: dict[int, np.ndarray] = {}
    counts: dict[int, int] = {}
    images, labels = {}, {}
    for split in ("trainval", "test_seen", "test_unseen"):
        examples = list(tfds.as_numpy(builder.as_dataset(split=split)))
        labels[split] = [int(example["label"]) for example in examples]
        features = np.stack([example["image_features"] for example in examples])
        images[split] = embed(image_embedder, "image_features", features)
        owners = [int(example["label"]) for example in examples for _ in example["captions"]]
        sentences = np.array([text for example in examples for text in example["captions"]], object)
        for owner, embedding in zip(owners, embed(text_embedder, "text", sentences), strict=True):
            sums[owner] = sums.get(owner, 0.0) + embedding
            counts[owner] = counts.get(owner, 0) + 1
    every = {label: sums[label] / counts[label] for label in sorted(sums)}
    seen, unseen = set(labels["trainval"]), set(labels["test_unseen"])
    assert not seen & unseen, "a class is both seen and unseen"
    only_unseen = {label: every[label] for label in sorted(unseen)}
    ask = (images["test_unseen"], labels["test_unseen"])
    doubts = head_of(run_dir, results["head_evidence"])
    known = {label: every[label] for label in sorted(seen)}
    strength = results.get("discriminant_evidence", 0.0)
    score_of = discriminants_of(images["trainval"], labels["trainval"], known, strength)
    found = {"ZSL": accuracy(*ask, only_unseen, set(), 0.0, doubts, score_of)}
    expected = {"ZSL": results["zsl"]["top1"]}
    for name, alpha, theirs in (
        ("alpha = 0", 0.0, results["gzsl_alpha0"]),
        ("chosen alpha", results["alpha"], results["gzsl"]),
    ):
        u = accuracy(*ask, every, seen, alpha, doubts, score_of)
        s = accuracy(images["test_seen"], labels["test_seen"], every, seen, alpha, doubts, score_of)
        found |= {f"{name}: u": u, f"{name}: s": s, f"{name}: H": 2 * u * s / max(u + s, 1e-9)}
        expected |= {f"{name}: {key}": theirs[key.lower()] for key in ("u", "s", "H")}
    return found, expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("run_dir", "export_dir", "built"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    found, expected = measure(**vars(parser.parse_args()))
    print(f"{'':18}{'from exports':>14}{'results.json':>14}")
    for name, value in found.items():
        print(f"{name:18}{value:14.4f}{expected[name]:14.4f}")
    # A tie within the rounding of the embedders may fall either way.
    worst = max(abs(value - expected[name]) for name, value in found.items())
    print(f"greatest difference: {worst:.4f} points")
    return int(worst > 0.1)


if __name__ == "__main__":
    sys.exit(main())
