"""Data that is legal and extreme: a whole run gives finite results, or says why it cannot."""

import dataclasses

import numpy as np
import pytest

from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import run_experiment
from tests.conftest import make_split


def all_numbers(value) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in all_numbers(item)]
    return [value] if isinstance(value, (int, float)) else []


def least_splits() -> dict[str, Split]:
    """One class in each part, one caption an image, and every image and caption the same."""
    labels = {
        **{"train": [0, 0], "val_seen": [0], "val_unseen": [1]},
        **{"trainval": [0, 0, 0, 1], "test_seen": [0], "test_unseen": [2]},
    }
    splits = {}
    for number, (name, own) in enumerate(labels.items()):
        split = make_split(name, own, 100 * number, captions=1)
        splits[name] = dataclasses.replace(
            split,
            image_features=np.ones_like(split.image_features),
            captions=[[b"bird"]] * len(own),
        )
    return splits


@pytest.mark.slow
def test_one_class_one_caption_and_nothing_that_differs(tmp_path, small_config):
    config = small_config.override({"batch_size": 2, "steps": 3})
    results = run_experiment(config, least_splits(), tmp_path / "run")
    numbers = all_numbers(dataclasses.asdict(results))
    assert len(numbers) > 20 and np.isfinite(numbers).all()
    # All classes are equally near, and in ties the wrong one counts as nearer.
    assert results.gzsl.h == 0 and results.zsl.top1 == 100


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e12, 1e-30])
def test_huge_and_tiny_features(tmp_path, splits, small_config, scale):
    scaled = {
        name: dataclasses.replace(split, image_features=split.image_features * np.float32(scale))
        for name, split in splits.items()
    }
    config = small_config.override({"steps": 3, "warmup_steps": 1})
    try:
        results = run_experiment(config, scaled, tmp_path / "run")
    except ClarelError as error:
        assert "step 1" in str(error) or "no finite embedding" in str(error)
    else:
        assert np.isfinite(all_numbers(dataclasses.asdict(results))).all()


def test_a_batch_that_is_larger_than_the_split_is_refused(tmp_path, splits, small_config):
    config = small_config.override({"batch_size": 25})
    with pytest.raises(ClarelError, match="batch_size is 25, but split 'train' has only 24"):
        run_experiment(config, splits, tmp_path / "run")
