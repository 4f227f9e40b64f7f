"""Compares sizes, mirroring and cropping of photographs on classes of CUB's `trainval`.

python benchmarks/picture_settings.py --images=<CUB_200_2011/images> --splits=<att_splits.mat> \
  [--backbone=NAME --weights=FILE] [--sizes=260,320,384]

No test image is read. Images of random `trainval` classes are embedded as they are, mirrored, and
with the outer eighth cut off. Two plain classifiers are measured on random halves, square roots of
features throughout, as the preset `fast` takes them: the nearest class mean by cosine with eight
images of each class, and linear discriminants.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from clarel_tf.images.decoding import decode_pictures
from clarel_tf.images.extractor import BATCH, in_threads
from clarel_tf.images.loading import DEFAULT, load_backbone
from clarel_tf.images.picture_files import list_pictures
from clarel_tf.storage.array_files import read_mat

FEW = 8
DRAWS = 20


def images_of_some_classes(
    folder: Path, splits: Path, classes: int, most: int
) -> tuple[list[Path], np.ndarray]:
    """Pictures of random `trainval` classes and their labels."""
    rows = read_mat(splits, ["trainval_loc"])["trainval_loc"].ravel().astype(int) - 1
    names = [name for name in list_pictures(folder)]
    labels = np.unique([Path(name).parts[0] for name in names], return_inverse=True)[1]
    rng = np.random.default_rng(0)
    chosen = rng.permutation(np.unique(labels[rows]))[:classes]
    picked = np.concatenate(
        [rng.permutation(rows[labels[rows] == label])[:most] for label in chosen]
    )
    return [folder / names[row] for row in picked], labels[picked]


def nearest_mean(features: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> float:
    """Accuracy of the nearest class mean by cosine, from FEW images of each class."""
    classes = np.unique(labels)
    order = rng.permutation(len(labels))
    means, rest = [], []
    for label in classes:
        own = order[labels[order] == label]
        means.append(features[own[:FEW]].mean(axis=0))
        rest.append(own[FEW:])
    means = np.stack(means)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    asked = np.concatenate(rest)
    found = classes[(features[asked] @ means.T).argmax(axis=1)]
    return 100.0 * float((found == labels[asked]).mean())


def discriminants(features: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> float:
    """Accuracy of LDA with a shrunk covariance, from a random half of the images."""
    classes, y = np.unique(labels, return_inverse=True)
    half = rng.random(len(labels)) < 0.5
    x = features.astype(np.float64)
    means = np.stack([x[half & (y == c)].mean(axis=0) for c in range(len(classes))])
    centred = x[half] - means[y[half]]
    covariance = centred.T @ centred / len(centred)
    covariance += 0.1 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, means.T)
    scores = x[~half] @ weights - 0.5 * np.einsum("cd,dc->c", means, weights)
    return 100.0 * float((scores.argmax(axis=1) == y[~half]).mean())


def embed(paths: list[Path], backbone, decoded_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of the pictures, squeezed to `decoded_size` and cropped, and of their mirrors."""
    size, margin = backbone.input_size, (decoded_size - backbone.input_size) // 2

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def both(contents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pixels, _ = decode_pictures(contents, decoded_size)
        pixels = pixels[:, margin : margin + size, margin : margin + size]
        return backbone.features(pixels), backbone.features(tf.reverse(pixels, [2]))

    def work(at: int) -> tuple[np.ndarray, np.ndarray]:
        found = both(tf.constant([path.read_bytes() for path in paths[at : at + BATCH]]))
        return found[0].numpy(), found[1].numpy()

    parts = [found for _, found in in_threads(work, range(0, len(paths), BATCH))]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def prepared(features: np.ndarray) -> np.ndarray:
    roots = np.sign(features) * np.sqrt(np.abs(features))
    return roots / np.linalg.norm(roots, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--splits", type=Path, required=True)
    parser.add_argument("--backbone", default=DEFAULT)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--sizes", default="260,320,384")
    parser.add_argument("--classes", type=int, default=75)
    parser.add_argument("--most", type=int, default=32, help="images of a class")
    args = parser.parse_args()
    paths, labels = images_of_some_classes(args.images, args.splits, args.classes, args.most)
    print(f"{len(paths)} images of {args.classes} classes", flush=True)
    print("size  cut     mirrored  nearest mean  LDA    seconds", flush=True)
    for size in map(int, args.sizes.split(",")):
        backbone = load_backbone(args.backbone, size, args.weights, mirrored=False)
        for decoded in (size, size * 8 // 7 // 2 * 2):
            start = time.perf_counter()
            plain, mirror = embed(paths, backbone, decoded)
            seconds = time.perf_counter() - start
            for name, features in (("no", plain), ("yes", (plain + mirror) / 2)):
                rng, ready = np.random.default_rng(1), prepared(features)
                near = np.mean([nearest_mean(ready, labels, rng) for _ in range(DRAWS)])
                lda = np.mean([discriminants(ready, labels, rng) for _ in range(DRAWS // 4)])
                cut = "eighth" if decoded > size else "none"
                print(
                    f"{size:4}  {cut:6}  {name:8}  {near:12.1f}  {lda:5.1f}  {seconds:7.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
