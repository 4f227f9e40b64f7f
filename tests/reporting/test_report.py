"""The report in a real browser: it loads, nothing complains, figures are there, text is text."""

import dataclasses
import functools
import html.parser
import os
import re
import shutil
import subprocess

import pytest

from clarel_tf.data.split import Split
from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import AlphaPoint
from clarel_tf.experiments.experiment import run_experiment
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.reporting.run_report import report_page
from clarel_tf.storage.files import read_json
from clarel_tf.storage.records import from_json

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")
EVIL = "<script>document.title='evil';console.error('evil')</script>"


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory, splits, small_config):
    """A run whose captions and class names try to be code."""
    folder = tmp_path_factory.mktemp("report") / "run"
    evil = {
        name: Split(
            split.name,
            split.image_ids,
            split.image_features,
            split.labels,
            [[*own[:-1], f"a bird {EVIL} & <b>bold</b>".encode()] for own in split.captions],
        )
        for name, split in splits.items()
    }
    names = [f"class {label} {EVIL}" for label in range(8)]
    run_experiment(small_config, evil, folder, names)
    return folder


def browse(page, *flags) -> subprocess.CompletedProcess:
    base = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars"
    quiet = "--disable-background-networking --disable-component-update --disable-sync"
    command = [
        CHROMIUM,
        *base.split(),
        *quiet.split(),
        f"--user-data-dir={page.parent / 'chromium'}",
    ]
    command += ["--enable-logging=stderr", "--v=0", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@needs_browser
def test_the_page_loads_with_every_figure_and_no_complaint(run_dir):
    done = browse(run_dir / "report.html", "--dump-dom")
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    dom = done.stdout
    assert "<title>demo: zero-shot" in dom
    assert dom.count("<svg") == 5
    for heading in (
        "Result",
        "Balance of",
        "Seen against",
        "Captions per",
        "Training",
        "Retrieval",
    ):
        assert f"<h2>{heading}" in dom
    assert "Classes most often confused" in dom and "Captions nearest" in dom
    # The captions that try to be code are on the page, as text.
    assert "&lt;script&gt;" in dom and "<script" not in dom


@needs_browser
@pytest.mark.parametrize("width", [1280, 500])
def test_nothing_is_wider_than_the_screen(run_dir, tmp_path, width):
    # The page itself runs no script; a copy of it says how wide it has become.
    page = tmp_path / "measured.html"
    text = (run_dir / "report.html").read_text(encoding="utf-8")
    probe = "<script>document.title = 'width ' + document.documentElement.scrollWidth</script>"
    page.write_text(text.replace("</body>", f"{probe}</body>"), encoding="utf-8")
    done = browse(page, "--dump-dom", f"--window-size={width},900")
    measured = int(re.search(r"<title>width (\d+)</title>", done.stdout)[1])
    assert measured <= width


class _References(html.parser.HTMLParser):
    """Collects what a page would fetch."""

    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "data", "action"):
                self.found.append(value)


def test_the_page_needs_no_network(run_dir):
    text = (run_dir / "report.html").read_text(encoding="utf-8")
    parser = _References()
    parser.feed(text)
    assert all(value.startswith(("#", "data:")) for value in parser.found)
    assert "@import" not in text and "url(http" not in text


def test_figures_and_numbers_stand_in_the_page(run_dir):
    results = read_json(run_dir / "results.json")
    text = (run_dir / "report.html").read_text(encoding="utf-8")
    assert f"<b>{results['gzsl']['h']:.1f}</b>" in text
    assert f"{results['ausuc']:.1f} %" in text
    shown = [text.count(f'class="tag {kind}"') for kind in ("right", "wrong")]
    right = sum(example["right"] for example in read_json(run_dir / "evaluation.json")["examples"])
    # test_unseen has eight images; at most six of a kind are shown.
    assert shown[0] == right and 6 <= sum(shown) <= 8 and max(shown) <= 6


def records(run_dir):
    path = run_dir / "evaluation.json"
    return RunFolder(run_dir).read_results(), from_json(Measures, read_json(path), path)


def test_the_papers_figures_stand_beside_those_of_cub(run_dir):
    results, measures = records(run_dir)
    page = report_page(dataclasses.replace(results, dataset="cub"), measures, run_dir)
    assert "paper, alpha chosen" in page and ">55.8<" in page
    assert "ResNet-101" in page
    assert "paper, alpha" not in report_page(results, measures, run_dir)


def test_the_page_says_if_validation_data_cannot_tell_alpha(run_dir):
    results, measures = records(run_dir)
    curve = [AlphaPoint(0.0, 100.0, 100.0, 100.0), AlphaPoint(1.0, 100.0, 100.0, 100.0)]
    sure = dataclasses.replace(results, alpha=0.0, alpha_curve=curve, alpha_interval=[0.0, 0.0])
    page = report_page(sure, measures, run_dir)
    assert "every alpha from 0 to 1 answers all validation images right" in page
    assert "95 % interval" not in page and "interval 0 to 0" not in page


def test_the_same_run_gives_the_same_page(run_dir):
    results, measures = records(run_dir)
    page = functools.partial(report_page, results, measures, run_dir)
    assert page() == page() == (run_dir / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif("CI" not in os.environ, reason="only where CI installs the browser")
def test_ci_has_a_browser():
    assert CHROMIUM is not None
