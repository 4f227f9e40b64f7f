"""`report.html`: one self-contained page about a run, with nothing fetched from elsewhere."""

import html
import math
from collections.abc import Iterator
from pathlib import Path

from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import Results
from clarel_tf.reporting import figures, published
from clarel_tf.reporting.html_page import card, figure_card, grid, page, table
from clarel_tf.reporting.results_table import not_measured, number, stranger_rows, whose
from clarel_tf.storage import files
from clarel_tf.training.history import read_history


def write_report(path: Path, results: Results, measures: Measures, run_dir: Path) -> None:
    """Writes the page for the run in `run_dir`."""
    files.write_text(path, report_page(results, measures, run_dir))


def report_page(results: Results, measures: Measures, run_dir: Path) -> str:
    """The whole page as text."""
    dataset = "/".join(filter(None, [results.dataset, results.dataset_config]))
    curve = measures.seen_unseen_curve
    marks = {
        "alpha = 0": results.gzsl_alpha0,
        f"alpha = {results.alpha:.3g}": results.gzsl,
    }
    alpha_curve, seen_unseen = [], []
    if results.alpha_curve:
        drawn = figures.alpha_figure(results.alpha_curve, *_on_validation(results))
        note = (
            "On validation data; the dot is the chosen alpha. "
            f"For the test it is {results.alpha:.3g}{_interval(results)}."
        )
        alpha_curve = [figure_card("Balance of seen and unseen classes", drawn, note)]
    if curve.u:
        drawn = figures.seen_unseen_figure(curve.u, curve.s, marks)
        note = f"On test data, over all alpha. Area under it (AUSUC): {results.ausuc:.1f} %."
        seen_unseen = [figure_card("Seen against unseen accuracy", drawn, note)]
    cards = [
        card("Result", _result_table(results, measures), wide=True),
        *alpha_curve,
        *seen_unseen,
        figure_card(
            "Captions per prototype",
            figures.captions_figure(measures.captions_curve),
            "Means of seeded draws with their standard deviation, at the chosen alpha.",
        ),
        *_training_card(run_dir),
        *_validation_card(run_dir),
        card("Sentences that a new class needs", _new_class_table(measures)),
        card("Descriptions that say nothing", _empty_class_table(measures)),
        card("Retrieval", _retrieval_table(measures)),
        card("Probabilities", _probability_table(results, measures)),
        *_rejection_cards(measures),
        card("Classes most often confused", _confusion_table(measures), wide=True),
        card("Captions nearest to test images", _example_list(measures), wide=True),
    ]
    title = f"{dataset}: zero-shot classification by retrieval"
    return page(title, _subtitle(results), [_headline(results), grid(cards)])


def _on_validation(results: Results) -> tuple[float, list[float] | None]:
    """Alpha and its interval before they were carried over to the tested model."""
    # A run from before alpha was carried over has one alpha for both.
    alpha = results.alpha if results.alpha_on_validation is None else results.alpha_on_validation
    if not results.alpha_interval or not results.alpha:
        return alpha, None
    return alpha, [end * alpha / results.alpha for end in results.alpha_interval]


def _interval(results: Results) -> str:
    if not results.alpha_interval:  # of a run of an older version
        return ""
    low, high = results.alpha_interval
    return f" (95 % interval by resampled validation classes: {low:.3g} to {high:.3g})"


def _training_card(run_dir: Path) -> list[str]:
    """The losses of both phases; an ensemble was not trained itself."""
    histories = {
        "train": read_history(run_dir / "validation" / "history.csv"),
        "trainval": read_history(run_dir / "history.csv"),
    }
    if not any(histories.values()):
        return []
    note = "Means over each logged interval."
    return [figure_card("Training", figures.losses_figure(histories), note)]


def _validation_card(run_dir: Path) -> list[str]:
    """The curve of the first phase, if the run was asked to draw it."""
    rows = read_history(run_dir / "validation" / "validation_curve.csv")
    if not rows:
        return []
    note = "On validation data, with two captions of each image and the best alpha at each step."
    return [figure_card("While training", figures.validation_figure(rows), note)]


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
    header = ["sentences", "recall", "precision", "harmonic mean"]
    return f'<p class="soft">{html.escape(note)}</p>{table(header, rows)}'


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
    return f'<p class="soft">{html.escape(note)}</p>{table(header, rows)}'


def _empty_rows(measures: Measures) -> Iterator[tuple[str, list[int], list[float]]]:
    """(kind, numbers of sentences, mean share by each rule)."""
    for kind in dict.fromkeys(point.kind for point in measures.new_classes["all"].empty):
        of_kind = [
            [point for point in new.empty if point.kind == kind]
            for new in measures.new_classes.values()
        ]
        shares = [sum(p.taken for p in points) / len(points) for points in of_kind]
        yield kind, [point.sentences for point in of_kind[0]], shares


