"""How much H the choice of alpha costs with few validation classes, on divisions of them.

python benchmarks/alpha_choice.py RUN_DIR --data_dir=FOLDER [--classes=20] [--divisions=60]

It embeds the validation splits of a run once. Each division draws `--classes` unseen validation
classes and half of the seen images to choose alpha, and measures on the other half and on as many
other unseen classes (`--others=N`: on N). Only the drawn unseen classes are on offer each time. The
loss is H at the best alpha there minus H at the chosen one. No test image is looked at.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clarel_tf.config import Config
from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.data.protocols import apply_protocol
from clarel_tf.decision.alpha import NearestClasses, nearest_classes
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.evaluation.alpha_choice import choose_alpha
from clarel_tf.evaluation.gzsl import alpha_curve, best_alpha, gzsl_scores
from clarel_tf.evaluation.zero_shot import EmbeddedQueries, embed_queries
from clarel_tf.models.saving import load_model
from clarel_tf.storage.files import read_json, write_json

Sides = tuple[NearestClasses, np.ndarray, NearestClasses, np.ndarray]


def where_u_equals_s(sides: Sides) -> float:
    """The alpha of the grid at which u and s differ least."""
    return min(alpha_curve(*sides), key=lambda point: abs(point.u - point.s)).alpha


RULES = {
    "best of the curve": lambda sides: best_alpha(alpha_curve(*sides)),
    "resampled (choose_alpha)": lambda sides: choose_alpha(*sides).alpha,
    "u = s": where_u_equals_s,
    "halfway to u = s": lambda sides: (choose_alpha(*sides).alpha + where_u_equals_s(sides)) / 2,
}


class Study:
    """The distances of all validation images, to be reduced to some of the classes."""

    def __init__(self, queries: EmbeddedQueries):
        self._labels = queries.seen.labels, queries.unseen.labels
        self._distances = [
            np.concatenate([block for _, block in queries.distance_blocks(side.images)])
            for side in (queries.seen, queries.unseen)
        ]
        self._classes, self._is_seen = queries.prototypes.classes, queries.is_seen

    def sides(self, seen_images: np.ndarray, unseen_columns: np.ndarray) -> Sides:
        """Some seen images and all images of some unseen classes, with these classes on offer."""
        offered = np.sort(np.concatenate([np.flatnonzero(self._is_seen), unseen_columns]))
        asked = seen_images, np.isin(self._labels[1], self._classes[unseen_columns])
        nearest = [
            nearest_classes(
                distances[rows][:, offered], self._classes[offered], self._is_seen[offered]
            )
            for distances, rows in zip(self._distances, asked, strict=True)
        ]
        return nearest[0], self._labels[0][asked[0]], nearest[1], self._labels[1][asked[1]]

    def divide(self, seed: int, classes: int, others: int) -> tuple[Sides, Sides]:
        """What alpha is chosen with, and what it is measured with."""
        rng = np.random.default_rng(seed)
        unseen = rng.permutation(np.flatnonzero(~self._is_seen))
        images = rng.permutation(len(self._labels[0]))
        half = len(images) // 2
        return (
            self.sides(images[:half], unseen[:classes]),
            self.sides(images[half:], unseen[classes : classes + others]),
        )


def measure(study: Study, divisions: int, classes: int, others: int) -> dict[str, np.ndarray]:
    """The loss of each rule, and whether the interval holds the best alpha, by division."""
    rows: dict[str, list[float]] = {name: [] for name in (*RULES, "in the interval")}
    for seed in range(divisions):
        chosen, measured = study.divide(seed, classes, others)
        curve = alpha_curve(*measured)
        top = max(point.h for point in curve)
        for name, rule in RULES.items():
            rows[name].append(top - gzsl_scores(*measured, rule(chosen)).h)
        low, high = choose_alpha(*chosen).interval
        rows["in the interval"].append(low <= best_alpha(curve) <= high)
    return {name: np.array(values, float) for name, values in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures to this file, too")
    parser.add_argument("run_dir", type=Path, help="a run with a validation model")
    parser.add_argument("--data_dir", help="folder of built datasets")
    parser.add_argument("--classes", type=int, default=20, help="unseen classes to choose with")
    parser.add_argument("--others", type=int, help="unseen classes to measure with")
    parser.add_argument("--divisions", type=int, default=60)
    flags = parser.parse_args()
    config = Config.from_dict(read_json(flags.run_dir / "config.json"))
    builder = get_builder(config.dataset, config.dataset_config, flags.data_dir)
    splits = apply_protocol(load_splits(builder), config.protocol, config.class_division)
    looking_at = splits["val_seen"], splits["val_unseen"], [splits["train"]]
    model = load_model(flags.run_dir / "validation" / "model.keras")
    queries = embed_queries(model, *looking_at, RuleSettings.of(config))
    others = flags.others or flags.classes
    figures = {}
    for kind, asked in (("the rule", queries), ("captions alone", queries.captions_alone())):
        if kind == "captions alone" and queries.rule.is_of_the_paper:
            continue
        found = measure(Study(asked), flags.divisions, flags.classes, others)
        print(f"\n{kind}: loss in H over {flags.divisions} divisions, {flags.classes} classes")
        print(f"{'':28}{'mean':>8}{'worst':>8}{'first 10':>10}{'worst':>8}")
        covered = found.pop("in the interval")
        for name, loss in found.items():
            ten = loss[:10]
            print(f"{name:28}{loss.mean():8.2f}{loss.max():8.2f}{ten.mean():10.2f}{ten.max():8.2f}")
            figures[f"{kind}, {name}"] = {"mean": float(loss.mean()), "worst": float(loss.max())}
        print(f"the best alpha is in the interval in {100 * covered.mean():.0f} % of the divisions")
    if flags.json:
        write_json(Path(flags.json), figures)


if __name__ == "__main__":
    main()
