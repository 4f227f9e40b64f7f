"""Style and script of a page; both are part of the page, and nothing is fetched."""

STYLE = """
:root { color-scheme: light dark; --page: #f4f5f7; --card: #fff; --ink: #20242a; --soft: #59626e;
  --line: #e1e4e9; --tint: #eef0f3; --right: #27774b; --wrong: #ad3c36; --unseen: #1c68aa;
  --seen: #a85c12; --on: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --card: #1d2126; --ink: #e4e7eb; --soft: #a0a9b4; --line: #333940;
    --tint: #2a2f36; --right: #6cc795; --wrong: #f08d85; --unseen: #7cb8ee; --seen: #e7a765;
    --on: #14171b; }
  figure svg { filter: invert(1) hue-rotate(180deg); } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 28px 20px 60px; }
h1, h2, h3, h4 { line-height: 1.25; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 6px; } h2 { font-size: 1.25rem; margin: 36px 0 12px; }
h3 { font-size: 1.02rem; margin: 0 0 6px; } h4 { font-size: .95rem; margin: 0; }
p { margin: 0 0 10px; } .soft { color: var(--soft); font-size: .88rem; }
main { overflow-wrap: anywhere; } a { color: var(--unseen); }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: .92rem; }
.grid { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px;
  min-width: 0; } .wide { grid-column: 1 / -1; }
.numbers { display: grid; gap: 12px; margin: 18px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 150px), 1fr)); }
.number { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 12px 16px; } .number b { display: block; font-size: 1.8rem; line-height: 1.2; }
.number small { color: var(--soft); display: block; line-height: 1.35; }
figure { margin: 0; } figure svg { width: 100%; height: auto; display: block; }
.card:not(.wide) figure svg { max-width: 560px; }
.scroll { overflow: auto; max-height: 34rem; } .scroll + .soft { margin: 10px 0 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right;
  overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; position: sticky; top: 0; background: var(--card);
  vertical-align: bottom; } td { white-space: nowrap; }
td.text, th.text { text-align: left; } td.text { white-space: normal; overflow-wrap: anywhere;
  min-width: 7.5em; } .sortable td.text { min-width: 13em; }
td.text:has(> .tag) { min-width: 0; }
th button { all: unset; cursor: pointer; } th button:hover { color: var(--ink); }
th button:focus-visible { outline: 2px solid var(--unseen); }
th[aria-sort=ascending] button::after { content: " \\25B2"; font-size: .7em; }
th[aria-sort=descending] button::after { content: " \\25BC"; font-size: .7em; }
code { white-space: nowrap; } pre { overflow-x: auto; margin: 0; }
details summary { cursor: pointer; margin: 12px 0 6px; }
dl { display: grid; grid-template-columns: minmax(7em, auto) 1fr; gap: 4px 16px; margin: 0;
  font-size: .9rem; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.tag { border-radius: 5px; padding: 0 6px; font-size: .76rem; font-weight: 600; white-space: nowrap;
  color: var(--soft); background: var(--tint); display: inline-block; }
.tag.right, .tag.wrong { color: var(--on); } .tag.right { background: var(--right); }
.tag.wrong { background: var(--wrong); } .tag.seen { color: var(--seen); }
.tag.unseen { color: var(--unseen); } .tags { display: flex; flex-wrap: wrap; gap: 4px; }
.gallery { display: grid; gap: 14px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr)); }
.pairs { grid-template-columns: repeat(auto-fill, minmax(min(100%, 500px), 1fr)); }
.classes { grid-template-columns: repeat(auto-fill, minmax(104px, 1fr)); }
.item { border: 1px solid var(--line); border-radius: 8px; padding: 12px; min-width: 0; }
.shown { display: flex; gap: 12px; } .shown > div { min-width: 0; flex: 1; display: flex;
  flex-direction: column; gap: 5px; }
.shown > img { flex: 0 0 128px; width: 128px; height: 128px; }
img { object-fit: contain; background: var(--tint); border-radius: 6px; display: block;
  width: 100%; aspect-ratio: 1; }
.answers { list-style: none; margin: 8px 0 0; padding: 0; font-size: .86rem; }
.answers li { margin-top: 5px; } .answers .line { display: flex; gap: 8px; }
.answers .line span:first-child { flex: 1; min-width: 0; }
.bar { height: 5px; border-radius: 3px; background: var(--tint); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--soft); }
.true .bar i { background: var(--right); } .true .line { font-weight: 600; }
.captions { list-style: none; margin: 10px 0 0; padding: 0; font-size: .88rem; }
.captions li { padding: 5px 0; border-top: 1px solid var(--line); }
.given { display: flex; gap: 8px; align-items: center; font-size: .8rem; line-height: 1.3;
  color: var(--soft); } .given img { flex: 0 0 52px; width: 52px; height: 52px; }
.given span { min-width: 0; }
.pair { display: grid; grid-template-columns: 1fr auto 1fr; gap: 10px; align-items: start; }
.pair > * { min-width: 0; } .arrow { color: var(--soft); font-size: 1.3rem; line-height: 1; }
.pictures { display: grid; grid-template-columns: repeat(3, 1fr); gap: 5px; margin: 8px 0; }
.found { display: grid; grid-template-columns: repeat(5, minmax(0, 1fr)); gap: 8px; margin-top: 8px;
  font-size: .78rem; line-height: 1.3; } .found figcaption { overflow-wrap: anywhere; }
.found .tag { font-size: .68rem; padding: 0 4px; } .found img { margin-bottom: 3px; }
.own img { outline: 3px solid var(--right); }
@media (max-width: 560px) { .gallery:not(.classes) { grid-template-columns: none;
    grid-auto-flow: column; grid-auto-columns: 88%; overflow-x: auto; padding-bottom: 8px; }
  .wide figure:has(svg) { overflow-x: auto; } .wide figure svg { min-width: 640px; }
  main { padding: 18px 12px 40px; } .card { padding: 14px; }
  .shown > img { flex-basis: 100px; width: 100px; height: 100px; }
  .found { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  .numbers { grid-template-columns: 1fr 1fr; }
  .pictures { grid-template-columns: 1fr 1fr; } .pictures img:first-child { grid-column: 1 / -1; }
  th, td { padding: 5px 7px; } }
"""

# Sorts a table when the head of a column is pressed. Without scripts the table stays as it is.
SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.firstChild.onclick = () => {
    const text = row => row.cells[column].textContent;
    const number = row => parseFloat(text(row)) || 0;
    const rows = [...body.rows].sort(head.className === "text"
      ? (a, b) => text(a).localeCompare(text(b), undefined, {numeric: true})
      : (a, b) => number(a) - number(b));
    const down = head.getAttribute("aria-sort") === "ascending";
    body.append(...(down ? rows.reverse() : rows));
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  });
}
"""
