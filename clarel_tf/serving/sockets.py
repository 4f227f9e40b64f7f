"""Sockets that respect the deadline of a call in every operation."""

import io
import queue
import selectors
import socket
import ssl
import threading
from typing import Any

from clarel_tf.errors import brief
from clarel_tf.serving.calls import MAX_ANSWER_BYTES, Deadline, ServingError, TooLarge

_BLOCK = 1 << 16


class TimedSocket:
    """The socket interface that `http.client` needs, with a deadline for every operation."""

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self.deadline = Deadline(0)

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(self.deadline.left())
            view = view[self._sock.send(view) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Receiver(self._sock, self.deadline), _BLOCK)

    def is_quiet(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            return not selector.select(0)

    def close(self) -> None:
        """Does nothing: `http.client` calls it before the last answer is read."""

    def end(self) -> None:
        """Closes the socket."""
        self._sock.close()


class _Receiver(io.RawIOBase):
    """Reads one answer from a socket, with limits on time and bytes."""

    def __init__(self, sock: socket.socket, deadline: Deadline):
        self._sock, self._deadline = sock, deadline
        self._bytes_left = 2 * MAX_ANSWER_BYTES  # includes heads and chunk sizes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        count = self._sock.recv_into(buffer)
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise answer_too_large()
        return count


def open_socket(
    host: str, port: int, tls: ssl.SSLContext | None, deadline: Deadline
) -> socket.socket:
    """A connected socket, after the TLS handshake if there is a TLS context.

    The time left is shared equally among the addresses of the host that are still to be tried.
    """
    addresses = _look_up(host, port, deadline)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = None
        try:
            sock = socket.socket(family, kind, protocol)
            sock.settimeout(deadline.left() / (len(addresses) - number))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                return sock
            sock.settimeout(deadline.left())  # limits the whole handshake
            return tls.wrap_socket(sock, server_hostname=host)
        except BaseException as error:
            if sock is not None:  # the machine may not support this address family
                sock.close()
            is_last = number + 1 == len(addresses)
            if is_last or not isinstance(error, OSError) or isinstance(error, ssl.SSLError):
                raise
    raise ServingError(f"{host} has no address")


def _look_up(host: str, port: int, deadline: Deadline) -> list[tuple]:
    """The addresses of a host; looked up in a thread, because the lookup has no time limit."""
    found: queue.SimpleQueue[list[tuple] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.put(error)

    threading.Thread(target=look_up, daemon=True).start()
    try:
        outcome = found.get(timeout=deadline.left())
    except queue.Empty:
        raise deadline.missed() from None
    if isinstance(outcome, Exception):
        raise ServingError(f"cannot find the host {host} ({brief(outcome)})") from outcome
    return outcome


def answer_too_large() -> TooLarge:
    """The error for an answer beyond the size limit."""
    return TooLarge(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
