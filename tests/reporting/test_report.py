"""The report in a real browser: it loads, nothing complains, figures are there, text is text."""

import dataclasses
import functools
import html.parser
import os

import pytest

from clarel_tf.config import Config, settings
from clarel_tf.data.split import Split
from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import AlphaPoint
from clarel_tf.experiments.experiment import run_experiment
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.reporting.run_report import report_page
from clarel_tf.storage.files import read_json
from clarel_tf.storage.records import from_json
from tests.helpers.browser import CHROMIUM, asked, browse, needs_browser, widths_in_frames

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


@needs_browser
def test_the_page_loads_with_every_figure_and_no_complaint(run_dir):
    done = browse(run_dir / "report.html")
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    dom = done.stdout
    assert "<title>demo: zero-shot" in dom
    assert dom.count("<svg") == 6
    for heading in ("Result", "Test images", "Classes", "Retrieval", "New classes", "Training"):
        assert f">{heading}</h2>" in dom
    for heading in ("Balance of", "Seen against", "Captions per", "Reliability", "Every class"):
        assert f"<h3>{heading}" in dom
    assert "Classes most often confused" in dom and "Images nearest to captions" in dom
    # The captions that try to be code are on the page, as text; the one script is its own.
    assert "&lt;script&gt;" in dom and dom.count("<script") == 1


@needs_browser
def test_nothing_is_wider_than_the_screen(run_dir, tmp_path):
    text = (run_dir / "report.html").read_text(encoding="utf-8")
    widths = [1280, 768, 390]
    assert widths_in_frames(text, tmp_path, widths) == {width: width for width in widths}


@needs_browser
def test_a_script_that_got_into_the_page_would_not_run(run_dir, tmp_path):
    page = tmp_path / "page.html"
    text = (run_dir / "report.html").read_text(encoding="utf-8")
    page.write_text(text.replace("</h1>", f"{EVIL}<img src=x onerror=alert(1)></h1>"), "utf-8")
    done = browse(page)
    assert "<title>demo" in done.stdout and "evil" not in done.stderr.replace(EVIL, "")
    assert done.stderr.count("Content Security Policy") == 3  # script, picture, handler


@needs_browser
def test_the_table_of_classes_is_sorted_by_a_click(run_dir, tmp_path):
    classes = {one.name: one for one in records(run_dir)[1].classes}
    text = (run_dir / "report.html").read_text(encoding="utf-8")

    def order(clicks: str) -> list[str]:
        rows = "[...table.tBodies[0].rows].map(row => row.cells[0].textContent).join('|')"
        table = "document.querySelector('table.sortable')"
        click = "number => table.querySelectorAll('th button')[number].click()"
        said = asked(text, tmp_path, f"(table => ({clicks}.forEach({click}), {rows}))({table})")
        return said.split("|")

    worst_first = [classes[name].accuracy for name in order("[]")]
    assert worst_first == sorted(one.accuracy for one in classes.values())
    assert order("[0]") == sorted(classes)
    assert order("[0, 0]") == sorted(classes, reverse=True)
    by_images = [classes[name].training_images for name in order("[2]")]
    assert by_images == sorted(by_images)


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
    results, measures = records(run_dir)
    text = (run_dir / "report.html").read_text(encoding="utf-8")
    assert f"<b>{results.gzsl.h:.1f}</b>" in text
    assert f"{results.ausuc:.1f} %" in text
    for kind, right in (("✓ right", True), ("✗ wrong", False)):
        shown = text.count(f'">{kind}</span>')
        assert shown == sum(one.right == right for one in measures.examples) > 0
    table = text.split('<table class="sortable">')[1].split("</table>")[0]
    assert table.count("<tr>") == 1 + len(measures.classes) == 9


def test_settings_stand_in_the_page_with_what_they_mean(run_dir):
    text = (run_dir / "report.html").read_text(encoding="utf-8")
    changed, others = text.split("<h3>Settings</h3>")[1].split("<details>")
    row = "<code>embedding_size</code></td><td>16</td><td>1024</td>"
    assert row in changed and "width of the joint image-text space" in changed
    assert "<code>kappa</code></td><td>0.5</td>" in others and "kappa" not in changed
    every = {field.name.rstrip("_") for _, field in settings()}
    shown = {name for name in every if f"<code>{name}</code>" in text}
    assert every - shown == {"dataset", "dataset_config", "protocol", "seed"}
    assert read_json(run_dir / "results.json")["fingerprints"]["test_seen"]["images"] in text


def test_the_path_of_the_word_vectors_stays_private(run_dir):
    results, measures = records(run_dir)
    config = the_config(run_dir).override({"word_vectors": "/home/someone/vectors.txt"})
    page = report_page(results, measures, run_dir, config)
    assert "vectors.txt" in page and "someone" not in page


def records(run_dir):
    path = run_dir / "evaluation.json"
    return RunFolder(run_dir).read_results(), from_json(Measures, read_json(path), path)


def the_config(run_dir) -> Config:
    return Config.from_dict(read_json(run_dir / "config.json"))


def test_the_papers_figures_stand_beside_those_of_cub(run_dir):
    results, measures = records(run_dir)
    page = report_page(
        dataclasses.replace(results, dataset="cub"), measures, run_dir, the_config(run_dir)
    )
    assert "paper, alpha chosen" in page and ">55.8<" in page
    assert "ResNet-101" in page
    assert "paper, alpha" not in report_page(results, measures, run_dir, the_config(run_dir))


def test_the_page_says_if_validation_data_cannot_tell_alpha(run_dir):
    results, measures = records(run_dir)
    curve = [AlphaPoint(0.0, 100.0, 100.0, 100.0), AlphaPoint(1.0, 100.0, 100.0, 100.0)]
    sure = dataclasses.replace(results, alpha=0.0, alpha_curve=curve, alpha_interval=[0.0, 0.0])
    page = report_page(sure, measures, run_dir, the_config(run_dir))
    assert "every alpha from 0 to 1 answers all validation images right" in page
    assert "95 % interval" not in page and "interval 0 to 0" not in page


def test_the_same_run_gives_the_same_page(run_dir):
    results, measures = records(run_dir)
    page = functools.partial(report_page, results, measures, run_dir, the_config(run_dir))
    assert page() == page() == (run_dir / "report.html").read_text(encoding="utf-8")


def test_an_evaluation_of_an_older_version_still_makes_a_page(run_dir):
    path = run_dir / "evaluation.json"
    older = read_json(path)
    del older["classes"], older["caption_examples"]
    kept = {"true", "predicted", "percent", "image_id", "class_name", "right", "captions"}
    for name in ("examples", "confusions"):
        older[name] = [{key: one[key] for key in one.keys() & kept} for one in older[name]]
    measures = from_json(Measures, older, path)
    page = report_page(records(run_dir)[0], measures, run_dir, the_config(run_dir))
    assert "given to" in page and "Wrong answers" in page and "Every class" not in page


@pytest.mark.skipif("CI" not in os.environ, reason="only where CI installs the browser")
def test_ci_has_a_browser():
    assert CHROMIUM is not None
