"""Every public name has an example in its docstring; they and the code of the README are right."""

import doctest
import json
import os
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

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


def assert_example_is_right(name: str) -> None:
    value = getattr(clarel_tf, name)
    assert value.__doc__
    if "```python" in value.__doc__:
        return  # tests/models/test_own_towers.py runs it
    names = {"clarel_tf": clarel_tf, "np": np, "tf": tf, "keras": keras, "json": json, "os": os}
    case = doctest.DocTestParser().get_doctest(value.__doc__, names, name, None, 0)
    assert case.examples, f"clarel_tf.{name} has no example"
    said: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=options).run(case, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", sorted(set(clarel_tf.__all__) - {"__version__", "run_experiment"}))
def test_example(name, folder, demo_data_dir, monkeypatch):
    monkeypatch.chdir(folder)
    assert_example_is_right(name)


def test_readme_and_the_example_of_run_experiment(
    folder, demo_data_dir, monkeypatch, capfd, caplog
):
    """The README asks for the run of that example, which it finds finished."""
    monkeypatch.chdir(folder)
    assert_example_is_right("run_experiment")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
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
    assert zsl > 25
    assert h > 20


def test_public_names_are_seen_by_help_and_type_checkers():
    text = Path(clarel_tf.__file__).read_text()
    assert set(clarel_tf.__all__) == {"__version__", *clarel_tf._HOME_OF_NAME}
    for name in clarel_tf._HOME_OF_NAME:
        assert f"import {name} as {name}" in text, name
        assert name in dir(clarel_tf)