def _subtitle(results: Results) -> str:
    vectors = results.word_vectors
    words = f"word vectors {vectors.file}" if vectors.file else "learned word embeddings"
    backbone = results.fingerprints.get("backbone")
    made_by = f" of {backbone['name']} at {backbone['input_size']} pixels" if backbone else ""
    return (
        f"Protocol {results.protocol}, {whose(results)}, {results.steps} steps, "
        f"{words}; "
        f"features {results.fingerprints['trainval']['features']}{made_by}, "
        f"test images {results.fingerprints['test_unseen']['images']}. "
        "Per-class top-1 in percent."
    )


def _headline(results: Results) -> str:
    gzsl = results.gzsl
    numbers = {"ZSL": results.zsl.top1, "H": gzsl.h, "unseen": gzsl.u, "seen": gzsl.s}
    boxes = (
        f'<div class="number">{name}<b>{number(value)}</b></div>' for name, value in numbers.items()
    )
    notes = not_measured(results, results.alpha_curve, "test")
    told = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f'<div class="numbers">{"".join(boxes)}</div>{told}'


def _result_table(results: Results, measures: Measures) -> str:
    rows = []
    kinds = {
        "all": "prototypes of all captions",
        "leave_own_out": "own captions left out of them",
        "captions_alone": "captions alone, the rule of the paper",
    }
    for kind, scores in measures.prototypes.items():
        for label, gzsl in (
            ("alpha = 0", scores.gzsl_alpha0),
            (f"alpha = {scores.alpha:.3g}", scores.gzsl),
        ):
            label = f"{label}, {kinds[kind]}"
            rows.append([label, gzsl.u, gzsl.s, gzsl.h, scores.zsl.top1])
    note = ""
    for row in published.ABLATION.get(results.dataset, ()):
        if row[1:3] == (0.5, 0.5):
            label = "paper, alpha chosen" if row.with_alpha else "paper, alpha = 0"
            zsl = published.ZSL[results.dataset]
            rows.append([label, row.u, row.s, row.h, zsl])
            note = (
                '<p class="soft">The paper used ResNet-101 features; other features are not '
                "comparable one to one.</p>"
            )
    return table(["", "unseen", "seen", "H", "ZSL"], rows) + note


def _retrieval_table(measures: Measures) -> str:
    rows = [
        [f"{split}, {direction.replace('_', ' ')}", *recalls.values()]
        for split, directions in measures.retrieval.items()
        for direction, recalls in directions.items()
    ]
    precision = measures.ap_at_50
    note = (
        f"AP@50 around prototypes: {number(precision.unseen)} (unseen classes), "
        f"{number(precision.all)} (all)."
    )
    return table(["", "recall@1", "@5", "@10"], rows) + f'<p class="soft">{note}</p>'


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
    note = f"Temperature {seen:.4g} if the nearest class is seen, else {unseen:.4g}."
    if math.isnan(results.none_of_these.accepted):
        note = "Temperature 1 and no threshold: there are no validation images to choose them on."
    header = ["calibration error, %", "temperature 1", "fitted", "seen images", "unseen images"]
    return table(header, rows) + f'<p class="soft">{note}</p>'


def _rejection_cards(measures: Measures) -> list[str]:
    """Reliability of probabilities and rejection, if there are test images."""
    if not measures.reliability:
        return []
    return [
        figure_card(
            "Reliability of probabilities",
            figures.reliability_figure(measures.reliability),
            "On test data: right answers among those that are about as probable.",
            wide=True,
        ),
        card("None of these", _stranger_table(measures), wide=True),
    ]


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
    return f'<p class="soft">{html.escape(note)}</p>{table(["score", *strangers.rejected], rows)}'


def _confusion_table(measures: Measures) -> str:
    rows = [[row.true, row.predicted, row.percent] for row in measures.confusions]
    if not rows:
        if math.isnan(measures.prototypes["all"].gzsl.u):
            return "<p>There is no test image of an unseen class.</p>"
        return "<p>No unseen test image was given to a wrong class.</p>"
    return table(["true class (unseen)", "given to", "% of its images"], rows, text_columns=2)


def _example_list(measures: Measures) -> str:
    parts = []
    for example in measures.examples:
        kind = "right" if example.right else "wrong"
        captions = "".join(
            f"<li{' class=own' if caption.own else ''}>{html.escape(caption.text)} "
            f'<span class="soft">({html.escape(caption.class_name)})</span></li>'
            for caption in example.captions
        )
        parts.append(
            f'<div class="example"><span class="tag {kind}">{kind}</span> '
            f"{html.escape(example.image_id)}: {html.escape(example.class_name)}, given to "
            f"{html.escape(example.predicted)}<ul>{captions}</ul></div>"
        )
    return (
        '<p class="soft">Of the captions of all unseen test images; the image\'s own in bold.</p>'
        + "".join(parts)
    )
