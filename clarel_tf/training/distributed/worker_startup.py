"""Waits until all workers of a cluster are present and run the same software.

TensorFlow would wait too, but for an hour, and without reacting to Ctrl-C and SIGTERM.
"""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Sequence

from clarel_tf.errors import ClarelError
from clarel_tf.training.distributed.peers import READY, Heard, Peers
from clarel_tf.training.distributed.source_hash import differences

# The first line on a connection: the worker's number and its software, in printable ASCII.
_HELLO = re.compile(rb"clarel_tf worker ([0-9]{1,6}) ([ -~]{0,1000})")
_LONGEST_HELLO = 2048
_TIME_FOR_HELLO = 5.0
_MOST_CALLERS = 64
# A worker of an older release sends only its number, and answers a number with its own.
_OLD_HELLO = re.compile(rb"[0-9]{1,6}")


def meet(addresses: Sequence[str], own: int, patience: float, software: str = "") -> Peers:
    """Returns when all workers are connected with each other.

    No worker returns before all are ready.

    Args:
      addresses: `host:port` of each worker. The port is free again afterwards.
      own: index of this worker.
      patience: seconds to wait for missing workers.
      software: must be equal on all workers; see `source_hash.software`.

    Returns:
      The connections to the other workers; the caller closes them.
    """
    peers = Peers(addresses, own)
    deadline = time.monotonic() + patience
    with (
        peers.giving_up_together(),
        contextlib.closing(_Door(peers, software)) as door,
        contextlib.closing(_Dialler(peers, software)) as dialler,
    ):
        while not peers.are_all(READY):
            dialler.call_the_others()
            for connection in peers.listen(0.1, door.sockets()):
                door.answer(connection)
            if peers.stage < READY and door.have_all_met():
                door.check_software()
                peers.advance(READY)
            if time.monotonic() > deadline:
                raise ClarelError(_waited_in_vain(peers, patience))
    return peers


def _waited_in_vain(peers: Peers, patience: float) -> str:
    missing = peers.others - (peers.heard.keys() & peers.told.keys())
    missing = missing or {i for i in peers.others if peers.heard[i].stage < READY}
    names = ", ".join(peers.name(worker) for worker in sorted(missing))
    return (
        f"worker {peers.own} waited {patience:.0f} seconds for {names}; start all workers of "
        "TF_CONFIG, and see that their addresses can be reached"
    )


def _hello(own: int, software: str) -> bytes:
    return b"clarel_tf worker %d %s\n" % (own, software.encode())


class _Dialler:
    """Opens a connection to each other worker, in threads, because name lookup can be slow."""

    def __init__(self, peers: Peers, software: str):
        self._peers, self._hello = peers, _hello(peers.own, software)
        self._threads: dict[int, threading.Thread] = {}
        self._is_over = threading.Event()

    def call_the_others(self) -> None:
        """Starts a thread for each worker that is not connected and has none."""
        for worker in self._peers.others:
            before = self._threads.get(worker)
            # In this order: a thread reports its connection before it ends.
            if not (before and before.is_alive()) and worker not in self._peers.told:
                thread = threading.Thread(target=self._call, args=(worker,), daemon=True)
                self._threads[worker] = thread
                thread.start()

    def close(self) -> None:
        self._is_over.set()

    def _call(self, worker: int) -> None:
        host, port = self._peers.addresses[worker].rsplit(":", 1)
        while not self._is_over.is_set():
            with contextlib.suppress(OSError, UnicodeError):
                connection = socket.create_connection((host, int(port)), timeout=2)
                # A connection to a local port without a listener can connect to itself.
                if connection.getsockname() != connection.getpeername():
                    connection.sendall(self._hello)
                    connection.setblocking(False)
                    self._peers.told[worker] = connection
                    if self._is_over.is_set():
                        connection.close()
                    return
                connection.close()
            self._is_over.wait(0.2)


