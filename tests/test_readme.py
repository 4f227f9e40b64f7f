"""The Python code of the README runs as it stands, and what the documents name is there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "datasets/*/README.md")
    for path in ROOT.glob(pattern)
)


def test_python_blocks_run(tmp_path, demo_data_dir, demo_run):
    """After the first command, of which a run of the demo is left in `runs/demo`."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(demo_run[0] / "runs" / "demo")
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path,
        # This checkout, whatever else is installed.
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(it is 0") == 5
    assert "retracing" not in done.stderr
    assert (tmp_path / "runs" / "short" / "report.html").exists()
    # The comment in the example promises figures well above chance.
    zsl, h = map(float, re.search(r"ZSL ([\d.]+), H ([\d.]+)", done.stdout).groups())
    assert zsl > 25
    assert h > 20


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
