"""Waits until all workers of a cluster are there.

TensorFlow would do that by itself, but for an hour, and deaf to Ctrl-C and SIGTERM.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Sequence

from clarel_tf.errors import ClarelError


def meet(addresses: Sequence[str], own: int, patience: float) -> None:
    """Returns when every worker has reached every other one at its own address.

    Args:
      addresses: `host:port` of each worker. The port is free again afterwards.
      own: which of them this one is.
      patience: seconds to wait.
    """
    others = set(range(len(addresses))) - {own}
    reached: set[int] = set()
    heard: set[int] = set()
    deadline = time.monotonic() + patience
    with _answering(addresses[own], own, heard):
        while reached & heard != others:
            reached |= {i for i in others - reached if _reach(addresses[i], own, i)}
            if time.monotonic() > deadline:
                missing = ", ".join(f"{i} ({addresses[i]})" for i in others - (reached & heard))
                raise ClarelError(
                    f"worker {own} waited {patience:.0f} seconds for worker {missing}; start all "
                    "workers of TF_CONFIG, and see that their addresses can be reached"
                )
            time.sleep(0.1)


def _reach(address: str, own: int, other: int) -> bool:
    """Tells the worker at `address` who is there; whether it is `other` that answers."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=2) as connection:
            connection.sendall(b"%d\n" % own)
            return connection.recv(16) == b"%d\n" % other
    except OSError:
        return False


@contextlib.contextmanager
def _answering(address: str, own: int, heard: set[int]):
    """Answers the others meanwhile, and puts down in `heard` who has called."""
    try:
        server = socket.create_server(("", int(address.rsplit(":", 1)[1])))
    except OSError as error:
        raise ClarelError(f"worker {own} cannot listen at {address}: {error.strerror}") from error
    done = threading.Event()

    def answer() -> None:
        while not done.is_set():
            # A caller that says nothing, or nonsense, is none of ours.
            with contextlib.suppress(OSError, ValueError):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(2)
                    caller = int(connection.recv(16))
                    connection.sendall(b"%d\n" % own)
                heard.add(caller)

    server.settimeout(0.2)
    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        server.close()
