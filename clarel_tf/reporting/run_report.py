"""`report.html`: one self-contained page about a run, with nothing fetched from elsewhere."""

from collections.abc import Mapping
from pathlib import Path

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import Results
from clarel_tf.reporting.cautions import cautions
from clarel_tf.reporting.class_cards import class_cards
from clarel_tf.reporting.example_cards import answer_cards, caption_cards, confusion_card
from clarel_tf.reporting.html_page import navigation, page, section, soft
from clarel_tf.reporting.page_pictures import PagePictures, read_pictures, wanted_images
from clarel_tf.reporting.results_table import whose
from clarel_tf.reporting.score_cards import headline, result_cards, retrieval_cards, training_cards
from clarel_tf.reporting.settings_card import origin_card, settings_card
from clarel_tf.reporting.trust_cards import new_class_cards, probability_cards
from clarel_tf.storage import files


def write_report(
    path: Path,
    results: Results,
    measures: Measures,
    run_dir: Path,
    config: Config,
    splits: Mapping[str, Split],
) -> None:
    """Writes the page for the run in `run_dir`, with pictures if the dataset has them."""
    tested = [splits[name] for name in ("test_unseen", "test_seen", "trainval")]
    pictures = read_pictures(tested, wanted_images(measures))
    files.write_text(path, report_page(results, measures, run_dir, config, pictures))


def report_page(
    results: Results,
    measures: Measures,
    run_dir: Path,
    config: Config,
    pictures: Mapping[str, bytes] | None = None,
) -> str:
    """The whole page as text.

    Args:
      pictures: JPEG files by the ids of images; without them the page shows names alone.
    """
    shown = PagePictures(pictures or {})
    sections = {
        "Result": result_cards(results, measures),
        "Test images": answer_cards(measures, shown),
        "Classes": [confusion_card(measures, shown), *class_cards(measures.classes)],
        "Retrieval": [*caption_cards(measures, shown), *retrieval_cards(measures)],
        "New classes": new_class_cards(measures),
        "Probabilities": probability_cards(results, measures),
        "Training": training_cards(run_dir),
        "Settings": [origin_card(results), settings_card(config)],
    }
    titles = [title for title, cards in sections.items() if cards]
    parts = [headline(results), *map(soft, cautions(results)), navigation(titles)]
    parts += [section(title, cards) for title, cards in sections.items()]
    if shown.left_out:
        parts.append(soft(f"{shown.left_out} pictures are left out to keep the page small."))
    dataset = "/".join(filter(None, [results.dataset, results.dataset_config]))
    return page(f"{dataset}: zero-shot classification by retrieval", _subtitle(results), parts)


def _subtitle(results: Results) -> str:
    vectors = results.word_vectors
    words = f"word vectors {vectors.file}" if vectors.file else "learned word embeddings"
    backbone = results.fingerprints.get("backbone")
    made_by = (
        f"; features of {backbone['name']} at {backbone['input_size']} pixels" if backbone else ""
    )
    return (
        f"Protocol {results.protocol}, {whose(results)}, {results.steps} steps, {words}{made_by}. "
        "Per-class top-1 in percent."
    )
