"""`final/report.html`: the page about the final model, with the figures of the model before it."""

import html
from pathlib import Path

from clarel_tf.evaluation.records import FinalModel, Results
from clarel_tf.reporting import figures
from clarel_tf.reporting.html_page import card, figure_card, grid, page
from clarel_tf.reporting.results_table import results_table
from clarel_tf.storage import files
from clarel_tf.training.history import read_history


def final_notice(final: FinalModel) -> str:
    """What the final model is, in two sentences."""
    return (
        f"The final model was trained on all {final.images} images of {final.classes} classes, "
        f"those of the test splits included, for {final.steps} steps. No image is left to test it, "
        "so all accuracies are those of the model before, which was tested without them."
    )


def write_final_report(folder: Path, final: FinalModel, results: Results) -> None:
    """Writes the page into the folder of the final model."""
    values = (
        f"alpha {final.alpha:.4g}, temperature {final.temperature:.4g}, threshold "
        f"{final.none_of_these.distance:.4g}: selected on validation data, and carried over. "
        "Every class with images is a seen one here, so alpha matters only for classes without "
        "images and for new classes of requests."
    )
    tested = html.escape(results_table(results))
    cards = [
        card("Accuracies of the model before this one", f"<pre>{tested}</pre>", wide=True),
        card("Decision rule", f"<p>{html.escape(values)}</p>"),
    ]
    if history := read_history(folder / "history.csv"):
        figure = figures.losses_figure({"all": history})
        cards.append(figure_card("Training", figure, "Means over each logged interval."))
    dataset = "/".join(filter(None, [results.dataset, results.dataset_config]))
    link = '<p><a href="../report.html">Report of the tested model</a></p>'
    text = page(f"{dataset}: final model", final_notice(final), [link, grid(cards)])
    files.write_text(folder / "report.html", text)
