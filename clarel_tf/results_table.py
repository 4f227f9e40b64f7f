"""The table that a run prints at its end."""

from typing import Any


def results_table(results: dict[str, Any]) -> str:
    """ZSL, and u, s, H with alpha = 0 and with the chosen alpha, in percent."""
    dataset = "/".join(filter(None, [results["dataset"], results["dataset_config"]]))
    lines = [
        f"Test splits of {dataset}, {results['protocol']} protocol, seed {results['seed']}, "
        f"{results['steps']} steps; per-class top-1 in percent",
        "",
        f"{'':24}{'u':>8}{'s':>8}{'H':>8}",
    ]
    chosen = f"alpha = {results['alpha']:.4f} (chosen)"
    for name, scores in (("alpha = 0", results["gzsl_alpha0"]), (chosen, results["gzsl"])):
        lines.append(f"{name:24}{scores['u']:8.1f}{scores['s']:8.1f}{scores['h']:8.1f}")
    lines += ["", f"ZSL (unseen classes alone): {results['zsl']['top1']:.1f}"]
    return "\n".join(lines)
