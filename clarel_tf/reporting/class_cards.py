"""Cards about single classes: how their accuracies are spread, and a table of all of them."""

import math

from clarel_tf.evaluation.example_records import ClassMeasures
from clarel_tf.reporting import figures
from clarel_tf.reporting.html_page import Markup, card, figure_card, name, soft, table, tag

MOST_ROWS = 1000


def class_cards(classes: list[ClassMeasures]) -> list[str]:
    """The spread of accuracy over the classes, and the table; nothing for older files."""
    if not classes:
        return []
    spread = {
        kind: [one.accuracy for one in classes if one.is_seen == is_seen]
        for kind, is_seen in (("unseen", False), ("seen", True))
    }
    note = "Number of classes by the accuracy on their test images, at the chosen alpha."
    drawn = figures.class_accuracy_figure(spread)
    return [
        figure_card("Accuracy of classes", drawn, note, wide=True),
        card("Every class", _table(classes), wide=True),
    ]


def _table(classes: list[ClassMeasures]) -> str:
    shown = sorted(classes, key=lambda one: (one.accuracy, one.name))[:MOST_ROWS]
    rows = [
        [
            name(one.name),
            Markup(tag("seen", "seen") if one.is_seen else tag("unseen", "unseen")),
            one.training_images,
            one.sentences,
            one.images,
            one.accuracy,
            math.nan if one.precision is None else one.precision,
            "" if one.mistaken_for is None else name(one.mistaken_for),
            "" if one.mistaken_for is None else one.mistaken_percent,
        ]
        for one in shown
    ]
    header = [
        *("class", "", "training images", "sentences", "test images"),
        *("accuracy, %", "precision, %", "most often mistaken for", "% of its images"),
    ]
    note = (
        "Accuracy: test images of the class that are given to it, among all classes; the mean over "
        "unseen classes is u, that over seen classes s. Precision: images given to the class that "
        "are its own. Press the head of a column to sort by it."
    )
    if len(shown) < len(classes):
        note += (
            f" These are the {len(shown):,} classes of {len(classes):,} with the lowest accuracy; "
            "evaluation.json has all."
        )
    return soft(note) + table(header, rows, text_columns=(0, 1, 7), sorted_by=5)
