"""Every public name has an example in its docstring; they and the code of the README are right."""

import doctest
import functools
import json
import os
import re
import shutil
import subprocess
import sys
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


def python_of_the_readme() -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    return "\n".join(blocks)


def test_the_readme_asks_for_the_run_of_an_example_which_it_finds_finished(
    folder, demo_data_dir, monkeypatch, capfd
):
    """With a few steps of a narrow model; the slow test below has all of it."""
    monkeypatch.chdir(folder)
    texts = [clarel_tf.run_experiment.__doc__, python_of_the_readme()]
    assert [text.count(STEPS) for text in texts] == [1, 1] and LEARNED in texts[0]
    few = '"steps": 5, "warmup_steps": 1, "filters": [8, 8], "lstm_units": 8, "embedding_size": 16'
    example, code = (text.replace(STEPS, few).replace(LEARNED, "True") for text in texts)
    shutil.rmtree(folder / "runs" / "short", ignore_errors=True)
    assert_example_is_right("run_experiment", example)
    capfd.readouterr()
    exec(compile(code, README.name, "exec"), {"__name__": "__main__"})
    out = capfd.readouterr().out
    assert "The run in runs/short is finished already" in out
    assert out.count("(it is 0") == 5
    assert (folder / "runs" / "short" / "report.html").exists()


@pytest.mark.slow
def test_the_python_of_the_readme_as_a_user_runs_it(folder, demo_data_dir):
    """In a process of its own, where TensorFlow has nothing to warn of: it traces what it must."""
    shutil.rmtree(folder / "runs" / "short", ignore_errors=True)
    command = [sys.executable, "-c", python_of_the_readme()]
    path = os.pathsep.join([str(README.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(it is 0") == 5
    assert "retracing" not in done.stderr
    # The comment in the README promises figures well above chance.
    zsl, h = map(float, re.search(r"ZSL ([\d.]+), H ([\d.]+)", done.stdout).groups())
    assert zsl > 25 and h > 20


def test_public_names_are_seen_by_help_and_type_checkers():
    text = Path(clarel_tf.__file__).read_text()
    assert set(clarel_tf.__all__) == {"__version__", *clarel_tf._HOME_OF_NAME}
    for name in clarel_tf._HOME_OF_NAME:
        assert f"import {name} as {name}" in text, name
        assert name in dir(clarel_tf)
