"""Reading the tables, features and folders of a user's own data, and what is wrong with them."""

import dataclasses
import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarel_tf.data.pairs.folder import read_folder
from clarel_tf.data.pairs.table import Row, read_rows
from clarel_tf.errors import ClarelError

HEADER = "image_id,class,captions\n"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def refused(path: Path, message: str) -> None:
    """`message` is what follows the path, as plain text."""
    with pytest.raises(ClarelError, match=f"^{re.escape(str(path) + message)}"):
        list(read_rows(path))


def test_csv_with_all_it_allows(tmp_path):
    text = (
        "\ufeffclass, image_id ,split,captions\r\n"
        'wren,a,train,"small, brown | sings ""loud"""\r\n'
        "\r\n"
        'crow,b,test_seen,"black\r\nand large"\r\n'
        "Zaunkönig, c ,val_unseen,klein|braun |  rund\r\n"
    )
    assert list(read_rows(write(tmp_path / "table.csv", text))) == [
        Row(2, "a", "wren", ["small, brown", 'sings "loud"'], "train"),
        Row(4, "b", "crow", ["black\r\nand large"], "test_seen"),
        Row(6, "c", "Zaunkönig", ["klein", "braun", "rund"], "val_unseen"),
    ]


def test_json_lines_with_all_they_allow(tmp_path):
    text = (
        '\ufeff{"image_id": "a", "class": "wren", "captions": ["one | bar", " two "]}\n\n'
        '{"captions": ["K\\u00f6nig"], "class": "crow", "image_id": "b", "split": null}'
    )
    assert list(read_rows(write(tmp_path / "table.jsonl", text))) == [
        Row(1, "a", "wren", ["one | bar", "two"], None),
        Row(3, "b", "crow", ["König"], None),
    ]


