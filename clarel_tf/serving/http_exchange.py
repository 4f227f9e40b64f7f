"""HTTP requests on kept-alive connections that never outlast the deadline.

`http.client` reads and writes through `TimedSocket`. Each receive and each send is limited to the
time left of the call, so a server that sends a byte now and then cannot extend it.
"""

import contextlib
import http.client
import ssl
import threading
import zlib
from typing import NamedTuple

from clarel_tf.errors import brief, printable
from clarel_tf.serving.address import Server
from clarel_tf.serving.calls import MAX_ANSWER_BYTES, Deadline, Dropped, ServingError, Unavailable
from clarel_tf.serving.sockets import TimedSocket, answer_too_large, open_socket

_MAX_IDLE = 16  # connections kept for the next request
_DROPPED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
_BLOCK = 1 << 16


class HttpAnswer(NamedTuple):
    """A whole answer, decompressed."""

    status: int
    reason: str
    location: str | None  # where a redirect leads
    body: bytes


class HttpExchange:
    """HTTP connections to one server; threads may share it."""

    def __init__(self, server: Server):
        self._server = server
        self._tls = server.tls_context() if server.is_secure else None
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    def post(self, path: str, body: bytes, deadline: Deadline) -> HttpAnswer:
        """Sends one request and reads the whole answer.

        Raises:
          Unavailable: no server listens there.
          Dropped: a kept-alive connection was closed; all kept connections are discarded.
          ServingError: no usable answer, or none in time.
        """
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self._server.authorization is not None:
            headers["Authorization"] = self._server.authorization
        connection = self._take() or _Connection(self._server, self._tls)
        is_reused = connection.sock is not None
        try:
            try:
                response = connection.exchange(path, body, headers, deadline)
            except ConnectionRefusedError as error:
                raise Unavailable(f"no server listens there ({brief(error)})") from error
            except _DROPPED as error:
                if is_reused:  # the server closed it, and maybe other idle connections too
                    self._forget_idle()
                    raise Dropped(f"a kept connection was dropped ({brief(error)})") from error
                raise
            answer = _read(response)
        except BaseException as error:
            connection.end()
            if isinstance(error, TimeoutError):
                raise deadline.missed() from error
            if isinstance(error, (OSError, http.client.HTTPException, ValueError, zlib.error)):
                raise ServingError(brief(error)) from error
            raise
        self._keep(connection, response)
        return answer

    def _take(self) -> "_Connection | None":
        """A kept connection that is still open, or None."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_quiet():
                return connection
            connection.end()

    def _keep(self, connection: "_Connection", response: http.client.HTTPResponse) -> None:
        # After an interim answer (1xx), the next request would read the real answer to this one.
        is_open = connection.sock is not None and not response.will_close and response.status >= 200
        with self._lock:
            if is_open and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.end()

    def _forget_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.end()


class _Connection(http.client.HTTPConnection):
    """A connection whose socket is a `TimedSocket`."""

    def __init__(self, server: Server, tls: ssl.SSLContext | None):
        super().__init__(server.host, server.port)
        self._tls = tls
        self._timed: TimedSocket | None = None

    def exchange(
        self, path: str, body: bytes, headers: dict[str, str], deadline: Deadline
    ) -> http.client.HTTPResponse:
        """Sends a request and reads the head of its answer; connects first if necessary."""
        if self.sock is None or self._timed is None:  # head and body in one send
            self._timed = TimedSocket(open_socket(self.host, self.port, self._tls, deadline))
            self.sock = self._timed
        self._timed.deadline = deadline
        with contextlib.suppress(*_DROPPED):  # a server may answer early
            self.request("POST", path, body, headers)
        return self.getresponse()

    def is_quiet(self) -> bool:
        """False if the server has closed the connection or sent unrequested data."""
        return self._timed is not None and self._timed.is_quiet()

    def end(self) -> None:
        """Closes the socket, if it was ever opened."""
        if self._timed is not None:
            self._timed.end()


def _read(response: http.client.HTTPResponse) -> HttpAnswer:
    if (response.length or 0) > MAX_ANSWER_BYTES:
        raise answer_too_large()
    body = bytearray()
    while block := response.read(_BLOCK):
        body += block
        if len(body) > MAX_ANSWER_BYTES:
            raise answer_too_large()
    if response.length:
        raise ServingError(f"the answer ends {response.length} bytes too early")
    encoding = response.headers.get("Content-Encoding", "")
    location = response.headers.get("Location")
    return HttpAnswer(response.status, response.reason, location, _decoded(bytes(body), encoding))


def _decoded(body: bytes, encoding: str) -> bytes:
    """The decompressed body; raises ServingError if it is too large."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ServingError(f"the answer has an unknown encoding, {printable(encoding)[:40]!r}")
    # "deflate" means a zlib header, which some servers leave out.
    is_bare = encoding == "deflate" and (body[0] & 0x0F) != 8
    stream = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else zlib.MAX_WBITS | 32)
    decoded = stream.decompress(body, MAX_ANSWER_BYTES + 1)
    if len(decoded) > MAX_ANSWER_BYTES:
        raise answer_too_large()
    if not stream.eof or stream.unused_data:
        raise ServingError("the compressed answer does not end where it should")
    return decoded
