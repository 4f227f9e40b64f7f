"""Presets, overrides, JSON and the messages for impossible values."""

import dataclasses
import json
import os

import pytest

from clarel_tf.commands import cli
from clarel_tf.config import Config, settings
from clarel_tf.errors import ClarelError
from clarel_tf.presets import PRESETS, preset


@pytest.mark.parametrize("name", PRESETS)
def test_json_round_trip(name):
    config = preset(name)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_the_paper_preset_has_the_values_of_the_paper():
    config = preset("paper")
    model, loss, training = config.model, config.loss, config.training
    assert (model.embedding_size, model.max_tokens, model.word_size) == (1024, 30, 300)
    assert (model.filters, model.lstm_units) == ((128, 256), 512)
    assert (model.image_dropout, model.text_dropout, model.l2) == (0.25, 0.25, 0.001)
    assert (model.batch_norm_momentum, model.batch_norm_epsilon) == (0.95, 1e-6)
    assert (loss.lambda_, loss.kappa, loss.mask_same_class) == (0.5, 0.5, False)
    assert (loss.distance_scale, loss.prototype_share) == (1.0, 0.0)
    assert training.instances_per_class == 0
    assert (training.steps, training.batch_size, training.captions) == (150_000, 32, 0)
    assert (training.optimizer, training.momentum, training.clip_norm) == ("sgd", 0.9, 1.0)
    assert (training.learning_rate, training.decay_every, training.decay_factor) == (
        0.1,
        50_000,
        0.1,
    )
    assert training.schedule == "staircase"


def test_names_are_unique_so_that_flags_need_no_section():
    names = [field.name for _, field in settings()]
    assert len(names) == len(set(names))


def test_override_reaches_every_section():
    config = Config().override({"seed": 3, "kappa": 0.1, "filters": [4, 8], "learning_rate": 1})
    assert (config.seed, config.loss.kappa, config.model.filters) == (3, 0.1, (4, 8))
    assert config.training.learning_rate == 1.0
    assert dataclasses.replace(config, seed=0).model == config.model


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kapa": 0.5}, "unknown config key 'kapa'"),
        ({"kappa": 1.5}, "kappa must be at most 1"),
        ({"lambda_": -0.1}, "lambda must be at least 0"),
        ({"kappa": float("nan")}, "kappa must be a finite number"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": 2.5}, "steps must be of type int"),
        ({"steps": True}, "steps must be of type int"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"learning_rate": "fast"}, "learning_rate must be of type float"),
        ({"filters": [128]}, "filters must name 2"),
        ({"filters": []}, "filters must be a list"),
        ({"filters": 128}, "filters must be a list"),
        ({"filters": [128, 0]}, "filters must be at least 1"),
        ({"optimizer": "rmsprop"}, "optimizer must be one of sgd, adam"),
        ({"warmup_steps": 10, "steps": 10}, "warmup_steps"),
        ({"mask_same_class": 1}, "mask_same_class must be of type bool"),
        ({"head_evidence": 0.5, "kappa": 0.0}, "which kappa=0 does not train"),
        ({"similar_classes": 1.0}, "set instances_per_class to at least 1"),
    ],
)
def test_impossible_values_are_refused_by_name(values, message):
    with pytest.raises(ClarelError, match=message):
        Config().override(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"embeding_size": 3}}, "'embeding_size' in section 'model'"),
        ({"model": {"kappa": 0.5}}, "'kappa' in section 'model'"),
        ({"kappa": 0.5}, "unknown config key 'kappa'"),
        ({"model": 3}, "model must be a JSON object"),
        ([], "must be a JSON object"),
    ],
)
def test_json_with_unknown_keys(values, message):
    with pytest.raises(ClarelError, match=message):
        Config.from_dict(values)


def test_unknown_preset():
    with pytest.raises(ClarelError, match="unknown preset 'big'; choose one of: paper, fast, tiny"):
        preset("big")


@pytest.mark.parametrize(("allowed", "operations", "left"), [("8", 2, "4"), ("1", 2, "1")])
def test_operations_at_once_share_the_threads(monkeypatch, allowed, operations, left):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", allowed)
    cli.share_cores(operations)
    assert os.environ["TF_NUM_INTRAOP_THREADS"] == left


def test_one_operation_at_once_leaves_the_threads_to_tensorflow(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    cli.share_cores(1)
    assert "TF_NUM_INTRAOP_THREADS" not in os.environ
