"""Calls to a server end in time and are tried again where that is safe, over real sockets."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from clarel_tf.errors import ClarelError
from clarel_tf.serving.client import ServingError, connect
from tests.helpers.hostile_servers import (
    answering,
    dribble,
    grpc_answering,
    make_certificate,
    read_request,
    response,
    talking,
)

TIMEOUT = 0.6
ONE = response({"outputs": [[1.0, 2.0]]})
_HEAD = b"HTTP/1.1 200 OK\r\n"


def embedding(count: int = 1) -> predict_pb2.PredictResponse:
    answer = predict_pb2.PredictResponse()
    answer.outputs["embedding"].CopyFrom(tf.make_tensor_proto(np.ones((count, 2), np.float32)))
    return answer


def at_once(call: Callable[[str], Any], addresses: Iterable[str]) -> list[Any]:
    """What `call` gives for each address, asked in threads, so that nobody waits for another."""
    addresses = list(addresses)
    with ThreadPoolExecutor(len(addresses)) as pool:
        return list(pool.map(call, addresses))


@contextlib.contextmanager
def ends_in_time(seconds: float = TIMEOUT):
    started = time.monotonic()
    with pytest.raises(ServingError, match="no whole answer within"):
        yield
    assert time.monotonic() - started < seconds + 1.0


# What a server sends at once, and what it sends byte by byte for ever after.
SLOW = {
    "nothing": (b"", b""),
    "status line": (b"", b"HTTP/1.1 200 O" + b"K" * 60),
    "headers": (_HEAD, b"X-More: yes\r\n"),
    "one header": (_HEAD + b"X-Long: ", b"y"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (_HEAD + b"Content-Length: 1000\r\n\r\n", b"1"),
    "body without a length": (_HEAD + b"\r\n", b" "),
    "chunk size": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "chunks": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n1\r\n"),
    "trailer": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-More: yes\r\n"),
}
Talk = Callable[[socket.socket], None]


def dribbling(at_once: bytes, slowly: bytes) -> Talk:
    def talk(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(at_once)
        dribble(sock, slowly, 10) if slowly else time.sleep(10)

    return talk


def flooding(sock: socket.socket) -> None:
    read_request(sock)
    while True:
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 10)
        time.sleep(0.01)


def dribbling_grpc(sock: socket.socket) -> None:
    settings, ping = bytes([0, 0, 0, 4, *[0] * 5]), bytes([0, 0, 8, 6, *[0] * 13])
    sock.sendall(settings)
    dribble(sock, ping, 10)


def dribbling_handshake(sock: socket.socket) -> None:
    sock.recv(4096)
    sock.sendall(b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb\x03\x03")
    dribble(sock, b"\x00", 10)


# The scheme of an address, what its server does, and whether it does that through TLS.
KEEP_WAITING: dict[str, tuple[str, Talk, bool]] = {
    **{f"dribbles: {way}": ("http", dribbling(*SLOW[way]), False) for way in SLOW},
    "floods with interim answers": ("http", flooding, False),
    "dribbles: grpc": ("grpc", dribbling_grpc, False),
    "dribbles: handshake of https": ("https", dribbling_handshake, False),
    "dribbles: handshake of grpcs": ("grpcs", dribbling_handshake, False),
    "dribbles: through tls": ("https", dribbling(*SLOW["body"]), True),
}
LET_NOBODY_IN = ("http", "https", "grpc", "grpcs")


@contextlib.contextmanager
def letting_nobody_in() -> Iterator[int]:
    """The port of a server that accepts nobody: its queue is full, so nothing is answered."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@pytest.fixture(scope="module")
def ends(tmp_path_factory) -> dict[str, tuple[Exception | None, float]]:
    """What a call to each of those servers ended with, and after how long: all at the same time."""
    made = make_certificate(tmp_path_factory.mktemp("certificate"))

    def call(address: str) -> tuple[Exception | None, float]:
        authority = str(made.certificate) if address.startswith("https") else None
        client = connect(address, TIMEOUT, ca_file=authority)
        started, error = time.monotonic(), None
        try:
            client.embed_texts(["a bird"])
        except Exception as raised:
            error = raised
        return error, time.monotonic() - started

    with contextlib.ExitStack() as stack:
        addresses = {
            name: f"{scheme}://127.0.0.1:"
            f"{stack.enter_context(talking(talk, made.context() if has_tls else None))}"
            for name, (scheme, talk, has_tls) in KEEP_WAITING.items()
        }
        for scheme in LET_NOBODY_IN:
            port = stack.enter_context(letting_nobody_in())
            addresses[f"lets nobody in: {scheme}"] = f"{scheme}://127.0.0.1:{port}"
        return dict(zip(addresses, at_once(call, addresses.values()), strict=True))


