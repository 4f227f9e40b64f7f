"""The laws of made splits, on drawn data, and the refusal of given splits that break them."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clarel_tf.data.pairs.splits import SplitShares, check_splits, make_splits, read_shares
from clarel_tf.data.pairs.table import ROW_SPLITS
from clarel_tf.errors import ClarelError

SHARES = st.builds(
    SplitShares,
    seed=st.integers(-5, 5),
    unseen_classes=st.floats(0.05, 0.5),
    test_seen_images=st.floats(0.05, 0.9),
    val_unseen_classes=st.floats(0.05, 0.5),
    val_seen_images=st.floats(0.05, 0.9),
)


def images_of_sizes(sizes: list[int]) -> tuple[list[str], list[str]]:
    """Ids and classes of images, class by class."""
    classes = [f"class {label}" for label, size in enumerate(sizes) for _ in range(size)]
    return [f"image {number}" for number in range(len(classes))], classes


def made(sizes: list[int], shares: SplitShares) -> tuple[list[str], list[str], list[str]]:
    """As images_of_sizes, and their splits; sizes that are too small are not drawn again."""
    image_ids, classes = images_of_sizes(sizes)
    try:
        splits = make_splits(image_ids, classes, shares)
    except ClarelError as error:
        assert str(error).startswith("too few")  # the only refusal there may be
        assume(False)
    return image_ids, classes, splits


@given(st.lists(st.integers(1, 12), min_size=4, max_size=20), SHARES)
def test_laws_of_made_splits(sizes, shares):
    _, classes, splits = made(sizes, shares)
    check_splits(classes, splits)
    assert set(splits) == set(ROW_SPLITS)
    splits_of = {name: set() for name in classes}
    for name, split in zip(classes, splits, strict=True):
        splits_of[name].add(split)
    for name, found in splits_of.items():
        if "test_unseen" in found:
            assert found == {"test_unseen"}
        elif "val_unseen" in found:
            assert found <= {"val_unseen", "test_seen"}
        else:
            assert "train" in found
        if classes.count(name) == 1:
            assert found in ({"test_unseen"}, {"val_unseen"}, {"train"})
        elif "test_unseen" not in found:
            assert "test_seen" in found


@given(st.lists(st.integers(1, 8), min_size=4, max_size=10), SHARES, st.randoms())
def test_the_order_of_the_rows_does_not_matter(sizes, shares, random):
    image_ids, classes, splits = made(sizes, shares)
    order = list(range(len(image_ids)))
    random.shuffle(order)
    again = make_splits([image_ids[i] for i in order], [classes[i] for i in order], shares)
    assert again == [splits[i] for i in order]


def test_the_shares_are_those_asked_for():
    image_ids, classes = images_of_sizes([20] * 50)
    splits = make_splits(image_ids, classes, SplitShares())
    count = {name: splits.count(name) for name in ROW_SPLITS}
    # 10 of 50 classes are unseen, 8 of the other 40 val_unseen; 4 of 20 images are test_seen,
    # and 3 of the other 16 val_seen.
    assert count == {
        "test_unseen": 10 * 20,
        "test_seen": 40 * 4,
        "val_unseen": 8 * 16,
        "val_seen": 32 * 3,
        "train": 32 * 13,
    }
    other = make_splits(image_ids, classes, SplitShares(seed=1))
    assert other != splits
    assert {name: other.count(name) for name in ROW_SPLITS} == count


def test_made_splits_never_change():
    image_ids, classes = images_of_sizes([3, 3, 3, 1])
    a = ["val_unseen", "val_unseen", "test_seen"]
    b = ["val_seen", "test_seen", "train"]
    c = ["test_unseen"] * 3
    assert make_splits(image_ids, classes, SplitShares()) == [*a, *b, *c, "train"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([9], "too few classes for the splits: of 1, 1 would be test_unseen and 0"),
        ([9, 9], "too few classes for the splits: of 2, 1 would be test_unseen and 1"),
        ([1, 1, 1, 1], "too few images for the splits: test_seen would be empty"),
        ([2, 2, 2, 2], "too few images for the splits: val_seen would be empty"),
    ],
)
def test_too_little_data(sizes, message):
    with pytest.raises(ClarelError, match=f"^{message}"):
        make_splits(*images_of_sizes(sizes), SplitShares())


def test_three_classes_are_enough():
    image_ids, classes = images_of_sizes([3, 3, 3])
    assert set(make_splits(image_ids, classes, SplitShares())) == set(ROW_SPLITS)


def test_shares_that_leave_nothing():
    with pytest.raises(ClarelError, match=r"of 4, 4 would be test_unseen .* smaller shares"):
        make_splits(*images_of_sizes([5] * 4), SplitShares(unseen_classes=0.95))


GIVEN = {
    "a": ["train", "val_seen", "test_seen"],
    "b": ["val_unseen", "test_seen"],
    "c": ["test_unseen"],
}


@pytest.mark.parametrize(
    ("class_name", "split", "message"),
    [
        ("c", "train", "row 5: class 'c' is in test_unseen, but also in train (row 6)"),
        ("c", "val_seen", "row 5: class 'c' is in test_unseen, but also in val_seen (row 6)"),
        ("c", "val_unseen", "row 5: class 'c' is in test_unseen, but also in val_unseen (row 6)"),
        ("c", "test_seen", "row 5: class 'c' is in test_unseen, but also in test_seen (row 6)"),
        ("b", "train", "row 3: class 'b' is in val_unseen, but also in train (row 6)"),
        ("b", "val_seen", "row 3: class 'b' is in val_unseen, but also in val_seen (row 6)"),
        ("d", "test_seen", "row 6: class 'd' is in test_seen, but in none of train, val_seen"),
    ],
)
def test_a_class_where_it_must_not_be(class_name, split, message):
    classes = [name for name, splits in GIVEN.items() for _ in splits]
    splits = [split for splits in GIVEN.values() for split in splits]
    check_splits(classes, splits)
    with pytest.raises(ClarelError, match=f"^{re.escape(message)}"):
        check_splits([*classes, class_name], [*splits, split])


def test_only_train_needs_images():
    check_splits(["a"], ["train"])
    with pytest.raises(ClarelError, match="no row has the split 'train'; there must be images"):
        check_splits(["a", "b"], ["val_seen", "test_unseen"])


@pytest.mark.parametrize(
    ("zero", "empty"),
    [
        (["unseen_classes"], {"test_unseen"}),
        (["val_unseen_classes"], {"val_unseen"}),
        (["test_seen_images", "val_seen_images"], {"test_seen", "val_seen"}),
        (["unseen_classes", "val_unseen_classes"], {"test_unseen", "val_unseen"}),
        (
            ["unseen_classes", "val_unseen_classes", "test_seen_images", "val_seen_images"],
            set(ROW_SPLITS) - {"train"},
        ),
    ],
)
def test_a_share_of_0_leaves_its_split_empty(zero, empty):
    shares = SplitShares(**dict.fromkeys(zero, 0))
    splits = make_splits(*images_of_sizes([5] * 6), shares)
    assert set(splits) == set(ROW_SPLITS) - empty
    check_splits(images_of_sizes([5] * 6)[1], splits)


def test_shares_from_a_file(tmp_path):
    path = tmp_path / "splits.json"
    assert read_shares(path) == SplitShares()
    path.write_text('\ufeff{"seed": 7, "val_seen_images": 0.5}', encoding="utf-8")
    assert read_shares(path) == SplitShares(seed=7, val_seen_images=0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"sed": 1}', ": unknown key 'sed'; the keys are seed, unseen_classes,"),
        ('{"seed": 1.5}', ": 'seed' must be a whole number, not 1.5"),
        ('{"seed": true}', ": 'seed' must be a whole number, not True"),
        ('{"unseen_classes": -0.1}', ": 'unseen_classes' must be at least 0 and below 1, not -0.1"),
        (
            '{"unseen_classes": false}',
            ": 'unseen_classes' must be at least 0 and below 1, not False",
        ),
        ('{"test_seen_images": 1.0}', ": 'test_seen_images' must be at least 0 and below 1"),
        ('{"val_seen_images": NaN}', ": 'val_seen_images' must be at least 0 and below 1"),
        ('{"val_unseen_classes": "0.2"}', ": 'val_unseen_classes' must be at least 0 and below"),
        ("[0.2]", " must hold an object with some of the keys seed"),
        ('{"seed": 1', " is not valid JSON ("),
    ],
)
def test_bad_shares(tmp_path, text, message):
    path = tmp_path / "splits.json"
    path.write_text(text)
    with pytest.raises(ClarelError, match=f"^{re.escape(str(path) + message)}"):
        read_shares(path)
