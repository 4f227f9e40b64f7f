"""Ends this worker if another one is gone while TensorFlow joins the cluster.

TensorFlow holds Python's global lock during the join, so no Python thread and no Python signal
handler can run. A second process talks to the other workers meanwhile. If one of them is gone, it
prints the message and ends this process.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clarel_tf.errors import ClarelError
from clarel_tf.training.distributed.peers import JOINED, READY, Heard, Peers

_JOINED = b"joined\n"
# Isolated: neither the current folder nor the environment affects imports.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from clarel_tf.training.distributed.join_watch import watch; watch(sys.argv[2])"
)


@contextlib.contextmanager
def watched(peers: Peers) -> Iterator[None]:
    """Watches the other workers while the block joins the cluster; returns when all have joined.

    If another worker is gone before that, this process ends with exit code 1 and one line that
    names it. The watcher owns the connections of `peers` from now on.
    """
    if not peers.others:
        yield
        return
    before = signal.getsignal(signal.SIGHUP)
    _exit_on_hangup()
    try:
        with _watcher(peers) as process:
            assert process.stdin is not None  # a pipe
            yield
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(_JOINED)
                process.stdin.flush()
                process.wait()
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL if before is None else before)


def _exit_on_hangup() -> None:
    """Makes SIGHUP end this process with exit code 1, even while TensorFlow holds Python's lock.

    The handler is `_exit` of the C library. It is called with the number of the signal, which is 1.
    """
    library = ctypes.CDLL(None)
    library.signal.argtypes, library.signal.restype = [ctypes.c_int, ctypes.c_void_p], None
    library.signal(signal.SIGHUP, ctypes.cast(library._exit, ctypes.c_void_p))


@contextlib.contextmanager
def _watcher(peers: Peers) -> Iterator[subprocess.Popen]:
    """The second process; it ends when its standard input does."""
    told = {worker: connection.fileno() for worker, connection in peers.told.items()}
    heard: dict[int, list[Any]] = {}
    for worker, one in peers.heard.items():
        assert one.connection is not None  # no worker leaves before all have joined
        heard[worker] = [one.connection.fileno(), one.pending.decode("latin-1"), one.stage]
    who = {"addresses": peers.addresses, "own": peers.own, "process": os.getpid()}
    state = {**who, "told": told, "heard": heard}
    package = str(Path(__file__).resolve().parents[3])
    command = [sys.executable, "-I", "-c", _PROGRAM, package, json.dumps(state)]
    passed = [*told.values(), *(one[0] for one in heard.values())]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=passed)
    finally:
        peers.close()
    assert process.stdin is not None  # a pipe
    try:
        yield process
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()


def watch(state: str) -> None:
    """The second process: talks to the other workers until all have joined.

    Args:
      state: the worker's process and its connections, as JSON.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker
    worker, peers = json.loads(state)["process"], _peers(json.loads(state))
    try:
        with peers.giving_up_together():
            while not peers.are_all(JOINED):
                peers.is_mute = _is_stopped(worker)
                if not peers.listen(0.5, [sys.stdin.fileno()]):
                    continue
                if os.read(sys.stdin.fileno(), 64) != _JOINED:
                    return  # the worker has ended
                peers.advance(JOINED)
    except ClarelError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        _end(worker)


def _peers(state: dict[str, Any]) -> Peers:
    peers = Peers(state["addresses"], state["own"])
    peers.stage = READY
    for worker, number in state["told"].items():
        peers.told[int(worker)] = _connection(number)
    for worker, (number, pending, stage) in state["heard"].items():
        peers.heard[int(worker)] = Heard(_connection(number), pending.encode("latin-1"), stage)
    return peers


def _connection(number: int) -> socket.socket:
    """A connection inherited from the worker, by its file descriptor."""
    connection = socket.socket(fileno=number)
    connection.setblocking(False)
    return connection


def _is_stopped(process: int) -> bool:
    """True if the process is stopped (SIGSTOP); False on systems without /proc."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "T"


def _end(worker: int) -> None:
    """Ends the worker with SIGHUP, or with SIGKILL if it still runs after five seconds."""
    for number, seconds in ((signal.SIGHUP, 5.0), (signal.SIGKILL, 0.0)):
        if os.getppid() == worker:
            os.kill(worker, number)
        deadline = time.monotonic() + seconds
        while os.getppid() == worker and time.monotonic() < deadline:
            time.sleep(0.05)
