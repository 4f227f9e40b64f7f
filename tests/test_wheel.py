"""A wheel, installed outside the clone, has the package, the datasets and the commands."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("train", "evaluate", "export", "classify", "inspect", "sweep", "extract")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that the wheel of a copy of the repository was installed into."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("*.whl")
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"clarel_tf", *(name for name in tops if name.endswith(".dist-info"))}
    install = [*pip, "install", "--no-deps", f"--target={folder / 'site'}", str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def run(installed: Path, *command: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        command, cwd=installed.parent, env=environment, capture_output=True, text=True, timeout=300
    )


def test_every_module_is_installed_but_the_tests_of_datasets(installed):
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("clarel_tf/**/*.py")}
    for path in ROOT.glob("datasets/*/*.py"):
        if not path.name.endswith("_test.py"):
            modules.add(f"clarel_tf/{path.relative_to(ROOT).as_posix()}")
    found = installed.glob("clarel_tf/**/*.py")
    assert {path.relative_to(installed).as_posix() for path in found} == modules


def test_datasets_travel_with_the_package(installed, demo_data_dir):
    code = f"""
import sys, clarel_tf
assert clarel_tf.__file__.startswith({str(installed)!r})
builder = clarel_tf.get_builder("demo", "small", data_dir={str(demo_data_dir)!r})
print(len(clarel_tf.load_splits(builder)), builder.name)
for name in ("cub", "flowers", "pairs"):
    clarel_tf.get_builder(name, data_dir="none")
assert not {{"cub", "demo", "flowers", "pairs", "datasets"}} & set(sys.modules)
"""
    done = run(installed, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["6", "demo"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_program_is_a_command(installed, name):
    done = run(installed, sys.executable, str(installed / "bin" / f"clarel-{name}"), "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] in (ROOT / f"{name}_main.py").read_text().replace(
        "\n", " "
    ) or (done.stdout.split(".")[0].replace("\n", " ") in (ROOT / f"{name}_main.py").read_text())


def test_metadata_is_complete(installed):
    [metadata] = installed.glob("clarel_tf-*.dist-info/METADATA")
    text = metadata.read_text()
    for field in (
        "License",
        "Home-page",
        "Summary",
        "Classifier: Typing :: Typed",
        "Requires-Dist",
    ):
        assert field in text, field
