"""Cards with the scores of a run: its headline, the result, its curves, retrieval, training."""

import html
from pathlib import Path

from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import Results
from clarel_tf.reporting import figures, published
from clarel_tf.reporting.alpha_certainty import alpha_certainty
from clarel_tf.reporting.html_page import card, figure_card, soft, table
from clarel_tf.reporting.results_table import not_measured, number
from clarel_tf.training.history import read_history


def headline(results: Results) -> str:
    """The four numbers of a run, and what could not be measured."""
    gzsl = results.gzsl
    numbers = (
        ("ZSL", results.zsl.top1, "unseen classes among themselves"),
        ("H", gzsl.h, "harmonic mean of the next two"),
        ("unseen", gzsl.u, "unseen classes among all classes"),
        ("seen", gzsl.s, "seen classes among all classes"),
    )
    boxes = (
        f'<div class="number">{title}<b>{number(value)}</b><small>{told}</small></div>'
        for title, value, told in numbers
    )
    notes = not_measured(results, results.alpha_curve, "test")
    told = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f'<div class="numbers">{"".join(boxes)}</div>{told}'


def result_cards(results: Results, measures: Measures) -> list[str]:
    """The table of results, and both curves over alpha."""
    cards = [card("Accuracy", _result_table(results, measures), wide=True)]
    if results.alpha_curve:
        drawn = figures.alpha_figure(results.alpha_curve, *_on_validation(results))
        note = (
            "On validation data; the dot is the chosen alpha. "
            f"For the test it is {results.alpha:.3g}."
        )
        if told := alpha_certainty(results.alpha_curve, results.alpha_interval):
            note += f" {told[0].upper()}{told[1:]}."
        cards.append(figure_card("Balance of seen and unseen classes", drawn, note))
    curve = measures.seen_unseen_curve
    if curve.u:
        marks = {
            "alpha = 0": results.gzsl_alpha0,
            f"alpha = {results.alpha:.3g}": results.gzsl,
        }
        drawn = figures.seen_unseen_figure(curve.u, curve.s, marks)
        note = f"On test data, over all alpha. Area under it (AUSUC): {results.ausuc:.1f} %."
        cards.append(figure_card("Seen against unseen accuracy", drawn, note))
    return cards


def _on_validation(results: Results) -> tuple[float, list[float] | None]:
    """Alpha and its interval before they were carried over to the tested model."""
    # A run from before alpha was carried over has one alpha for both.
    alpha = results.alpha if results.alpha_on_validation is None else results.alpha_on_validation
    if not results.alpha_interval or not results.alpha:
        return alpha, None
    return alpha, [end * alpha / results.alpha for end in results.alpha_interval]


def _result_table(results: Results, measures: Measures) -> str:
    rows = []
    kinds = {
        "all": "prototypes of all captions",
        "leave_own_out": "own captions left out of them",
        "captions_alone": "captions alone, the rule of the paper",
    }
    for kind, scores in measures.prototypes.items():
        by_alpha = {"alpha = 0": scores.gzsl_alpha0, f"alpha = {scores.alpha:.3g}": scores.gzsl}
        for label, gzsl in by_alpha.items():
            label = f"{label}, {kinds[kind]}"
            rows.append([label, gzsl.u, gzsl.s, gzsl.h, scores.zsl.top1])
    note = "Per-class top-1 in percent."
    for row in published.ABLATION.get(results.dataset, ()):
        if row[1:3] == (0.5, 0.5):
            label = "paper, alpha chosen" if row.with_alpha else "paper, alpha = 0"
            zsl = published.ZSL[results.dataset]
            rows.append([label, row.u, row.s, row.h, zsl])
            note = (
                "Per-class top-1 in percent. The paper used ResNet-101 features; other features "
                "are not comparable one to one."
            )
    return table(["", "unseen", "seen", "H", "ZSL"], rows) + soft(note)


def retrieval_cards(measures: Measures) -> list[str]:
    """Recall of captions and images, and accuracy by the number of captions."""
    rows = [
        [f"{split}, {direction.replace('_', ' ')}", *recalls.values()]
        for split, directions in measures.retrieval.items()
        for direction, recalls in directions.items()
    ]
    precision = measures.ap_at_50
    body = "<p>No test image has captions of its own.</p>"
    if rows:
        body = table(["", "recall@1", "@5", "@10"], rows) + soft(
            "Percent of images that have one of their captions among the k nearest, and of "
            "captions with their image among them."
        )
    body += soft(
        f"AP@50 around prototypes: {number(precision.unseen)} (unseen classes), "
        f"{number(precision.all)} (all)."
    )
    return [
        card("Recall", body),
        figure_card(
            "Captions per prototype",
            figures.captions_figure(measures.captions_curve),
            "Means of seeded draws with their standard deviation, at the chosen alpha.",
        ),
    ]


def training_cards(run_dir: Path) -> list[str]:
    """The losses of both phases, and the curve of the first one if the run was asked to draw it.

    An ensemble was not trained itself and has neither.
    """
    histories = {
        "train": read_history(run_dir / "validation" / "history.csv"),
        "trainval": read_history(run_dir / "history.csv"),
    }
    cards = []
    if any(histories.values()):
        note = "Means over each logged interval."
        cards.append(figure_card("Losses", figures.losses_figure(histories), note))
    if rows := read_history(run_dir / "validation" / "validation_curve.csv"):
        note = (
            "On validation data, with two captions of each image and the best alpha at each step."
        )
        drawn = figures.validation_figure(rows)
        cards.append(figure_card("Accuracy while training", drawn, note))
    return cards
