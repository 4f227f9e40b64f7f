"""The tables that runs and evaluations print at their end."""

import math
from collections.abc import Iterable, Sequence

from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import AlphaPoint, Results, Scores, Selection, ValidationScores
from clarel_tf.evaluation.trust_records import StrangerMeasures
from clarel_tf.reporting.alpha_certainty import alpha_certainty
from clarel_tf.reporting.cautions import cautions


def results_table(results: Results) -> str:
    """ZSL, and u, s, H with alpha = 0 and with the selected alpha, in percent."""
    dataset = "/".join(filter(None, [results.dataset, results.dataset_config]))
    title = (
        f"Test splits of {dataset}, {results.protocol} protocol, {whose(results)}, "
        f"{results.steps} steps; per-class top-1 in percent"
    )
    return "\n\n".join([_scores_table(title, results, results, "test"), *cautions(results)])


def whose(results: Results) -> str:
    """The seed of the model that was tested, or those of the models in an ensemble."""
    if results.seeds is not None:
        return f"ensemble of seeds {', '.join(map(str, results.seeds))}"
    return f"seed {results.seed}"


def validation_table(selection: Selection) -> str:
    """The same of the validation splits, which alpha was selected on."""
    title = "Validation splits; per-class top-1 in percent"
    return _scores_table(title, selection.validation, selection, "validation")


def not_measured(scores: Scores, alpha_curve: Sequence[AlphaPoint], splits: str) -> list[str]:
    """Plain sentences about what the data cannot tell.

    Args:
      alpha_curve: what alpha was chosen on.
      splits: "test" or "validation", where the scores are from.
    """
    lines = []
    if math.isnan(scores.gzsl.u):
        lines.append(f"ZSL, u and H: not measured, no {splits} image is of an unseen class.")
    if math.isnan(scores.gzsl.s):
        what = "s" if lines else "s and H"
        lines.append(f"{what}: not measured, no {splits} image is of a seen class.")
    if not alpha_curve:
        lines.append(
            "alpha: 0, because validation needs images of seen and of unseen classes to choose it."
        )
    return lines


