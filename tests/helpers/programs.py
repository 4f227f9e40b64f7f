"""Starts the programs of the project: in processes of their own, or in this one."""

import contextlib
import importlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from absl import app, flags

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


def call_program(
    program: str, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess:
    """Runs `program` in this process, from its flags to its exit code.

    For tests of what a program does, if another test starts it as a process: TensorFlow, which
    takes seconds to import, is here already.
    """
    command = importlib.import_module(f"clarel_tf.commands.{program.removesuffix('_main.py')}")
    known, code, before = set(flags.FLAGS), 0, Path.cwd()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(mock.patch.object(sys, "argv", [program, *arguments]))
        stack.enter_context(mock.patch.dict(os.environ))  # programs set variables of TensorFlow
        # absl's own would change the logging of the whole process.
        stack.enter_context(mock.patch.object(app, "run", _parse_and_run))
        try:
            os.chdir(cwd or before)
            command.run()
        except SystemExit as end:
            code = end.code or 0
        finally:
            os.chdir(before)
            for name in set(flags.FLAGS) - known:
                delattr(flags.FLAGS, name)
            flags.FLAGS.unparse_flags()
    return subprocess.CompletedProcess([program, *arguments], code, out.getvalue(), err.getvalue())


def _parse_and_run(main, flags_parser) -> None:
    main(flags_parser(sys.argv))
