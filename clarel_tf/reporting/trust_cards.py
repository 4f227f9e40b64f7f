"""Cards about trust: new classes, probabilities, "none of these"."""

import math
from collections.abc import Iterator

from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import Results
from clarel_tf.reporting import figures
from clarel_tf.reporting.html_page import card, figure_card, soft, table
from clarel_tf.reporting.results_table import stranger_rows


def new_class_cards(measures: Measures) -> list[str]:
    """What classes of few sentences get, and what classes get whose sentences say nothing."""
    return [
        card("Sentences that a new class needs", _new_class_table(measures)),
        card("Descriptions that say nothing", _empty_class_table(measures)),
    ]


def _new_class_table(measures: Measures) -> str:
    kinds = {"all": "the rule", "captions_alone": "captions alone"}
    rows = [
        [
            f"{point.sentences}, {kinds[kind]}",
            f"{point.recall:.1f} ± {point.recall_std:.1f}",
            f"{point.precision:.1f} ± {point.precision_std:.1f}",
            f"{point.harmonic_mean:.1f}",
        ]
        for kind, new in measures.new_classes.items()
        for point in new.real
    ]
    if not rows:
        return "<p>There is no test image of an unseen class.</p>"
    note = (
        "One unseen class at a time is described by so many captions, all others by theirs. "
        "Recall: images of the class that are given to it. Precision: images given to it that "
        "are of the class. Means of seeded draws with their standard deviation, in percent."
    )
    return soft(note) + table(["sentences", "recall", "precision", "harmonic mean"], rows)


def _empty_class_table(measures: Measures) -> str:
    rows = [
        [f"{kind}, {', '.join(map(str, counts))}", *shares]
        for kind, counts, shares in _empty_rows(measures)
    ]
    note = (
        "Percent of all test images that a class takes whose sentences say nothing, mean over "
        "drawn descriptions of 1, 2, 5 and 10 sentences."
    )
    header = ["sentences", *("the rule", "captions alone")[: len(measures.new_classes)]]
    return soft(note) + table(header, rows)


def _empty_rows(measures: Measures) -> Iterator[tuple[str, list[int], list[float]]]:
    """(kind, numbers of sentences, mean share by each rule)."""
    for kind in dict.fromkeys(point.kind for point in measures.new_classes["all"].empty):
        of_kind = [
            [point for point in new.empty if point.kind == kind]
            for new in measures.new_classes.values()
        ]
        shares = [sum(p.taken for p in points) / len(points) for points in of_kind]
        yield kind, [point.sentences for point in of_kind[0]], shares


def probability_cards(results: Results, measures: Measures) -> list[str]:
    """Calibration errors; with test images also reliability diagrams and rejection."""
    cards = [card("Calibration error", _probability_table(results, measures), wide=True)]
    if measures.reliability:
        cards += [
            figure_card(
                "Reliability of probabilities",
                figures.reliability_figure(measures.reliability),
                "On test data: right answers among those that are about as probable.",
                wide=True,
            ),
            card("None of these", _stranger_table(measures), wide=True),
        ]
    return cards


def _probability_table(results: Results, measures: Measures) -> str:
    rows = [
        [
            name,
            errors.calibration_error_before,
            errors.calibration_error_after,
            # Older runs lack it on validation data.
            "" if errors.calibration_error_seen is None else errors.calibration_error_seen,
            "" if errors.calibration_error_unseen is None else errors.calibration_error_unseen,
        ]
        for name, errors in (("validation", results.validation), ("test", measures.calibration))
    ]
    seen, unseen = measures.selected.temperatures
    note = (
        "Percent. The last two columns are with the fitted temperatures: "
        f"{seen:.4g} if the nearest class is seen, else {unseen:.4g}."
    )
    if math.isnan(results.none_of_these.accepted):
        note = "Temperature 1 and no threshold: there are no validation images to choose them on."
    header = ["images", "temperature 1", "fitted", "of seen classes", "of unseen classes"]
    return table(header, rows) + soft(note)


def _stranger_table(measures: Measures) -> str:
    """How well scores find images whose class is not on offer."""
    strangers, none = measures.strangers, measures.selected.none_of_these
    note = (
        "On test data: AUROC, and percent of strangers rejected where 95 % of the other images are "
        "accepted. Strangers are images whose own class is taken away, images of unseen classes "
        "among seen classes only, and features of no image: noise, permuted within an image, or "
        "each from another image. The last two rows are what an export serves: its score, and its "
        f"threshold of {none.distance:.4g}, which accepts {strangers.accepted:.1f} % of the test "
        "images whose class is on offer."
    )
    rows: list[list[str]] = [[name, *cells] for name, cells in stranger_rows(strangers)]
    rows.append(["threshold", *(f"{value:.1f} %" for value in strangers.rejected.values())])
    return soft(note) + table(["score", *strangers.rejected], rows)
