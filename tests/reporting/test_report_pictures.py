"""Pictures in reports: the right ones, escaped, never too many, and none if there are none."""

import base64
import dataclasses
import io
import re

import numpy as np
import pytest
from PIL import Image

from clarel_tf.config import Config
from clarel_tf.data.loading import class_names, get_builder, load_splits
from clarel_tf.data.pictures import StoredPictures
from clarel_tf.evaluation.example_records import ClassMeasures, ExampleCaption, FoundImage
from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import FinalModel
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.reporting.final_report import OfferedClass, final_page
from clarel_tf.reporting.page_pictures import PagePictures, read_pictures, wanted_images
from clarel_tf.reporting.run_report import report_page
from clarel_tf.storage.files import read_json
from clarel_tf.storage.records import from_json
from tests.helpers.browser import browse, needs_browser, widths_in_frames
from tests.helpers.pictures import encoded, picture

IMG = re.compile(r'<img alt="([^"]*)" src="data:image/jpeg;base64,([^"]*)">')
EVIL = "\"><img src=x onerror=\"document.title='evil'\"><script>document.title='evil'</script>"
_LONGEST_PAGE = 4_000_000


def read(run_dir) -> tuple:
    path = run_dir / "evaluation.json"
    return (
        RunFolder(run_dir).read_results(),
        from_json(Measures, read_json(path), path),
        run_dir,
        Config.from_dict(read_json(run_dir / "config.json")),
    )


def test_the_report_of_the_demo_shows_its_birds(demo_run, demo_data_dir):
    run_dir = demo_run[0] / "runs" / "demo"
    page, measures = (run_dir / "report.html").read_text(encoding="utf-8"), read(run_dir)[1]
    builder = get_builder("demo", "small", str(demo_data_dir))
    names, splits = class_names(builder), load_splits(builder)
    stored, label = {}, {}
    for name in ("test_unseen", "test_seen", "trainval"):
        stored |= splits[name].pictures.read(splits[name].image_ids)
        label |= zip(splits[name].image_ids.tolist(), splits[name].labels.tolist(), strict=True)
    shown = [(alt, base64.b64decode(data)) for alt, data in IMG.findall(page)]
    assert len(shown) == page.count("<img") > 60 and len(page) < _LONGEST_PAGE
    for one in measures.examples:
        assert (f"{one.image_id}: {one.class_name}", stored[one.image_id]) in shown
    for pair in measures.confusions:
        assert pair.images and pair.predicted_images
        for image in pair.images:
            assert names[label[image]] == pair.true
            assert (f"{pair.true}, given to {pair.predicted}", stored[image]) in shown
        for image in pair.predicted_images:
            assert names[label[image]] == pair.predicted
            assert (pair.predicted, stored[image]) in shown
    for one in measures.caption_examples:
        for image in one.images:
            assert names[label[image.image_id]] == image.class_name
            assert (f"{image.image_id}: {image.class_name}", stored[image.image_id]) in shown
    for _, data in shown:
        assert max(Image.open(io.BytesIO(data)).size) <= 160


def test_without_pictures_the_page_has_names(finished_run):
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    assert "<img" not in page and "pictures are left out" not in page
    assert '<th class="text">true class</th>' in page and "<h3>Wrong answers" in page


def long_names(measures: Measures, classes: int) -> Measures:
    """With so many classes, and names and captions that are far too long and full of markup."""
    name, text = 'A & B "_<i>_' * 200, "<b>'red' & \"blue\"</b> 🐦" * 300
    example, search, pair = (
        measures.examples[0],
        measures.caption_examples[0],
        measures.confusions[0],
    )
    captions = [ExampleCaption(text, name, False)] * 3
    images = [FoundImage(f"image {number}{name}", name, False) for number in range(5)]
    ids = [f"image {number}{name}" for number in range(3)]
    return dataclasses.replace(
        measures,
        examples=[
            dataclasses.replace(
                example, image_id=ids[0], class_name=name, captions=captions, predicted_image=ids[1]
            )
        ]
        * 12,
        caption_examples=[dataclasses.replace(search, text=text, class_name=name, images=images)]
        * 6,
        confusions=[
            dataclasses.replace(pair, true=name, predicted=name, images=ids, predicted_images=ids)
        ]
        * 12,
        classes=[
            ClassMeasures(f"{n}{name}", n % 2 == 0, n, n, 9, 100.0 * n / classes, None, name, 1.0)
            for n in range(classes)
        ],
    )


