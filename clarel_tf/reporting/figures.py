"""The figures of reports and sweeps, drawn by matplotlib without a screen."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from clarel_tf.evaluation.measures import CaptionsPoint
from clarel_tf.evaluation.records import AlphaPoint, GzslScores
from clarel_tf.evaluation.trust_records import Reliability

UNSEEN, SEEN, HARMONIC, MUTED = "#1f6fb4", "#d9822b", "#2b2b33", "#9aa3ad"
STYLE: dict[Any, Any] = {  # matplotlib has its own type for the keys
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e8eb",
    "axes.axisbelow": True,
    "svg.hashsalt": "clarel_tf",  # makes the file reproducible
}


def new_figure(width: float = 5.6, height: float = 3.5) -> tuple[Figure, Axes]:
    """An empty figure in our style; does not change the global state of pyplot."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.add_subplot()


def to_svg(figure: Figure) -> str:
    """The figure as an `<svg>` element."""
    text = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def alpha_figure(
    curve: Sequence[AlphaPoint], alpha: float, interval: Sequence[float] | None = None
) -> Figure:
    """u, s and H against alpha, with the selected one and its interval."""
    figure, axes = new_figure()
    alphas = [point.alpha for point in curve]
    for key, label, colour in (("u", "unseen", UNSEEN), ("s", "seen", SEEN), ("h", "H", HARMONIC)):
        values = [getattr(point, key) for point in curve]
        axes.plot(alphas, values, label=label, color=colour, linewidth=2 if key == "h" else 1.4)
    best = min(curve, key=lambda point: abs(point.alpha - alpha))
    if interval:
        axes.axvspan(*interval, color=HARMONIC, alpha=0.08, linewidth=0)
    axes.axvline(alpha, color=MUTED, linestyle=":", linewidth=1)
    axes.plot([alpha], [best.h], "o", color=HARMONIC)
    # At the bottom, where no curve is.
    axes.annotate(f"alpha = {alpha:.3g}", (alpha, 0), xytext=(5, 5), textcoords="offset points")
    # A few images change very late; the interesting part is before.
    axes.set_xlim(0, max(alphas[int(0.95 * (len(alphas) - 1))], 2 * alpha, 1e-6))
    axes.set(xlabel="alpha", ylabel="per-class top-1, %", ylim=(0, None))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    return figure


def seen_unseen_figure(
    u: Sequence[float], s: Sequence[float], points: dict[str, GzslScores]
) -> Figure:
    """Seen against unseen accuracy over all alpha; `points` are named scores to mark."""
    figure, axes = new_figure()
    axes.plot(u, s, color=HARMONIC, linewidth=1.8)
    axes.fill_between(u, s, color=UNSEEN, alpha=0.08)
    for (name, scores), colour in zip(points.items(), (SEEN, UNSEEN), strict=False):
        axes.plot([scores.u], [scores.s], "o", color=colour, label=name)
    axes.set(xlabel="unseen, %", ylabel="seen, %", xlim=(0, None), ylim=(0, None))
    axes.legend(loc="lower left", frameon=False)
    return figure


def reliability_figure(diagrams: Mapping[str, Reliability]) -> Figure:
    """Accuracy against probability, one panel for each group of images; the diagonal is ideal.

    Below each diagram are the shares of the images.
    """
    colours = {"all": HARMONIC, "seen": SEEN, "unseen": UNSEEN}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 4.2), layout="constrained")
        panels = figure.subplots(
            2, len(diagrams), sharex=True, sharey="row", height_ratios=[4, 1], squeeze=False
        )
    for (name, diagram), axes, below in zip(diagrams.items(), *panels, strict=True):
        given = [one.probability for one in diagram.bins]
        right = [one.accuracy for one in diagram.bins]
        total = sum(one.images for one in diagram.bins)
        shares = [100.0 * one.images / total for one in diagram.bins]
        axes.plot([0, 100], [0, 100], color=MUTED, linestyle=":", linewidth=1)
        axes.plot(given, right, "o-", color=colours[name], markersize=4, linewidth=1.4)
        axes.vlines(given, given, right, color=colours[name], linewidth=3, alpha=0.25)
        axes.set(title=f"{name} images, error {diagram.error:.1f} %", xlim=(0, 100), ylim=(0, 100))
        below.bar(given, shares, width=5, color=colours[name], alpha=0.6)
        below.set(xlabel="probability of the answer, %", ylim=(0, None))
    panels[0][0].set_ylabel("right answers, %")
    panels[1][0].set_ylabel("images, %")
    return figure


def class_accuracy_figure(accuracies: Mapping[str, Sequence[float]]) -> Figure:
    """How many classes of each kind have which accuracy, in steps of 10 %."""
    figure, axes = new_figure(width=10.5, height=2.8)
    edges = list(range(0, 101, 10))
    axes.hist(
        list(accuracies.values()),
        bins=edges,
        color=[{"seen": SEEN, "unseen": UNSEEN}[kind] for kind in accuracies],
        label=list(accuracies),
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="accuracy, %", ylabel="classes", xlim=(0, 100), xticks=edges)
    axes.grid(visible=False, axis="x")
    axes.legend(loc="upper left", frameon=False)
    return figure


def captions_figure(curve: Sequence[CaptionsPoint]) -> Figure:
    """Accuracy against the number of captions per prototype, with the spread of the draws."""
    figure, axes = new_figure()
    counts = [point.captions for point in curve]
    series = (
        ("zsl", "ZSL", MUTED),
        ("u", "unseen", UNSEEN),
        ("s", "seen", SEEN),
        ("h", "H", HARMONIC),
    )
    for key, label, colour in series:
        values = [getattr(point, key) for point in curve]
        spread = [getattr(point, f"{key}_std") for point in curve]
        axes.errorbar(
            counts,
            values,
            yerr=spread,
            label=label,
            color=colour,
            marker="o",
            markersize=4,
            capsize=2,
        )
    axes.set_xscale("log")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set(xlabel="captions per prototype", ylabel="per-class top-1, %", ylim=(0, None))
    axes.legend(ncols=2, frameon=False)
    return figure


def validation_figure(rows: Sequence[dict[str, float]]) -> Figure:
    """ZSL and H of the validation splits against the step."""
    figure, axes = new_figure()
    steps = [row["step"] for row in rows]
    for key, label, colour in (("zsl", "ZSL", UNSEEN), ("h", "H", HARMONIC)):
        axes.plot(steps, [row[key] for row in rows], "o-", markersize=3, label=label, color=colour)
    axes.set(xlabel="step", ylabel="per-class top-1, %", ylim=(0, None))
    axes.legend(loc="lower right", frameon=False)
    return figure


def losses_figure(histories: Mapping[str, Sequence[dict[str, float]]]) -> Figure:
    """Training curves; of two phases the first one dashed."""
    figure, axes = new_figure()
    series = (
        ("text_retrieval", "text retrieval", UNSEEN),
        ("image_retrieval", "image retrieval", "#4aa36b"),
        ("text_classification", "text classification", SEEN),
        ("image_classification", "image classification", "#b04a6a"),
    )
    styles = ("--", "-")[-len(histories) :]
    for (phase, rows), style in zip(histories.items(), styles, strict=True):
        for key, label, colour in series:
            axes.plot(
                [row["step"] for row in rows],
                [row[key] for row in rows],
                style,
                color=colour,
                linewidth=1 if style == "--" else 1.6,
                label=label if style == "-" else None,
            )
        axes.plot([], [], style, color=MUTED, label=phase)
    axes.set(xlabel="step", ylabel="loss", ylim=(0, None))
    axes.legend(ncols=2, frameon=False)
    return figure
