"""Other divisions of the training classes, for comparisons that must not fit one of them."""

import numpy as np
import pytest

from clarel_tf.data.protocols import apply_protocol
from clarel_tf.errors import ClarelError
from tests.conftest import make_split


def ids(split):
    return set(split.image_ids)


@pytest.mark.parametrize("protocol", ["clean", "paper"])
@pytest.mark.parametrize("number", range(1, 6))
def test_every_division_parts_trainval(splits, protocol, number):
    divided = apply_protocol(splits, protocol, number)
    parts = [divided[name] for name in ("train", "val_seen", "val_unseen")]
    # Every image of trainval is in one of the three, and no other image is.
    assert sum(map(len, parts)) == len(splits["trainval"])
    assert set.union(*map(ids, parts)) == ids(splits["trainval"])
    train, seen, unseen = (set(part.labels) for part in parts)
    assert train == seen and not train & unseen
    # As many unseen classes as in the data: 2. Of the 6 images of a seen class as large a share is
    # held out as there, 8 of 8 + 24: a quarter of 6 is 1.5, which rounds to 2.
    assert len(unseen) == 2
    assert set(np.bincount(divided["val_seen"].labels)) <= {0, 2}
    assert [part.name for part in parts] == ["train", "val_seen", "val_unseen"]
    for name in ("trainval", "test_seen", "test_unseen"):
        assert divided[name] is splits[name]


def test_divisions_differ_and_stay_as_they_are(splits):
    drawn = [apply_protocol(splits, "clean", number) for number in (1, 2, 3, 4, 5, 1)]
    new = [tuple(np.unique(one["val_unseen"].labels)) for one in drawn]
    assert new[0] == new[5] and len(set(new)) > 1
    assert drawn[0]["train"].fingerprints() == drawn[5]["train"].fingerprints()


def test_number_0_is_the_division_of_the_data(splits):
    assert apply_protocol(splits, "paper", 0) == splits


def test_what_cannot_be_divided_is_said(splits):
    few = {**splits, "trainval": make_split("trainval", [4, 5] * 6, 600)}
    few["test_seen"] = make_split("test_seen", [4, 5], 700)
    with pytest.raises(ClarelError, match=r"more classes in trainval than the 2 .*there are 2"):
        apply_protocol(few, "clean", 1)
    lonely = {**splits, "trainval": make_split("trainval", [0, 1, 2, 3, 4, 5], 600)}
    with pytest.raises(ClarelError, match="its only image in trainval"):
        apply_protocol(lonely, "clean", 1)
