"""The tables that runs and evaluations print at their end."""

from typing import Any

from clarel_tf.decision.rule import RuleSettings


def results_table(results: dict[str, Any]) -> str:
    """ZSL, and u, s, H with alpha = 0 and with the chosen alpha, in percent."""
    dataset = "/".join(filter(None, [results["dataset"], results["dataset_config"]]))
    title = (
        f"Test splits of {dataset}, {results['protocol']} protocol, {whose(results)}, "
        f"{results['steps']} steps; per-class top-1 in percent"
    )
    return _scores_table(title, results, results)


def whose(results: dict[str, Any]) -> str:
    """The seed of the model that was tested, or those of the models in an ensemble."""
    if "seeds" in results:
        return f"models of seeds {', '.join(map(str, results['seeds']))} side by side"
    return f"seed {results['seed']}"


def validation_table(calibration: dict[str, Any]) -> str:
    """The same of the validation splits, which alpha was chosen on."""
    title = "Validation splits; per-class top-1 in percent"
    return _scores_table(title, calibration["validation"], calibration)


def _scores_table(title: str, scores: dict[str, Any], chosen: dict[str, Any]) -> str:
    rows = {
        "alpha = 0": scores["gzsl_alpha0"],
        f"alpha = {chosen['alpha']:.4g} (chosen)": scores["gzsl"],
    }
    if not RuleSettings.of(chosen).is_of_the_paper:
        alpha = chosen["alpha_captions_alone"]
        rows[f"captions alone, {alpha:.4g}"] = scores["gzsl_captions_alone"]
    lines = [title, "", f"{'':24}{'u':>8}{'s':>8}{'H':>8}"]
    for name, gzsl in rows.items():
        lines.append(f"{name:24}{gzsl['u']:8.1f}{gzsl['s']:8.1f}{gzsl['h']:8.1f}")
    zsl = f"ZSL (unseen classes alone): {scores['zsl']['top1']:.1f}"
    if not RuleSettings.of(chosen).is_of_the_paper:
        # Older runs do not name it: they asked the image head at most, which has no part in ZSL.
        by_captions = scores.get("zsl_captions_alone", scores["zsl"])
        zsl += f"; by captions alone: {by_captions['top1']:.1f}"
    return "\n".join([*lines, "", zsl])


def evaluation_table(results: dict[str, Any], evaluation: dict[str, Any]) -> str:
    """All measures of an evaluation, in percent."""
    lines = [f"{'prototypes':16}{'alpha':>9}{'u':>8}{'s':>8}{'H':>8}{'ZSL':>8}{'AUSUC':>8}"]
    for kind, scores in evaluation["prototypes"].items():
        for alpha, key in ((0.0, "gzsl_alpha0"), (scores["alpha"], "gzsl")):
            gzsl = "".join(f"{scores[key][name]:8.1f}" for name in "ush")
            rest = f"{scores['zsl']['top1']:8.1f}{scores['ausuc']:8.1f}"
            lines.append(f"{kind:16}{alpha:9.4g}{gzsl}{rest}")
    lines += ["", f"{'captions':16}{'H':>8}{'std':>8}{'ZSL':>8}{'std':>8}"]
    for point in evaluation["captions_curve"]:
        values = "".join(f"{point[key]:8.1f}" for key in ("h", "h_std", "zsl", "zsl_std"))
        lines.append(f"{point['captions']:<16}{values}")
    lines += ["", f"{'sentences of a new class':28}{'accuracy':>10}{'precision':>11}"]
    for point in evaluation["new_class_curve"]:
        values = f"{point['accuracy']:10.1f}{point['precision']:11.1f}"
        lines.append(f"{point['sentences']:<28}{values}")
    lines += ["", f"{'retrieval':28}{'@1':>8}{'@5':>8}{'@10':>8}"]
    for split, directions in evaluation["retrieval"].items():
        for direction, recalls in directions.items():
            values = "".join(f"{value:8.1f}" for value in recalls.values())
            lines.append(f"{split + ' ' + direction:28}{values}")
    precision, errors = evaluation["ap_at_50"], evaluation["calibration"]
    lines += [
        "",
        f"AP@50: unseen classes {precision['unseen']:.1f}, all classes {precision['all']:.1f}",
        f"Calibration error: {errors['calibration_error_before']:.1f} with temperature 1, "
        f"{errors['calibration_error_after']:.1f} with {results['temperature']:.4g}",
    ]
    return "\n".join(lines)