def number(value: float, digits: int = 1) -> str:
    """A measure as text; a dash for what was not measured."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _scores_table(
    title: str,
    scores: Results | ValidationScores,
    selected: Results | Selection,
    splits: str,
) -> str:
    rows = {"alpha = 0": scores.gzsl_alpha0}
    if selected.alpha_curve:
        rows[f"alpha = {selected.alpha:.4g} (selected)"] = scores.gzsl
    zsl = f"ZSL (unseen classes alone): {number(scores.zsl.top1)}"
    if not selected.rule.is_of_the_paper and scores.gzsl_captions_alone is not None:
        rows[f"captions alone, {selected.alpha_captions_alone:.4g}"] = scores.gzsl_captions_alone
        # Older runs do not name it: they asked the image head at most, which has no part in ZSL.
        by_captions = scores.zsl_captions_alone or scores.zsl
        zsl += f"; by captions alone: {number(by_captions.top1)}"
    lines = [title, "", f"{'':28}{'u':>8}{'s':>8}{'H':>8}"]
    for name, gzsl in rows.items():
        lines.append(f"{name:28}{_columns((gzsl.u, gzsl.s, gzsl.h))}")
    notes = not_measured(scores, selected.alpha_curve, splits)
    return "\n".join(
        [*lines, "", *_certainty_line(selected), zsl, *([""] if notes else []), *notes]
    )


def _certainty_line(selected: Results | Selection) -> list[str]:
    told = alpha_certainty(selected.alpha_curve, selected.alpha_interval)
    return [told] if told else []


def evaluation_table(results: Results, measures: Measures) -> str:
    """All measures of an evaluation, in percent."""
    lines = [f"{'prototypes':16}{'alpha':>9}{'u':>8}{'s':>8}{'H':>8}{'ZSL':>8}{'AUSUC':>8}"]
    for kind, scores in measures.prototypes.items():
        for alpha, gzsl in ((0.0, scores.gzsl_alpha0), (scores.alpha, scores.gzsl)):
            values = (gzsl.u, gzsl.s, gzsl.h, scores.zsl.top1, scores.ausuc)
            lines.append(f"{kind:16}{alpha:9.4g}{_columns(values)}")
    lines += ["", f"{'captions':16}{'H':>8}{'std':>8}{'ZSL':>8}{'std':>8}"]
    for point in measures.captions_curve:
        columns = _columns((point.h, point.h_std, point.zsl, point.zsl_std))
        lines.append(f"{point.captions:<16}{columns}")
    for kind, new in measures.new_classes.items():
        lines += ["", f"{'new classes, ' + kind:28}{'recall':>10}{'precision':>11}{'both':>8}"]
        for one in new.real:
            numbers = f"{one.recall:10.1f}{one.precision:11.1f}{one.harmonic_mean:8.1f}"
            lines.append(f"{f'{one.sentences} sentences':28}{numbers}")
        lines += ["", f"{'empty classes, ' + kind:32}{'taken, %':>10}{'most, %':>10}"]
        for empty in new.empty:
            name = f"{empty.kind}, {empty.sentences}"
            lines.append(f"{name:32}{empty.taken:10.2f}{empty.most:10.2f}")
    lines += ["", f"{'retrieval':28}{'@1':>8}{'@5':>8}{'@10':>8}"]
    for split, directions in measures.retrieval.items():
        for direction, recalls in directions.items():
            lines.append(f"{split + ' ' + direction:28}{_columns(recalls.values())}")
    precision = measures.ap_at_50
    lines += [
        "",
        *_certainty_line(results),
        f"AP@50: unseen classes {number(precision.unseen)}, all classes {number(precision.all)}",
        "",
        *_calibration_lines(measures),
        "",
        *_stranger_lines(measures.strangers),
    ]
    if notes := not_measured(results, results.alpha_curve, "test"):
        lines += ["", *notes]
    return "\n".join(lines)


def _calibration_lines(measures: Measures) -> list[str]:
    errors = measures.calibration
    seen, unseen = measures.selected.temperatures
    by_kind = ", ".join(
        f"{name} images {one.error:.1f}" for name, one in measures.reliability.items()
    )
    if not by_kind:  # no test images
        return []
    before = number(errors.calibration_error_before)
    return [
        f"Calibration error: {by_kind}; with temperature 1 {before}",
        f"Temperatures: {seen:.4g} if the nearest class is seen, else {unseen:.4g}",
    ]


def _stranger_lines(strangers: StrangerMeasures) -> list[str]:
    """AUROC, and percent rejected where 95 % are accepted, by score and kind of strangers."""
    if not strangers.scores:  # no test images
        return []
    kinds = list(strangers.rejected)
    table = stranger_rows(strangers)
    lines = [
        "None of these: AUROC, and % rejected where 95 % are accepted",
        f"{'score':22}" + "".join(f"{kind:>23}" for kind in kinds),
    ]
    lines += [f"{name:22}" + "".join(f"{cell:>23}" for cell in cells) for name, cells in table]
    rejected = ", ".join(f"{kind} {value:.1f}" for kind, value in strangers.rejected.items())
    return [
        *lines,
        f"The threshold accepts {strangers.accepted:.1f} % of the images whose class is on offer.",
        f"It rejects, in percent: {rejected}",
    ]


def stranger_rows(strangers: StrangerMeasures) -> list[tuple[str, list[str]]]:
    """(score, AUROC and percent rejected for each kind of strangers)."""
    rows: dict[str, list[str]] = {}
    for point in strangers.scores:
        rows.setdefault(point.score, []).append(f"{point.auroc:.1f}, {point.rejected:.1f}")
    return list(rows.items())


def _columns(values: Iterable[float]) -> str:
    return "".join(f"{number(value):>8}" for value in values)
