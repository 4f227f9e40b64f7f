"""The parts of a self-contained page: cards, tables and figures."""

import html
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from clarel_tf.reporting import figures
from clarel_tf.reporting.results_table import number

_STYLE = """
:root { color-scheme: light; --ink: #22252b; --soft: #5c6470; --line: #e3e6ea; --card: #ffffff; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f6f8; color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 1.6rem; margin: 0 0 4px; } h2 { font-size: 1.1rem; margin: 0 0 8px; }
p { margin: 0 0 10px; } .soft { color: var(--soft); font-size: .92rem; }
.grid { display: grid; gap: 18px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px;
  min-width: 0; } .wide { grid-column: 1 / -1; }
.numbers { display: flex; flex-wrap: wrap; gap: 14px; margin: 18px 0; }
.number { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 12px 18px; flex: 0 1 130px; min-width: 74px; }
.number b { display: block; font-size: 1.7rem; }
svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
td.text, th.text { text-align: left; overflow-wrap: anywhere; }
.scroll + .soft { margin-top: 10px; }
.example { border-top: 1px solid var(--line); padding: 10px 0; overflow-wrap: anywhere; }
.tag { border-radius: 6px; padding: 1px 7px; font-size: .8rem; color: #fff; }
.right { background: #2f8f5b; } .wrong { background: #b4483d; }
.example ul { margin: 4px 0 0; padding-left: 20px; } .own { font-weight: 600; }
"""


def page(title: str, subtitle: str, parts: Sequence[str]) -> str:
    """The whole page as text; `parts` are HTML, the other two plain text."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><main><h1>{html.escape(title)}</h1>"
        f'<p class="soft">{html.escape(subtitle)}</p>{"".join(parts)}</main></body></html>\n'
    )


def grid(cards: Sequence[str]) -> str:
    """Cards side by side, as many as there is room for."""
    return f'<div class="grid">{"".join(cards)}</div>'


def card(title: str, body: str, wide: bool = False) -> str:
    """A part of the page under a title; `body` is HTML."""
    kind = "card wide" if wide else "card"
    return f'<section class="{kind}"><h2>{html.escape(title)}</h2>{body}</section>'


def figure_card(title: str, figure: Figure, note: str, wide: bool = False) -> str:
    """A figure, drawn into the page, under a title and a note."""
    return card(title, f'<p class="soft">{html.escape(note)}</p>{figures.to_svg(figure)}', wide)


def table(header: list[str], rows: list[list[Any]], text_columns: int = 1) -> str:
    """A table; numbers get one decimal (a dash for NaN), everything else is escaped."""

    def cell(value: Any, column: int, tag: str = "td") -> str:
        text = number(value) if isinstance(value, float) else html.escape(str(value))
        kind = ' class="text"' if column < text_columns else ""
        return f"<{tag}{kind}>{text}</{tag}>"

    head = "".join(cell(name, column, "th") for column, name in enumerate(header))
    body = "".join(
        "<tr>" + "".join(cell(value, column) for column, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    rows_and_head = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{rows_and_head}</div>'