class _Door:
    """Listens at the worker's own address; closes connections without a hello in time."""

    def __init__(self, peers: Peers, software: str):
        self._peers = peers
        self._software = {peers.own: software}
        self._callers: dict[socket.socket, Heard] = {}
        self._old: set[int] = set()
        self._asking: threading.Thread | None = None
        address = peers.addresses[peers.own]
        try:
            self._server = socket.create_server(("", int(address.rsplit(":", 1)[1])))
        except OSError as error:
            raise ClarelError(
                f"worker {peers.own} cannot listen at {address}: {error.strerror}"
            ) from error
        self._server.setblocking(False)

    def sockets(self) -> list[socket.socket]:
        """The sockets to read from."""
        oldest_first = list(self._callers)
        for connection in oldest_first[: max(0, len(oldest_first) - _MOST_CALLERS)]:
            self._send_away(connection)
        for connection, caller in list(self._callers.items()):
            if time.monotonic() - caller.last > _TIME_FOR_HELLO:
                self._send_away(connection)
        return [self._server, *self._callers]

    def answer(self, connection: socket.socket) -> None:
        """Accepts a connection, or reads the hello of one."""
        if connection is not self._server:
            self._hear(connection)
            return
        with contextlib.suppress(OSError):
            caller, _ = self._server.accept()
            caller.setblocking(False)
            self._callers[caller] = Heard(caller)

    def have_all_met(self) -> bool:
        """True if this worker and each other worker have exchanged hellos."""
        met = self._peers.heard.keys() & self._peers.told.keys()
        return self._peers.others <= met | self._old_workers()

    def check_software(self) -> None:
        """Raises ClarelError if a worker runs other software than the majority."""
        complaints = [
            f"{self._peers.name(worker)} runs other software than the others: {what}"
            for worker, what in differences(self._software).items()
        ]
        complaints += [
            f"{self._peers.name(worker)} runs an older release of clarel_tf"
            for worker in sorted(self._old_workers())
        ]
        if complaints:
            raise ClarelError("; ".join(complaints) + ". Install the same on all workers")

    def close(self) -> None:
        self._server.close()
        for connection in list(self._callers):
            self._send_away(connection)

    def _old_workers(self) -> set[int]:
        return self._old - self._peers.heard.keys()

    def _ask_back(self, worker: int) -> None:
        """Finds out whether the worker at an address runs an older release."""
        host, port = self._peers.addresses[worker].rsplit(":", 1)
        with (
            contextlib.suppress(OSError, UnicodeError),
            socket.create_connection((host, int(port)), timeout=2) as connection,
        ):
            connection.sendall(b"%d\n" % self._peers.own)
            if connection.recv(16) == b"%d\n" % worker:
                self._old.add(worker)

    def _hear(self, connection: socket.socket) -> None:
        caller = self._callers[connection]
        try:
            data = connection.recv(_LONGEST_HELLO)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        line, newline, rest = (caller.pending + data).partition(b"\n")
        caller.pending = line
        if not newline:
            if not data or len(line) > _LONGEST_HELLO:
                self._send_away(connection)
            return
        hello = _HELLO.fullmatch(line)
        if hello and int(hello[1]) in self._peers.others - self._peers.heard.keys():
            del self._callers[connection]
            self._peers.heard[int(hello[1])] = Heard(connection)
            self._software[int(hello[1])] = hello[2].decode()
            # Its later messages may have arrived together with its hello.
            self._peers.take(int(hello[1]), rest)
            return
        self._send_away(connection)
        is_old = _OLD_HELLO.fullmatch(line) and int(line) in self._peers.others
        if is_old and not (self._asking and self._asking.is_alive()):
            self._asking = threading.Thread(target=self._ask_back, args=(int(line),), daemon=True)
            self._asking.start()

    def _send_away(self, connection: socket.socket) -> None:
        self._callers.pop(connection, None)
        connection.close()