@pytest.mark.parametrize("classes", [1000, 20_000])
def test_the_page_is_bounded(finished_run, classes):
    results, measures, run_dir, config = read(finished_run)
    measures = long_names(measures, classes)
    # The largest JPEG files that a dataset keeps are of noise.
    noise = np.random.default_rng(0).integers(0, 256, (160, 160, 3)).astype(np.uint8)
    large = encoded(Image.fromarray(noise), "JPEG", quality=85)
    pictures = dict.fromkeys(wanted_images(measures), large)
    page = report_page(results, measures, run_dir, config, pictures)
    assert len(page.encode()) < _LONGEST_PAGE
    shown, wanted = page.count("<img alt"), 12 * 2 + 6 * 5 + 12 * 6
    assert shown == 2_000_000 // (-(-len(large) // 3) * 4)
    assert f"{wanted - shown} pictures are left out" in page
    rows = page.split('<table class="sortable">')[1].split("</table>")[0].count("<tr>") - 1
    assert rows == 1000
    assert ("the 1,000 classes of 20,000 with the lowest accuracy" in page) == (classes > 1000)


def test_the_room_for_pictures_by_hand():
    jpeg = encoded(picture(8, 8), "JPEG")
    size = len(base64.b64encode(jpeg))
    pictures = PagePictures({"a": jpeg, "b": jpeg, "text": b"no picture"}, most_bytes=2 * size + 3)
    assert [bool(pictures.show(name, "")) for name in ("a", "b", "a", "text", "none")] == [
        *(True, True, False, False, False)
    ]
    assert pictures.left_out == 1
    assert not PagePictures({"text": b"no picture"})


@needs_browser
def test_hostile_names_and_long_ones_stay_text_in_the_page(finished_run, tmp_path):
    results, measures, run_dir, config = read(finished_run)
    example, pair = measures.examples[0], measures.confusions[0]
    name = f"robin{EVIL}" + "long" * 30
    example = dataclasses.replace(example, image_id=f"i/{EVIL}", class_name=name, predicted=name)
    pair = dataclasses.replace(pair, true=name, predicted=name, images=[f"i/{EVIL}"])
    found = [FoundImage(f"i/{EVIL}", name, True)]
    search = dataclasses.replace(
        measures.caption_examples[0], text=EVIL, class_name=name, images=found
    )
    measures = dataclasses.replace(
        measures, examples=[example], confusions=[pair], caption_examples=[search]
    )
    pictures = {f"i/{EVIL}": encoded(picture(), "JPEG")}
    page = report_page(results, measures, run_dir, config, pictures)
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    done = browse(tmp_path / "report.html")
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "<title>demo: zero-shot" in done.stdout
    assert done.stdout.count("<script") == 1 and done.stdout.count("<img") == 3
    assert widths_in_frames(page, tmp_path, [390]) == {390: 390}


def test_a_dataset_that_is_gone_does_not_cost_the_report(splits, tmp_path, capsys):
    gone = StoredPictures(get_builder("demo", "small", str(tmp_path)), "test_seen")
    split = dataclasses.replace(splits["test_seen"], pictures=gone)
    assert read_pictures([split], split.image_ids) == {}
    assert "The report has no pictures" in capsys.readouterr().err
    assert read_pictures([splits["test_seen"]], split.image_ids) == {}  # it never had any
    assert capsys.readouterr().err == ""


def test_the_final_page_shows_an_image_of_each_class(finished_run):
    results, _, _, config = read(finished_run)
    classes = [
        OfferedClass(f"kind {n} {EVIL}", n, 10 * n, f"image_{n}" if n else None) for n in range(4)
    ]
    jpeg = encoded(picture(), "JPEG")
    pictures = {"image_1": jpeg, "image_3": jpeg}  # one of them has no picture
    values = {**dataclasses.asdict(results), "images": 9, "classes": 4}
    final = from_json(FinalModel, values, "results")
    page = final_page(final, results, classes, config, [], pictures)
    assert [alt.split()[1] for alt, _ in IMG.findall(page)] == ["1", "3"]
    assert "One image each of 2 of the 4 classes." in page
    assert "<script>document.title" not in page and "<h3>Every class" in page
    many = [OfferedClass(f"{n} {'long_' * 99}", 1, 1, str(n)) for n in range(3000)]
    page = final_page(final, results, many, config, [], {str(n): jpeg for n in range(3000)})
    assert page.count("<img") == 120 and "the first 1,000 of 3,000 classes" in page
    assert len(page) < _LONGEST_PAGE
