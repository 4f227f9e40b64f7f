"""The Python code of the README runs as it stands, and what it names is there."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_blocks_run(tmp_path, demo_data_dir, repeated_demo):
    """After the first command, of which a run of the demo is left in `runs/demo`."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(repeated_demo[0] / "run" / "seed_0")
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={**os.environ, "TFDS_DATA_DIR": str(demo_data_dir)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(it is 0") == 5
    assert "retracing" not in done.stderr
    assert (tmp_path / "runs" / "short" / "report.html").exists()


def test_every_module_is_in_the_picture():
    modules = {path.name for path in (ROOT / "clarel_tf").glob("*.py")}
    helpers = {"__init__.py", "cli.py", "config.py", "errors.py", "files.py"}
    minor = {"results_table.py"}
    missing = [name for name in modules - helpers - minor if name not in README]
    assert not missing
    named = set(re.findall(r"\b([a-z_]+\.py)\b", README))
    named -= {"_main.py"}  # as in `*_main.py`
    assert all((ROOT / n).exists() or (ROOT / "clarel_tf" / n).exists() for n in named)


def test_a_module_knows_only_those_above_it():
    picture = README.split("## How it fits together")[1].split("A module knows only")[0]
    line = {
        module: number
        for number, text in enumerate(picture.splitlines())
        for module in re.findall(r"\b([a-z_]+)\.py", text)
    }
    for path in (ROOT / "clarel_tf").glob("*.py"):
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if is_own_import(node)]
        for node in imports:
            names = [alias.name for alias in node.names]
            for name in names if node.module == "clarel_tf" else [node.module.split(".")[1]]:
                assert line.get(name, 0) <= line.get(path.stem, 10**6), f"{path.name}: {name}"


def is_own_import(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "clarel_tf"


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
