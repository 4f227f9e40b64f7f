"""Connections between workers, with heartbeats and the stage of each worker.

A worker sends on the connections that it opened and receives on those that the others opened.
Every few seconds it sends its stage: `here`; `ready`, when it has heard from all others; `joined`,
when TensorFlow has added it to the cluster. A worker is gone if its connection ends or if it is
silent for too long. A worker that gives up sends the reason, so all end with the same message.
"""

import contextlib
import dataclasses
import selectors
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clarel_tf.errors import ClarelError

HERE, READY, JOINED = range(3)
_LINES = (b"here", b"ready", b"joined")
_GONE = b"gone "
_BEAT = 3.0  # seconds between heartbeats
_SILENCE = 40.0  # seconds without a heartbeat after which a worker is gone
_LONGEST_LINE = 4096


@dataclasses.dataclass
class Heard:
    """The state of another worker, as last received.

    Attributes:
      connection: opened by that worker; None if it was closed in order.
      pending: an incomplete line.
      stage: stage of that worker.
      last: time of the last message, by the monotonic clock.
    """

    connection: socket.socket | None
    pending: bytes = b""
    stage: int = HERE
    last: float = dataclasses.field(default_factory=time.monotonic)


class Peers:
    """The other workers of a cluster, by number.

    Attributes:
      stage: stage of this worker.
      told: connections that this worker has opened.
      heard: states of the other workers.
      is_mute: send no heartbeats; for a watcher whose worker is stopped.
    """

    def __init__(self, addresses: Sequence[str], own: int):
        self.addresses, self.own = list(addresses), own
        self.others = set(range(len(addresses))) - {own}
        self.stage, self.is_mute = HERE, False
        self.told: dict[int, socket.socket] = {}
        self.heard: dict[int, Heard] = {}
        self._last_beat = 0.0

    def name(self, worker: int) -> str:
        """`worker 1 (host1:2222)`."""
        return f"worker {worker} ({self.addresses[worker]})"

    def are_all(self, stage: int) -> bool:
        """True if this worker and all others have reached `stage`."""
        others = [self.heard[worker].stage for worker in self.others if worker in self.heard]
        return len(others) == len(self.others) and min([self.stage, *others]) >= stage

    def advance(self, stage: int) -> None:
        """Sets the stage of this worker and sends it at once."""
        self.stage, self._last_beat = stage, 0.0
        self._beat()

    def listen(self, seconds: float, also: Iterable[Any] = ()) -> list[Any]:
        """Receives messages for at most `seconds`; ClarelError if a worker is gone.

        Returns:
          The members of `also` (sockets or file descriptors) that are readable.
        """
        self._beat()
        with selectors.DefaultSelector() as selector:
            for worker, heard in self.heard.items():
                if heard.connection:
                    selector.register(heard.connection, selectors.EVENT_READ, worker)
            for one in also:
                selector.register(one, selectors.EVENT_READ)
            events = [key for key, _ in selector.select(seconds)]
        for key in events:
            if key.data is not None:
                self._read(key.data)
        # After reading, so that messages count that arrived while this process slept.
        for worker, heard in self.heard.items():
            if heard.connection and time.monotonic() - heard.last > _SILENCE:
                raise ClarelError(
                    f"{self.name(worker)} has sent nothing for {_SILENCE:.0f} seconds. See "
                    "whether it still runs and can be reached, and start all workers again"
                )
        return [key.fileobj for key in events if key.data is None]

    @contextlib.contextmanager
    def giving_up_together(self) -> Iterator[None]:
        """If the block raises, sends the reason to the other workers and closes all connections."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, ClarelError):
                self._tell(_GONE + " ".join(str(error).split()).encode()[:2000])
            self.close()
            raise

    def close(self) -> None:
        """Closes all connections in this process."""
        for heard in self.heard.values():
            if heard.connection:
                heard.connection.close()
        for connection in self.told.values():
            connection.close()

    def take(self, worker: int, data: bytes) -> None:
        """Processes data from a worker: several lines, or part of one."""
        heard = self.heard[worker]
        *lines, heard.pending = (heard.pending + data).split(b"\n")
        for line in lines:
            if line.startswith(_GONE):
                raise ClarelError(line.removeprefix(_GONE).decode(errors="replace"))
            if line in _LINES:
                heard.stage = max(heard.stage, _LINES.index(line))

    def _beat(self) -> None:
        if not self.is_mute and time.monotonic() - self._last_beat >= _BEAT:
            self._tell(_LINES[self.stage])
            self._last_beat = time.monotonic()

    def _tell(self, line: bytes) -> None:
        for worker, connection in list(self.told.items()):
            try:
                connection.send(line + b"\n")
            except BlockingIOError:
                pass  # it does not read; its missing heartbeats will tell
            except OSError:
                self.told.pop(worker).close()

    def _read(self, worker: int) -> None:
        heard = self.heard[worker]
        assert heard.connection is not None  # only open connections are read
        try:
            data = heard.connection.recv(_LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        heard.last = time.monotonic()
        self.take(worker, data)
        if not data or len(heard.pending) > _LONGEST_LINE:
            heard.connection.close()
            heard.connection = None
            # No worker leaves before all have joined.
            if min(self.stage, heard.stage) < JOINED:
                raise ClarelError(
                    f"{self.name(worker)} ended while the workers were starting. Its own message "
                    "says why; start all workers again"
                )
