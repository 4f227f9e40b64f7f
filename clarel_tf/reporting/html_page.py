"""The parts of a self-contained page: sections, cards, tables and figures."""

import base64
import hashlib
import html
from collections.abc import Collection, Sequence
from typing import Any

from matplotlib.figure import Figure

from clarel_tf.reporting import figures
from clarel_tf.reporting.page_style import SCRIPT, STYLE
from clarel_tf.reporting.results_table import number

_LONGEST_NAME, _LONGEST_TEXT = 80, 300


class Markup(str):
    """Text that is HTML already; every other text is escaped."""


def page(title: str, subtitle: str, parts: Sequence[str]) -> str:
    """The whole page as text; `parts` are HTML, the other two plain text.

    The page allows itself nothing but its own style and script, and pictures that it contains.
    """
    script = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{script}'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><main><h1>{html.escape(title)}</h1>"
        f'<p class="soft">{html.escape(subtitle)}</p>{"".join(parts)}</main>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def section(title: str, cards: Sequence[str]) -> str:
    """Cards under a heading, side by side as far as there is room; nothing without cards."""
    if not cards:
        return ""
    head = f'<h2 id="{_anchor(title)}">{html.escape(title)}</h2>'
    return f'<section>{head}<div class="grid">{"".join(cards)}</div></section>'


def navigation(titles: Sequence[str]) -> str:
    """Links to the sections with these titles."""
    links = (f'<a href="#{_anchor(title)}">{html.escape(title)}</a>' for title in titles)
    return f"<nav>{''.join(links)}</nav>"


def card(title: str, body: str, wide: bool = False) -> str:
    """A part of a section under a title; `body` is HTML."""
    kind = "card wide" if wide else "card"
    return f'<div class="{kind}"><h3>{html.escape(title)}</h3>{body}</div>'


def figure_card(title: str, figure: Figure, note: str, wide: bool = False) -> str:
    """A figure, drawn into the page, under a title and a note."""
    label = html.escape(f"Figure: {title}")
    drawn = f'<figure role="img" aria-label="{label}">{figures.to_svg(figure)}</figure>'
    return card(title, soft(note) + drawn, wide)


def soft(text: str) -> str:
    """A paragraph of explanation."""
    return f'<p class="soft">{html.escape(text)}</p>'


def tag(text: str, kind: str = "") -> str:
    """A word or two on a coloured ground."""
    return f'<span class="tag {kind}">{html.escape(text)}</span>'


def name(text: str) -> Markup:
    """The name of a class or an image, at most 80 characters of it, where lines may break."""
    return Markup(
        f"<bdi>{html.escape(shortened(text, _LONGEST_NAME)).replace('_', '_<wbr>')}</bdi>"
    )


def sentence(text: str) -> Markup:
    """A caption, at most 300 characters of it."""
    return Markup(f"<bdi>{html.escape(shortened(text, _LONGEST_TEXT))}</bdi>")


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def table(
    header: list[str],
    rows: list[list[Any]],
    text_columns: Collection[int] = (0,),
    sorted_by: int | None = None,
) -> str:
    """A table; numbers get one decimal (a dash for NaN), and what is not `Markup` is escaped.

    Args:
      text_columns: those that are aligned and sorted as text.
      sorted_by: the column that the rows are sorted by; then the reader may sort them by another.
    """

    sortable = sorted_by is not None

    def cell(value: Any, column: int, tag: str = "td") -> str:
        text = number(value) if isinstance(value, float) else value
        text = text if isinstance(text, Markup) else html.escape(str(text))
        kind = ' class="text"' if column in text_columns else ""
        if sortable and tag == "th":
            text = f'<button type="button">{text}</button>'
            kind += ' aria-sort="ascending"' if column == sorted_by else ""
        return f"<{tag}{kind}>{text}</{tag}>"

    head = "".join(cell(title, column, "th") for column, title in enumerate(header))
    body = "".join(
        "<tr>" + "".join(cell(value, column) for column, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    kind = ' class="sortable"' if sortable else ""
    whole = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    # The keyboard must reach what scrolls.
    return f'<div class="scroll" tabindex="0">{whole}</div>'


def _anchor(title: str) -> str:
    return "-".join(title.lower().split())
