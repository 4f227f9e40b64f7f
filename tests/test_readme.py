"""What the documents name is there. Their Python code: tests/test_examples.py."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "datasets/*/README.md")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("document", ["README.md", "docs/results.md"])
def test_a_short_document_stays_short(document):
    assert len((ROOT / document).read_text(encoding="utf-8").split()) <= 1500


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert target.startswith("http") or (path.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS)
def test_anchors_are_headings(document):
    path = ROOT / document
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8"))
    for target, anchor in links:
        text = (path.parent / target if target else path).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        assert anchor in {as_anchor(heading) for heading in headings}, f"{target}#{anchor}"


def as_anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_exist(document):
    """Paths of Python files in a document, from the top of the repository or its own folder."""
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/*<.])((?:[\w.]+/)*\w+\.py)\b", text))
    named = {name for name in named if "NAME" not in name}  # stands for a name
    homes = (ROOT, path.parent)
    missing = [name for name in named if not any((home / name).exists() for home in homes)]
    assert not missing
