"""Settings that are legal and extreme: a result or a message, never a traceback."""

import dataclasses
import json
import math

import numpy as np
import pytest

from clarel_tf.config import Config, settings
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.selection import select, validation_scores
from clarel_tf.experiments.experiment import run_experiment
from clarel_tf.models.saving import load_model
from clarel_tf.storage.files import read_json
from tests.experiments.test_extremes import all_numbers

NUMBERS = [field for _, field in settings() if field.type in (int, float, tuple[int, ...])]
FLOATS = [field for field in NUMBERS if field.type is float]


def smallest(field) -> float:
    """The smallest legal value above zero, or the bound itself if that is not zero."""
    low = field.metadata["low"] if field.metadata["above"] is None else field.metadata["above"]
    return float(low) or math.ulp(0.0)


EXTREMES = [(field.name, value) for field in FLOATS for value in (smallest(field),)]
EXTREMES += [(field.name, float(field.metadata["high"])) for field in FLOATS]
EXTREMES += [(field.name, 0.0) for field in FLOATS if field.metadata["low"] == 0]


@pytest.mark.parametrize("field", NUMBERS, ids=lambda field: field.name)
def test_every_number_has_bounds_and_is_refused_beyond_them(field):
    bounds = field.metadata
    assert bounds["high"] is not None and (bounds["low"] is None) != (bounds["above"] is None)
    for value in (bounds["high"] * 2 + 1, 10**400, -1, -(10**400)):
        wrapped = [value, value] if field.type is tuple[int, ...] else value
        with pytest.raises(ClarelError, match=f"^{field.name.rstrip('_')} must be"):
            Config().override({field.name: wrapped})


def test_weights_without_sense_are_refused():
    with pytest.raises(ClarelError, match="discriminant_evidence must be at most 1000000"):
        Config().override({"discriminant_evidence": 1e30})
    with pytest.raises(ClarelError, match="steps must be at most 999999999"):
        Config().override({"steps": 10**9})


@pytest.mark.parametrize("depth", [100_000, 990, 900])
def test_json_that_nests_without_end(tmp_path, depth):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"seed": 0}).replace("0", "[" * depth + "]" * depth))
    with pytest.raises(ClarelError, match=r"config\.json nests|seed must be of type int") as caught:
        Config.from_dict(read_json(path))
    assert len(str(caught.value)) < 300


@pytest.fixture(scope="module")
def model(finished_run):
    return load_model(finished_run / "model.keras")


@pytest.mark.parametrize("head", [0.0, math.ulp(0.0), 1e6])
@pytest.mark.parametrize("discriminants", [0.0, math.ulp(0.0), 1e6])
def test_extreme_evidence(model, splits, head, discriminants):
    # The finished model was trained on trainval. Alpha must not be chosen on splits called test.
    seen = dataclasses.replace(splits["test_seen"], name="seen")
    unseen = dataclasses.replace(splits["test_unseen"], name="unseen")
    rule = RuleSettings(head, discriminants)
    for judge in (select, validation_scores):
        found = judge(model, seen, unseen, [splits["trainval"]], rule)
        assert np.isfinite(all_numbers(found)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), EXTREMES)
def test_a_whole_run_with_an_extreme_setting(tmp_path, splits, small_config, name, value):
    few = {"steps": 3, "warmup_steps": 1, "instances_per_class": 2, "kappa": 0.5}
    config = small_config.override({**few, name: value})
    try:
        results = run_experiment(config, splits, tmp_path / "run")
    except ClarelError as error:
        assert "step" in str(error) or "finite" in str(error)
    else:
        assert np.isfinite(all_numbers(results)).all()