@pytest.mark.parametrize(
    "server", [*KEEP_WAITING, *(f"lets nobody in: {scheme}" for scheme in LET_NOBODY_IN)]
)
def test_a_server_that_keeps_us_waiting(server, ends):
    error, seconds = ends[server]
    assert isinstance(error, ServingError) and "no whole answer within" in str(error), error
    assert seconds < TIMEOUT + 1.0


@pytest.mark.parametrize("unit", [b"[],", b"[1.5],", b"1,", b'"",'])
def test_an_answer_that_takes_long_to_read(unit):
    """Millions of small values in one answer: no deadline interrupts taking them apart."""
    many = b'{"outputs":[' + unit * ((15 << 20) // len(unit)) + unit[:-1] + b"]}"
    with answering(lambda request: response(many)) as address:
        started = time.monotonic()
        with pytest.raises(ServingError, match="too many values"):
            connect(address, 5.0).embed_texts(["a bird"])
        assert time.monotonic() - started < 5


def test_numbers_that_take_long_to_read():
    # Half-way between two floats, which takes many digits to see.
    number = b"9007199254740993." + b"0" * 700 + b"1"
    many = b'{"outputs":[[' + (number + b",") * 20_000 + b"1]]}"
    with (
        answering(lambda request: response(many)) as address,
        pytest.raises(ServingError, match="a number of 40 digits"),
    ):
        connect(address, 5.0).embed_texts(["a bird"])


def test_a_grpc_answer_of_many_dimensions():
    answer = embedding()
    shape = answer.outputs["embedding"].tensor_shape
    shape.MergeFromString(b"\x12\x00" * (1 << 21))  # so many dimensions of size 0
    message = answer.SerializeToString()
    with (
        grpc_answering(lambda *_: message) as address,
        pytest.raises(ServingError, match="one or two dimensions"),
    ):
        connect(address, 20.0).embed_texts(["a bird"])


def test_an_answer_that_was_read_too_late_is_not_believed():
    whole = b'{"outputs":[[' + b"1.5," * 500_000 + b"1]]}"

    def talk(sock: socket.socket) -> None:
        read_request(sock)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
        sock.sendall(head + whole[:-1])
        time.sleep(0.45)
        sock.sendall(whole[-1:])
        time.sleep(5)

    with talking(talk) as port, pytest.raises(ServingError, match="no whole answer within"):
        connect(f"http://127.0.0.1:{port}", 0.46).embed_texts(["a bird"])


def test_a_grpc_answer_that_takes_long_to_read():
    answer, count = predict_pb2.PredictResponse(), 1 << 19
    for name in "abcdefgh":
        answer.outputs[name].CopyFrom(embedding().outputs["embedding"])
        answer.outputs[name].string_val.extend([b""] * count)
    message = answer.SerializeToString()
    with grpc_answering(lambda *_: message) as address:
        started = time.monotonic()
        with pytest.raises(ServingError, match="too many values"):
            connect(address, 5.0).embed_texts(["a bird"])
        assert time.monotonic() - started < 5


def test_a_server_that_does_not_read():
    long = "a" * (16 << 20)  # more than the buffers of a connection hold
    with talking(lambda sock: time.sleep(10)) as port, ends_in_time():
        connect(f"http://127.0.0.1:{port}", TIMEOUT).embed_texts([long])


def test_all_parts_of_a_call_share_the_time():
    def slow(*_):
        time.sleep(0.25)

    def rest(request):
        slow()
        return ONE

    def by_grpc(request, context):
        slow()
        return embedding()

    def call(address: str) -> None:
        client = connect(address, TIMEOUT, batch_size=1)
        assert client.embed_texts(["a bird"]).shape == (1, 2)
        with ends_in_time():
            client.embed_texts(["a bird"] * 10)

    with answering(rest) as first, grpc_answering(by_grpc) as second:
        at_once(call, (first, second))


def test_a_host_with_a_dead_address_first(monkeypatch):
    """The time is shared among the addresses, so that a later one gets its turn."""
    with letting_nobody_in() as dead, answering(lambda request: ONE) as alive:
        ports = [dead, int(alive.rsplit(":", 1)[1])]

        def look_up(host, port, **kwargs):
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            unknown = (99, socket.SOCK_STREAM, 6, "", ("::1", port))  # a family we do not have
            return [unknown, *((*kind, ("127.0.0.1", port)) for port in ports)]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        assert connect("http://two.example", 2.0).embed_texts(["a bird"]).shape == (1, 2)


def test_a_look_up_that_hangs(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(5))
    with ends_in_time():
        connect("http://slow.example", TIMEOUT).embed_texts(["a bird"])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def test_a_server_that_never_starts():
    def call(address: str) -> float:
        started = time.monotonic()
        with pytest.raises(ServingError, match=r"no server listens|UNAVAILABLE"):
            connect(address, 5.0).embed_texts(["a bird"])
        return time.monotonic() - started

    port = free_port()
    for seconds in at_once(call, (f"http://127.0.0.1:{port}", f"127.0.0.1:{port}")):
        assert 0.6 < seconds < 2.5  # waits of 0.1, 0.2 and 0.4 s


def test_a_server_that_starts_a_moment_later():
    rest, by_grpc, done = free_port(), free_port(), threading.Event()

    def late_rest() -> None:
        time.sleep(0.2)
        with socket.create_server(("127.0.0.1", rest)) as listening:
            sock, _ = listening.accept()
            with sock:
                read_request(sock)
                sock.sendall(ONE)

    def late_grpc() -> None:
        time.sleep(0.2)
        with grpc_answering(lambda *_: embedding(), address=f"127.0.0.1:{by_grpc}"):
            done.wait(10)

    def call(address: str) -> np.ndarray:
        return connect(address, 5.0).embed_texts(["a bird"])

    threads = [threading.Thread(target=target) for target in (late_rest, late_grpc)]
    for thread in threads:
        thread.start()
    for answer in at_once(call, (f"http://127.0.0.1:{rest}", f"127.0.0.1:{by_grpc}")):
        assert answer.shape == (1, 2)
    done.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("failures", "tries"), [(3, 4), (4, 4)])