@given(
    st.lists(
        st.tuples(
            st.text("abc ü,\"'", min_size=1).filter(str.strip),
            st.lists(st.text('xyz é,"\n', min_size=1).filter(str.strip), min_size=1, max_size=40),
        ),
        min_size=1,
    )
)
def test_both_forms_read_alike(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("tables")
    lines = [
        json.dumps({"image_id": name, "class": name, "captions": captions})
        for name, captions in rows
    ]
    as_json = write(folder / "table.jsonl", "\n".join(lines))
    quoted = [
        [field.replace('"', '""') for field in (name, " | ".join(captions))]
        for name, captions in rows
    ]
    as_csv = write(
        folder / "table.csv",
        HEADER + "".join(f'"{name}","{name}","{captions}"\n' for name, captions in quoted),
    )

    def values(path):
        return [(row.image_id, row.class_name, row.captions) for row in read_rows(path)]

    assert values(as_csv) == values(as_json)
    assert values(as_csv) == [
        (name.strip(), name.strip(), [caption.strip() for caption in captions])
        for name, captions in rows
    ]


BAD_CSV = {
    "": " has no rows; add a row",
    HEADER: " has no rows; add a row",
    "image_id;class;captions\n": (
        ", line 1: unknown column 'image_id;class;captions'; the columns are image_id, class, "
        "captions, split, image; separate them with commas"
    ),
    "image_id,class,captions,colour\n": ", line 1: unknown column 'colour'; the columns are ",
    "image_id,captions,split\n": ", line 1: column 'class' is missing",
    "image_id,class,captions,class\n": ", line 1: column 'class' occurs twice",
    HEADER + "a,wren,x\nb,wren,x,y\n": ", line 3: 4 fields, but the header has 3; put a field",
    HEADER + "a,wren\n": ", line 2: 2 fields, but the header has 3",
    HEADER + 'a,wren,"x\nb,wren,y\n': ", line 2: not valid CSV (unexpected end of data)",
    HEADER + "a,,x\n": ", line 2: 'class' is empty",
    HEADER + " ,wren, \n": ", line 2: neither 'image_id' nor 'captions'; a row is an image, or",
    HEADER + "a,wren,| x\n": ", line 2: caption 1 is blank",
    HEADER.replace("\n", ",split\n") + ",wren,x,train\n": ", line 2: a row without 'image_id' desc",
    HEADER + "a,wren,x |  | y\n": ", line 2: caption 2 is blank",
    HEADER + 'a,"wr\nen",x\n': ", line 2: 'class' holds a line break",
    HEADER + "a,wr\u2028en,x\n": ", line 2: 'class' holds a line break",
    HEADER + "a,wr\u0085en,x\n": ", line 2: 'class' holds a line break",
    HEADER.replace("\n", ",split\n") + "a,wren,x,dev\n": ", line 2: unknown split 'dev'; use one",
    HEADER.replace("\n", ",split\n") + "a,wren,x,trainval\n": ", line 2: unknown split 'trainval'",
}


@pytest.mark.parametrize("text", BAD_CSV)
def test_bad_csv(tmp_path, text):
    refused(write(tmp_path / "table.csv", text), BAD_CSV[text])


GOOD_LINE = '{"image_id": "a", "class": "wren", "captions": ["x"]}\n'
BAD_JSON = {
    "": " has no rows",
    GOOD_LINE + '{"image_id": "b", "cla': ", line 2: not valid JSON (",
    "[" * 100_000: ", line 1: not valid JSON (",
    GOOD_LINE + "[1]\n": ", line 2: must hold an object {...}, not '[1]'",
    "7\n": ", line 1: must hold an object",
    '{"image_id": "a", "class": "w", "captions": ["x"], "id": 1}': ", line 1: unknown column 'id'",
    '{"image_id": "a", "captions": ["x"]}': ", line 1: column 'class' is missing",
    GOOD_LINE.replace(
        '"class"', '"class": "crow", "class"'
    ): ", line 1: column 'class' occurs twice",
    GOOD_LINE.replace('"a"', "17"): ", line 1: 'image_id' must be text, not int",
    GOOD_LINE.replace('["x"]', '"x"'): ", line 1: 'captions' must be a list of strings",
    GOOD_LINE.replace('["x"]', '["x", 3]'): ", line 1: 'captions' must be text, not int",
    GOOD_LINE.replace('["x"]', '["x", " "]'): ", line 1: caption 2 is blank",
    GOOD_LINE.replace('["x"]', '["\\ud800"]'): ", line 1: 'captions' holds a character that is not",
    GOOD_LINE.replace("}", ', "split": 3}'): ", line 1: 'split' must be text",
}


@pytest.mark.parametrize("text", BAD_JSON, ids=lambda text: text[:40])
def test_bad_json(tmp_path, text):
    refused(write(tmp_path / "table.jsonl", text), BAD_JSON[text])


def test_long_fields(tmp_path):
    path = write(tmp_path / "table.csv", HEADER + f"a,wren,{'x' * 1_000_000} | y\n")
    (row,) = read_rows(path)
    assert [len(caption) for caption in row.captions] == [1_000_000, 1]
    write(path, HEADER + 'a,wren,"x\n' + "b,wren,y\n" * ((1 << 24) // 9 + 1))
    refused(
        path,
        ", line 2: a field of the row that begins here has more than 16777216 characters; is a "
        "closing quote missing?",
    )


def test_bytes_that_are_not_utf8(tmp_path):
    latin = HEADER.encode() + "a,wren,x\nb,wren,schön\n".encode("latin-1")
    refused(
        write(tmp_path / "table.csv", latin),
        ", line 3: byte 11 of the line is not UTF-8; save the file in UTF-8",
    )
    refused(write(tmp_path / "table.jsonl", GOOD_LINE.encode("utf-16")), ", line 1: byte 1 of")


def test_rows_of_classes_and_images_without_captions(tmp_path):
    text = ",wren,a bird | a small one\na,wren,\nb,wren, | \n"
    with pytest.raises(ClarelError, match="line 4: caption 1 is blank"):
        list(read_rows(write(tmp_path / "table.csv", HEADER + text)))
    described = Row(2, "", "wren", ["a bird", "a small one"], None)
    image = Row(3, "a", "wren", [], None)
    path = write(tmp_path / "table.csv", HEADER + text.replace("b,wren, | \n", ""))
    assert list(read_rows(path)) == [described, image]
    lines = [
        {"image_id": "", "class": "wren", "captions": ["a bird", "a small one"], "split": None},
        {"image_id": "a", "class": "wren", "captions": []},
    ]
    path = write(tmp_path / "table.jsonl", "\n".join(map(json.dumps, lines)))
    assert [dataclasses.replace(row, line=row.line + 1) for row in read_rows(path)] == [
        described,
        image,
    ]


def good_folder(folder: Path) -> Path:
    """Four classes of three images, with features of width 2."""
    ids = [f"{name}{number}" for name in "abcd" for number in range(3)]
    write(folder / "table.csv", HEADER + "".join(f"{i},class {i[0]},x | y\n" for i in ids))
    save_features(folder / "features.npz", ids)
    return folder


def save_features(path: Path, ids: list[str], width: int = 2) -> None:
    np.savez(path, image_ids=np.array(ids), features=np.ones((len(ids), width)))


def folder_refused(folder: Path, message: str) -> None:
    with pytest.raises(ClarelError, match=f"^{re.escape(message)}"):
        read_folder(folder)


def test_a_folder_with_parts(tmp_path):
    whole = read_folder(good_folder(tmp_path))
    lines = (tmp_path / "table.csv").read_text().splitlines(keepends=True)
    (tmp_path / "table.csv").unlink()
    write(tmp_path / "table-1.csv", "".join(lines[:6]))
    write(tmp_path / "table-2.csv", HEADER + "".join(lines[6:]))
    parts = read_folder(tmp_path)
    assert [path.name for path in parts.tables] == ["table-1.csv", "table-2.csv"]
    assert (parts.classes, parts.splits) == (whole.classes, whole.splits)
    assert parts.class_names == ["class a", "class b", "class c", "class d"]
    assert parts.splits_of_table(0) + parts.splits_of_table(1) == whole.splits
    assert len(parts.splits_of_table(0)) == 5


def test_captions_are_not_kept_in_memory(tmp_path):
    folder = good_folder(tmp_path)
    lines = (folder / "table.csv").read_text().replace("x | y", "x" * 100_000 + " | y").splitlines()
    rows = [f"{line.split(',')[0]}_{part}{line[2:]}" for part in range(20) for line in lines[1:]]
    (folder / "table.csv").write_text("\n".join([lines[0], *rows]))
    save_features(folder / "features.npz", [row.split(",")[0] for row in rows])
    del rows, lines
    assert (folder / "table.csv").stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        read_folder(folder)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_files_that_are_missing_or_too_many(tmp_path):
    folder_refused(tmp_path / "nowhere", f"{tmp_path / 'nowhere'} is not a folder")
    folder_refused(tmp_path, f"{tmp_path} has no table.csv or table.jsonl")
    good_folder(tmp_path)
    write(tmp_path / "table.jsonl", GOOD_LINE)
    folder_refused(tmp_path, f"{tmp_path} has both table.csv and table.jsonl; keep one of them")
    (tmp_path / "table.jsonl").rename(tmp_path / "table-1.csv")
    folder_refused(tmp_path, f"{tmp_path} has both table.csv and table-*.csv; keep")
    (tmp_path / "table-1.csv").unlink()
    (tmp_path / "features.npz").unlink()
    folder_refused(tmp_path, f"{tmp_path} has no features.npz (nor parts of it such as")


def test_an_image_that_is_there_twice(tmp_path):
    table = good_folder(tmp_path) / "table.csv"
    write(table, table.read_text() + "b1,class b,again\n")
    folder_refused(
        tmp_path, f"{table}, line 14: image 'b1' occurs already ({table}, line 6); give each"
    )


def test_descriptions_are_no_images(tmp_path):
    table = good_folder(tmp_path) / "table.csv"
    before = read_folder(tmp_path)
    lines = table.read_text().splitlines(keepends=True)
    lines[5:5] = [",emu,tall\n", ",class a,first\n"]
    write(table, "".join([*lines, ",emu,cannot fly | brown\n"]))
    folder = read_folder(tmp_path)
    assert folder.descriptions == {"emu": ["tall", "cannot fly", "brown"], "class a": ["first"]}
    assert (folder.classes, folder.splits) == (before.classes, before.splits)
    assert folder.class_names == [*before.class_names, "emu"]
    write(table, HEADER + ",emu,tall\n")
    folder_refused(tmp_path, f"{table} has no row with an image")


def test_captions_for_images_without_any(tmp_path):
    table = good_folder(tmp_path) / "table.csv"
    ids = [f"{name}{number}" for name in "abcd" for number in range(3)]
    split_of = dict(zip(ids, read_folder(tmp_path).splits, strict=True))
    trained = next(image for image in ids if split_of[image] == "train")
    [tested] = [i for i in ids if i[0] == trained[0] and split_of[i] == "test_seen"]
    name = f"class {trained[0]}"
    without = table.read_text().replace(f",{name},x | y", f",{name},")
    message = (
        f"{table}, line {2 + ids.index(trained)}: the image has no caption, and neither has any "
        f"image of class {name!r} in train; add a caption, or a row without 'image_id'"
    )
    write(table, without)
    folder_refused(tmp_path, message)
    # Captions of test images are not for training.
    write(table, without.replace(f"{tested},{name},", f"{tested},{name},x"))
    folder_refused(tmp_path, message)
    write(table, without.replace(f"{trained},{name},", f"{trained},{name},x"))
    assert read_folder(tmp_path).descriptions == {}
    write(table, without + f",{name},told\n")
    assert read_folder(tmp_path).descriptions == {name: ["told"]}


@pytest.mark.parametrize("name", ["Class a", "class  a", "CLASS\u00a0A", "ｃlass a"])
def test_class_names_that_look_like_one(tmp_path, name):
    table = good_folder(tmp_path) / "table.csv"
    write(table, table.read_text().replace("a2,class a", f"a2,{name}"))
    folder_refused(
        tmp_path,
        f"{table}, line 4: class {name!r} differs from 'class a' ({table}, line 2) only in case or "
        "spaces; write it in one way",
    )


def test_rows_with_and_without_a_split(tmp_path):
    table = good_folder(tmp_path) / "table.csv"
    write(table, HEADER.replace("\n", ",split\n") + "a0,a,x,train\na1,a,x,\n")
    folder_refused(
        tmp_path, f"{table}, line 3: no split, but other rows have one ({table}, line 2)"
    )


def test_splits_that_are_both_given_and_to_be_made(tmp_path):
    table = good_folder(tmp_path) / "table.csv"
    write(table, HEADER.replace("\n", ",split\n") + "a0,a,x,train\n")
    write(tmp_path / "splits.json", "{}")
    folder_refused(tmp_path, f"{tmp_path / 'splits.json'} says how to make splits, but the table")


def test_features_that_do_not_fit_the_table(tmp_path):
    folder = good_folder(tmp_path)
    ids = [f"{name}{number}" for name in "abcd" for number in range(3)]
    path = folder / "features.npz"
    save_features(path, [*ids[:4], *ids[6:]])
    folder_refused(folder, f"{folder / 'table.csv'}, line 6: the image has no features in {folder}")
    save_features(path, [*ids, "e0"])
    folder_refused(folder, f"{path}, image number 13 (counted from 1): 'e0' has features, but no")
    save_features(path, [*ids, "a1"])
    folder_refused(
        folder,
        f"{path}, image number 13 (counted from 1): the features of 'a1' occur twice, first "
        "in features.npz, image number 2; remove",
    )
    path.unlink()
    save_features(folder / "features-1.npz", ids[:6])
    save_features(folder / "features-2.npz", ids[6:], width=3)
    folder_refused(folder, f"{folder / 'features-2.npz'} has features of width 3, but ")


def test_features_that_cannot_be_used(tmp_path):
    folder = good_folder(tmp_path)
    path = folder / "features.npz"
    with np.load(path) as archive:
        ids, features = archive["image_ids"], archive["features"]
    for value in (np.nan, np.inf):
        bad = features.copy()
        bad[4, 1] = value
        np.savez(path, image_ids=ids, features=bad)
        folder_refused(folder, f"{path}: the features of image number 5 (counted from 1) are NaN")
    np.savez(path, image_ids=ids)
    folder_refused(folder, f"{path} has no array 'features'; save it with np.savez(")
    np.savez(path, features=features)
    folder_refused(folder, f"{path} has no array 'image_ids'")
    np.savez(path, image_ids=np.arange(12), features=features)
    folder_refused(folder, f"{path}: 'image_ids' must be a list of strings, not int64")
    np.savez(path, image_ids=ids[:-1], features=features)
    folder_refused(folder, f"{path}: features of 12 images, but names of 11")
    np.savez(path, image_ids=ids.astype(object), features=features)
    folder_refused(folder, f"{path} holds an array of Python objects, which is not read")
    np.savez(path, image_ids=ids, features=features)
    content = path.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 5):
        path.write_bytes(content[:length])
        folder_refused(folder, f"{path} is cut off or not an .npz file")
