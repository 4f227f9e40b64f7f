"""Files with many new classes; messages name file and line."""

import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.serving.class_files import new_classes_of, read_new_classes

CLASSES = {"ruby crown": ["a red bird", "small, with a crown"], "Möwe": ["a white bird"]}
GOOD = {
    "a.json": '{"ruby crown": ["a red bird", "small, with a crown"],\n "Möwe": ["a white bird"]}',
    "escaped.json": '{"ruby crown":["a red bird "," small, with a crown"],'
    '"M\\u00f6we":["a white bird"]}',
    "a.csv": 'class,sentence\nruby crown,a red bird\n\nMöwe,a white bird\n"ruby crown",'
    '"small, with a crown"\n',
    "turned.CSV": "\ufeffsentence,class\r\na red bird,ruby crown\r\n"
    '"small, with a crown", ruby crown \r\na white bird,Möwe\r\n',
    "twice.json": '{"ruby crown": ["a red bird"], "Möwe": ["a white bird"],\n'
    ' "ruby crown": ["small, with a crown"]}',
}


@pytest.mark.parametrize("name", GOOD)
def test_both_forms_say_the_same(tmp_path, name):
    (tmp_path / name).write_text(GOOD[name], encoding="utf-8")
    assert read_new_classes(str(tmp_path / name)) == CLASSES


BAD = {
    "unfinished.json": ('{"a": ["x"],\n "b": ["y"', "line 2: not valid JSON"),
    "list.json": ('[["a", "x"]]', "line 1: must be an object"),
    "text.json": ('{"a": ["x"],\n\n "b": "y"}', "line 3: 'b' must have a list of sentences"),
    "number.json": ('{"a": ["x"],\n "b": [1]}', "line 2: 'b' must have a list of sentences"),
    "object.json": ('{"a": {"x": 1}}', "line 1: 'a' must have a list of sentences"),
    "nothing.json": ('{"a": ["x"],\n "b": []}', "line 2: the class 'b' has no sentence"),
    "blank.json": ('{"a": ["x"],\n "b": ["y", " "]}', "line 2: a sentence of the class 'b' is"),
    "nameless.json": ('{"": ["x"]}', "line 1: the name of a class is empty"),
    "case.json": ('{"Jay": ["x"], "jay": ["y"]}', "'Jay' and 'jay' differ only in case"),
    "empty.json": ("{}", "has no new class"),
    "deep.json": ("[" * 100_000, "line 1: not"),
    "long.json": ('{"a": [' + "1" * 5000 + "]}", "line 1"),
    "header.csv": ("name,text\na,x\n", "line 1: the header must be class,sentence"),
    "fields.csv": ("class,sentence\na,x\nb,y,z\n", "line 3: 3 fields, but the header has 2"),
    "quote.csv": ('class,sentence\na,x\n"b,y\n', "line 3: not valid CSV"),
    "blank.csv": ("class,sentence\na,x\nb, \n", "line 3: a sentence of the class 'b' is"),
    "nameless.csv": ("class,sentence\n,x\n", "line 2: the name of a class is empty"),
    "empty.csv": ("", "has no new class"),
    "only_header.csv": ("class,sentence\n", "has no new class"),
    "latin.csv": (b"class,sentence\na,x\nM\xf6we,y\n", "line 3: not UTF-8"),
    "huge.csv": (b"class,sentence\n" + b"a,xxxxxxxxxx\n" * 200_000, "larger than 2000000 bytes"),
    "a.txt": ("a: x", "must be a .json or .csv file"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_named_with_their_line(tmp_path, name):
    content, message = BAD[name]
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ClarelError) as caught:
        read_new_classes(str(tmp_path / name))
    assert message in str(caught.value) and str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_named(tmp_path):
    (tmp_path / "folder.json").mkdir()
    for name in ("none.json", "folder.json"):
        with pytest.raises(ClarelError, match=name):
            read_new_classes(str(tmp_path / name))


def test_a_class_is_in_the_flag_or_in_the_file_but_not_in_both(tmp_path):
    path = tmp_path / "new.json"
    path.write_text('{"jay": ["a blue bird"]}')
    found = new_classes_of(["emu: a large bird; it runs"], str(path))
    assert found == {"jay": ["a blue bird"], "emu": ["a large bird", "it runs"]}
    for name, spelled in (("jay", ""), ("Jay ", " (there 'jay')")):
        with pytest.raises(ClarelError) as caught:
            new_classes_of([f"{name}: a bird"], str(path))
        message = f"{name.strip()!r} is in --new_class and in --new_classes={path}{spelled}; put"
        assert message in str(caught.value)
    with pytest.raises(ClarelError, match="--new_class: the new classes 'Emu' and 'emu' differ"):
        new_classes_of(["Emu: a bird", "emu: a bird"], None)
    with pytest.raises(ClarelError, match=r"--new_classes: cannot read .*none.json"):
        new_classes_of([], str(tmp_path / "none.json"))
