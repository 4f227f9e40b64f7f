"""Starts the programs of the project in processes of their own, as a user would."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# A model of a few thousand weights that trains in seconds.
SMALL_MODEL = [
    *("--embedding_size=16", "--word_size=8", "--filters=8,8", "--lstm_units=8", "--max_tokens=12")
]


def run_program(program: str, *flags: str, **options) -> subprocess.CompletedProcess:
    """Runs `program` of the top folder to its end."""
    command = [sys.executable, str(ROOT / program), *flags]
    environment = {**os.environ, **options.pop("env", {})}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=400, env=environment, **options
    )
