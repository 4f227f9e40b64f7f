"""Every public name has an example in its docstring; they and the code of the README are right."""

import doctest
import functools
import json
import os
import re
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

import clarel_tf

README = Path(__file__).resolve().parent.parent / "README.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, demo_run, exported_run) -> Path:
    """As after the first commands of the README: `runs/demo` and `exports/demo`."""
    path = tmp_path_factory.mktemp("examples")
    (path / "runs").mkdir()
    (path / "exports").mkdir()
    (path / "runs" / "demo").symlink_to(demo_run[0] / "runs" / "demo")
    (path / "exports" / "demo").symlink_to(exported_run)
    return path


@pytest.fixture(autouse=True)
def small_demo(monkeypatch) -> None:
    """The examples name the demo; here they get its config `small`, which is built already."""
    get_builder = clarel_tf.get_builder

    @functools.wraps(get_builder)
    def get_small_builder(name: str, config: str = "", **options):
        return get_builder(name, config or ("small" if name == "demo" else ""), **options)

    monkeypatch.setattr(clarel_tf, "get_builder", get_small_builder)


def assert_example_is_right(name: str, text: str) -> None:
    names = {"clarel_tf": clarel_tf, "np": np, "tf": tf, "keras": keras, "json": json, "os": os}
    case = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert case.examples, f"clarel_tf.{name} has no example"
    said: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=options).run(case, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", sorted(set(clarel_tf.__all__) - {"__version__", "run_experiment"}))
def test_example(name, folder, demo_data_dir, monkeypatch):
    text = getattr(clarel_tf, name).__doc__
    assert text
    if "```python" in text:
        return  # tests/models/test_own_towers.py runs it
    monkeypatch.chdir(folder)
    assert_example_is_right(name, text)


STEPS, LEARNED = '"steps": 300', "results.gzsl.h > 20"


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_readme_and_the_example_of_run_experiment(
    folder, demo_data_dir, monkeypatch, capfd, caplog, is_whole
):
    """The README asks for the run of that example, which it finds finished.

    With a few steps instead of 300, except in the slow run.
    """
    monkeypatch.chdir(folder)
    # TensorFlow warns of many traces by the line of code; those of other tests do not count here.
    counted = "_frequent_tracing_detector_manager"
    monkeypatch.setattr(
        polymorphic_function, counted, type(getattr(polymorphic_function, counted))()
    )
    texts = [clarel_tf.run_experiment.__doc__, README.read_text(encoding="utf-8")]
    assert [text.count(STEPS) for text in texts] == [1, 1] and LEARNED in texts[0]
    if not is_whole:
        few = '"steps": 5, "warmup_steps": 1'
        texts = [text.replace(STEPS, few).replace(LEARNED, "True") for text in texts]
    shutil.rmtree(folder / "runs" / "short", ignore_errors=True)
    assert_example_is_right("run_experiment", texts[0])
    blocks = re.findall(r"```python\n(.*?)```", texts[1], re.DOTALL)
    assert blocks
    code = compile("\n".join(blocks), README.name, "exec")
    capfd.readouterr()
    exec(code, {"__name__": "__main__"})
    out, err = capfd.readouterr()
    assert "The run in runs/short is finished already" in out
    assert out.count("(it is 0") == 5
    assert "retracing" not in err + caplog.text
    assert (folder / "runs" / "short" / "report.html").exists()
    # The comment in the README promises figures well above chance.
    zsl, h = map(float, re.search(r"ZSL ([\d.]+), H ([\d.]+)", out).groups())
    assert not is_whole or (zsl > 25 and h > 20)


def test_public_names_are_seen_by_help_and_type_checkers():
    text = Path(clarel_tf.__file__).read_text()
    assert set(clarel_tf.__all__) == {"__version__", *clarel_tf._HOME_OF_NAME}
    for name in clarel_tf._HOME_OF_NAME:
        assert f"import {name} as {name}" in text, name
        assert name in dir(clarel_tf)
