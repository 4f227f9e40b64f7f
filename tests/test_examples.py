"""The docstring of every public name has an example, and the examples are right."""

import doctest
import json
import os
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import clarel_tf


@pytest.fixture(scope="module")
def folder(tmp_path_factory, demo_run, exported_run) -> Path:
    """As after the first commands of the README: `runs/demo` and `exports/demo`."""
    path = tmp_path_factory.mktemp("examples")
    (path / "runs").mkdir()
    (path / "exports").mkdir()
    (path / "runs" / "demo").symlink_to(demo_run[0] / "runs" / "demo")
    (path / "exports" / "demo").symlink_to(exported_run)
    return path


@pytest.mark.parametrize("name", sorted(set(clarel_tf.__all__) - {"__version__"}))
def test_example(name, folder, demo_data_dir, monkeypatch):
    value = getattr(clarel_tf, name)
    assert value.__doc__
    if "```python" in value.__doc__:
        return  # tests/models/test_own_towers.py runs it
    monkeypatch.chdir(folder)
    names = {"clarel_tf": clarel_tf, "np": np, "tf": tf, "keras": keras, "json": json, "os": os}
    case = doctest.DocTestParser().get_doctest(value.__doc__, names, name, None, 0)
    assert case.examples, f"clarel_tf.{name} has no example"
    said: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=options).run(case, out=said.append)
    assert not said, "".join(said)


def test_public_names_are_seen_by_help_and_type_checkers():
    text = Path(clarel_tf.__file__).read_text()
    assert set(clarel_tf.__all__) == {"__version__", *clarel_tf._HOME_OF_NAME}
    for name in clarel_tf._HOME_OF_NAME:
        assert f"import {name} as {name}" in text, name
        assert name in dir(clarel_tf)
