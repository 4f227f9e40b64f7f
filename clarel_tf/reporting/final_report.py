"""`final/report.html`: the page about the final model, with the figures of the model before it."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.evaluation.records import FinalModel, Results
from clarel_tf.reporting import figures
from clarel_tf.reporting.class_cards import MOST_ROWS
from clarel_tf.reporting.html_page import card, figure_card, name, page, section, soft, table
from clarel_tf.reporting.page_pictures import PagePictures, read_pictures
from clarel_tf.reporting.results_table import results_table
from clarel_tf.reporting.settings_card import settings_card
from clarel_tf.storage import files
from clarel_tf.training.history import read_history

_MOST_PICTURES = 120


class OfferedClass(NamedTuple):
    """A class of the final model: numbers of its images and sentences, the id of an image."""

    name: str
    images: int
    sentences: int
    image_id: str | None


def final_notice(final: FinalModel) -> str:
    """What the final model is, in two sentences."""
    return (
        f"The final model was trained on all {final.images} images of {final.classes} classes, "
        f"those of the test splits included, for {final.steps} steps. No image is left to test it, "
        "so all accuracies are those of the model before, which was tested without them."
    )


def write_final_report(
    folder: Path,
    final: FinalModel,
    results: Results,
    classes: Sequence[OfferedClass],
    config: Config,
    split: Split,
) -> None:
    """Writes the page into the folder of the final model, which was trained on `split`."""
    wanted = [one.image_id for one in classes[:_MOST_PICTURES] if one.image_id]
    pictures = read_pictures([split], wanted)
    history = read_history(folder / "history.csv")
    text = final_page(final, results, classes, config, history, pictures)
    files.write_text(folder / "report.html", text)


def final_page(
    final: FinalModel,
    results: Results,
    classes: Sequence[OfferedClass],
    config: Config,
    history: Sequence[dict[str, float]],
    pictures: Mapping[str, bytes],
) -> str:
    """The whole page as text.

    Args:
      history: losses by step.
      pictures: JPEG files by the ids of images.
    """
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
    if history:
        figure = figures.losses_figure({"all": history})
        cards.append(figure_card("Losses", figure, "Means over each logged interval."))
    dataset = "/".join(filter(None, [results.dataset, results.dataset_config]))
    parts = [
        '<p><a href="../report.html">Report of the tested model</a></p>',
        section("Result", cards),
        section("Classes that the model knows", _class_cards(classes, PagePictures(pictures))),
        section("Settings of this phase", [settings_card(config)]),
    ]
    return page(f"{dataset}: final model", final_notice(final), parts)


def _class_cards(classes: Sequence[OfferedClass], pictures: PagePictures) -> list[str]:
    """A picture of each of the first classes, and the table."""
    cards = []
    items = []
    for one in classes[:_MOST_PICTURES]:
        if shown := pictures.show(one.image_id or "", one.name):
            items.append(f"<figure>{shown}<figcaption>{name(one.name)}</figcaption></figure>")
    if items:
        note = f"One image each of {len(items):,} of the {len(classes):,} classes."
        gallery = f'<div class="gallery classes soft">{"".join(items)}</div>'
        cards.append(card("Pictures", soft(note) + gallery, wide=True))
    listed = sorted(classes, key=lambda one: one.name)[:MOST_ROWS]
    rows = [[name(one.name), one.images, one.sentences] for one in listed]
    note = "A class without images is known by its sentences alone."
    if len(rows) < len(classes):
        note += f" These are the first {len(rows):,} of {len(classes):,} classes."
    body = soft(note) + table(["class", "images", "sentences"], rows, sorted_by=0)
    return [*cards, card("Every class", body, wide=True)]
