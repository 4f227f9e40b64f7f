"""Cards with the settings of a run, and with what its figures rest on."""

import dataclasses
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clarel_tf.config import Config, settings
from clarel_tf.evaluation.records import Results
from clarel_tf.reporting.html_page import Markup, card, soft, table
from clarel_tf.reporting.results_table import whose

_DEFAULTS = Config()


def origin_card(results: Results) -> str:
    """Dataset, network, words and fingerprints."""
    vectors, prints = results.word_vectors, results.fingerprints
    words = f"word vectors {vectors.file}" if vectors.file else "learned word embeddings"
    rows = {
        "dataset": "/".join(filter(None, [results.dataset, results.dataset_config])),
        "protocol": results.protocol,
        "model": f"{whose(results)}, {results.steps:,} steps",
        "words": f"{words}; {vectors.words:,} words, {vectors.missing:,} of them without a vector"
        if vectors.file
        else f"{words}; {vectors.words:,} words",
    }
    if backbone := prints.get("backbone"):
        views = "".join(f", {view}" for view in ("cropped", "mirrored") if backbone.get(view))
        rows["features"] = (
            f"{backbone['name']} at {backbone['input_size']} pixels{views}; "
            f"{backbone.get('preprocessing')}; {backbone.get('resizing')}; weights "
            f"{str(backbone.get('weights_sha256'))[:16]}"
        )
    hashes = {
        split: (
            f"images {found['images']}, features {found['features']}, captions {found['captions']}"
        )
        for split, found in prints.items()
        if isinstance(found, dict) and {"images", "features", "captions"} <= found.keys()
    }
    hidden = f"<details><summary>Hashes of the splits</summary>{_listed(hashes)}</details>"
    return card("What the figures rest on", _listed(rows) + hidden, wide=True)


def _listed(rows: Mapping[str, str]) -> str:
    items = "".join(
        f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>" for key, value in rows.items()
    )
    return f"<dl>{items}</dl>"


def settings_card(config: Config) -> str:
    """The settings that differ from the defaults, and on demand all others."""
    changed, others = [], []
    for section, field in settings():
        if field.name in ("dataset", "dataset_config", "protocol", "seed"):
            continue  # beside it, in `origin_card`
        value, default = (
            getattr(getattr(one, section) if section else one, field.name)
            for one in (config, _DEFAULTS)
        )
        row = [Markup(f"<code>{field.name.rstrip('_')}</code>"), _told(field, value)]
        meaning = field.metadata["meaning"]
        if value == default:
            others.append([*row, meaning])
        else:
            changed.append([*row, _told(field, default), meaning])
    note = "These differ from the defaults, which are the values of the paper."
    body = soft(note) + table(
        ["setting", "value", "default", "meaning"], changed, text_columns=(0, 3)
    )
    if not changed:
        body = soft("All settings have their defaults, which are the values of the paper.")
    rest = table(["setting", "value", "meaning"], others, text_columns=(0, 2))
    body += (
        f"<details><summary>{len(others)} settings have their defaults</summary>{rest}</details>"
    )
    return card("Settings", body, wide=True)


def _told(field: dataclasses.Field, value: Any) -> str:
    """A value as its flag takes it."""
    if field.name == "word_vectors":
        return Path(value).name if value else "none"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