def test_a_busy_server_is_asked_four_times(failures, tries):
    asked = {"rest": 0, "grpc": 0}

    def rest(request):
        asked["rest"] += 1
        return response({"error": "busy"}, "503 No") if asked["rest"] <= failures else ONE

    def by_grpc(request, context):
        asked["grpc"] += 1
        if asked["grpc"] <= failures:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        return embedding()

    def call(address: str) -> None:
        client = connect(address, 5.0)
        if failures < tries:
            assert client.embed_texts(["a bird"]).shape == (1, 2)
        else:
            with pytest.raises(ServingError, match="busy"):
                client.embed_texts(["a bird"])

    with answering(rest) as first, grpc_answering(by_grpc) as second:
        at_once(call, (first, second))
    assert asked == {"rest": tries, "grpc": tries}


def test_other_refusals_are_not_repeated():
    asked = []

    def answer(request):
        asked.append(request)
        return response({"error": "no such thing"}, "500 Broken")

    with answering(answer) as address, pytest.raises(ServingError, match="500 no such thing"):
        connect(address).embed_texts(["a bird"])
    assert len(asked) == 1


def test_tries_do_not_go_beyond_the_deadline():
    with answering(lambda request: response({"error": "busy"}, "503 No")) as address:
        started = time.monotonic()
        with pytest.raises(ServingError, match="busy"):
            connect(address, 0.25).embed_texts(["a bird"])
        assert time.monotonic() - started < 0.25


@pytest.mark.parametrize("is_told", [True, False])
def test_connections_are_kept_and_replaced(is_told):
    """A server closes after every second answer: seen before the next request, or only then."""
    connections, asked = [], []

    def talk(sock: socket.socket) -> None:
        connections.append(sock)
        for number in range(2):
            read_request(sock)
            asked.append(number)
            sock.sendall(ONE)
        if not is_told:
            sock.recv(1)  # closes when the third request has begun

    with talking(talk) as port:
        client = connect(f"http://127.0.0.1:{port}", 5.0)
        started = time.monotonic()
        for _ in range(6):
            assert client.embed_texts(["a bird"]).shape == (1, 2)
            time.sleep(0.02)
        assert time.monotonic() - started < 0.6
    assert len(connections) == 3 and len(asked) == 6


def test_threads_share_a_client():
    with answering(lambda request: ONE) as address:
        client, failures = connect(address), []

        def ask() -> None:
            try:
                for _ in range(20):
                    assert client.embed_texts(["a bird"]).shape == (1, 2)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "5", None, True, 1e9])
def test_impossible_time_outs_are_refused(timeout):
    with pytest.raises(ClarelError, match="timeout must be"):
        connect("http://127.0.0.1:1", timeout)
