"""The Python code of the README runs as it stands, and what it names is there."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_blocks_run(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={**os.environ, "TFDS_DATA_DIR": str(tmp_path / "data"), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    answer = done.stdout.strip().splitlines()[-1]
    assert answer.count("bird") == 5
    assert (tmp_path / "runs" / "readme" / "results.json").exists()


def test_every_module_is_in_the_picture():
    modules = {path.name for path in (ROOT / "clarel_tf").glob("*.py")}
    helpers = {"__init__.py", "cli.py", "config.py", "errors.py", "files.py"}
    minor = {"optimization.py", "results_table.py"}
    missing = [name for name in modules - helpers - minor if name not in README]
    assert not missing
    named = set(re.findall(r"\b([a-z_]+\.py)\b", README))
    assert all((ROOT / n).exists() or (ROOT / "clarel_tf" / n).exists() for n in named)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
