"""Processes that are the workers of a cluster on this machine."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.programs import ROOT

HELPERS = Path(__file__).resolve().parent


def free_addresses(number: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def start_worker(
    command: list[str], cwd: Path, addresses: list[str], index: int
) -> subprocess.Popen:
    """`command` as one worker; `{worker}` in the command or in the folder becomes its number."""
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}
    if addresses:
        task = {"type": "worker", "index": index}
        env["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    own = [str(part).replace("{worker}", str(index)) for part in (cwd, *command)]
    return subprocess.Popen([sys.executable, *own[1:]], cwd=own[0], env=env, **pipes)


@contextlib.contextmanager
def ended_after(started: list[subprocess.Popen]) -> Iterator[list[subprocess.Popen]]:
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def processes(command: list[str], cwd: Path, workers: int = 0):
    """`command` as the workers of a cluster on this machine; or once, without a cluster."""
    addresses = free_addresses(workers)
    started = [start_worker(command, cwd, addresses, index) for index in range(max(workers, 1))]
    with ended_after(started):
        yield started


def error_line(process: subprocess.Popen, timeout: float) -> str:
    """The one line that a worker ends with, besides exit code 1."""
    _, err = process.communicate(timeout=timeout)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    (message,) = [line for line in err.splitlines() if line.startswith("error: ")]
    return message
