"""Calls to a server end in time and are tried again where that is safe, over real sockets."""

import contextlib
import socket
import threading
import time

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


@pytest.mark.parametrize("way", SLOW)
def test_a_server_that_dribbles(way):
    at_once, slowly = SLOW[way]

    def talk(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(at_once)
        dribble(sock, slowly, 10) if slowly else time.sleep(10)

    with talking(talk) as port, ends_in_time():
        connect(f"http://127.0.0.1:{port}", TIMEOUT).embed_texts(["a bird"])


def test_a_server_that_floods_with_interim_answers():
    def talk(sock: socket.socket) -> None:
        read_request(sock)
        while True:
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 10)
            time.sleep(0.01)

    with talking(talk) as port, ends_in_time():
        connect(f"http://127.0.0.1:{port}", TIMEOUT).embed_texts(["a bird"])


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


def test_a_grpc_server_that_dribbles():
    settings, ping = bytes([0, 0, 0, 4, *[0] * 5]), bytes([0, 0, 8, 6, *[0] * 13])

    def talk(sock: socket.socket) -> None:
        sock.sendall(settings)
        dribble(sock, ping, 10)

    with talking(talk) as port, ends_in_time():
        connect(f"127.0.0.1:{port}", TIMEOUT).embed_texts(["a bird"])


def test_a_server_that_does_not_read():
    features = np.ones((1, 4_000_000), np.float32)
    with talking(lambda sock: time.sleep(10)) as port, ends_in_time(TIMEOUT + 4):
        connect(f"http://127.0.0.1:{port}", TIMEOUT + 4).embed_images(features)


@pytest.mark.parametrize("scheme", ["http", "https", "grpc", "grpcs"])
def test_a_server_that_does_not_let_us_in(scheme):
    # Nobody accepts: the queue of connections is full, and further ones are not answered.
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listening.getsockname()
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        with ends_in_time():
            connect(f"{scheme}://127.0.0.1:{address[1]}", TIMEOUT).embed_texts(["a bird"])


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_a_handshake_that_dribbles(scheme):
    def talk(sock: socket.socket) -> None:
        sock.recv(4096)
        sock.sendall(b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb\x03\x03")
        dribble(sock, b"\x00", 10)

    with talking(talk) as port, ends_in_time():
        connect(f"{scheme}://127.0.0.1:{port}", TIMEOUT).embed_texts(["a bird"])


def test_an_answer_that_dribbles_through_tls(tmp_path):
    made = make_certificate(tmp_path)

    def talk(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(_HEAD + b"Content-Length: 1000\r\n\r\n")
        dribble(sock, b"1", 10)

    with talking(talk, made.context()) as port, ends_in_time():
        address, authority = f"https://127.0.0.1:{port}", str(made.certificate)
        connect(address, TIMEOUT, ca_file=authority).embed_texts(["a bird"])


def test_all_parts_of_a_call_share_the_time():
    def slow(*_):
        time.sleep(0.25)

    def rest(request):
        slow()
        return ONE

    def by_grpc(request, context):
        slow()
        return embedding()

    with answering(rest) as first, grpc_answering(by_grpc) as second:
        for address in (first, second):
            client = connect(address, TIMEOUT, batch_size=1)
            assert client.embed_texts(["a bird"]).shape == (1, 2)
            with ends_in_time():
                client.embed_texts(["a bird"] * 10)


def test_a_host_with_a_dead_address_first(monkeypatch):
    """The time is shared among the addresses, so that a later one gets its turn."""
    with contextlib.ExitStack() as stack:
        dead = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(dead.getsockname())
        alive = stack.enter_context(answering(lambda request: ONE))
        ports = [dead.getsockname()[1], int(alive.rsplit(":", 1)[1])]

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


def test_a_server_that_starts_a_moment_later():
    port = free_port()
    for address in (f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"):
        started = time.monotonic()
        with pytest.raises(ServingError, match=r"no server listens|UNAVAILABLE"):
            connect(address, 5.0).embed_texts(["a bird"])
        assert 0.6 < time.monotonic() - started < 2.5  # waits of 0.1, 0.2 and 0.4 s

    def late_rest() -> None:
        time.sleep(0.2)
        with socket.create_server(("127.0.0.1", port)) as listening:
            sock, _ = listening.accept()
            with sock:
                read_request(sock)
                sock.sendall(ONE)

    thread = threading.Thread(target=late_rest)
    thread.start()
    assert connect(f"http://127.0.0.1:{port}", 5.0).embed_texts(["a bird"]).shape == (1, 2)
    thread.join()
    port, done = free_port(), threading.Event()

    def late_grpc() -> None:
        time.sleep(0.2)
        with grpc_answering(lambda *_: embedding(), address=f"127.0.0.1:{port}"):
            done.wait(10)

    thread = threading.Thread(target=late_grpc)
    thread.start()
    assert connect(f"127.0.0.1:{port}", 5.0).embed_texts(["a bird"]).shape == (1, 2)
    done.set()
    thread.join()


@pytest.mark.parametrize(("failures", "tries"), [(3, 4), (4, 4)])
def test_a_busy_server_is_asked_four_times(failures, tries):
    asked = []

    def rest(request):
        asked.append(request)
        return response({"error": "busy"}, "503 No") if len(asked) <= failures else ONE

    def by_grpc(request, context):
        import grpc

        asked.append(request)
        if len(asked) <= failures:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        return embedding()

    with answering(rest) as first, grpc_answering(by_grpc) as second:
        for address in (first, second):
            asked.clear()
            client = connect(address, 5.0)
            if failures < tries:
                assert client.embed_texts(["a bird"]).shape == (1, 2)
            else:
                with pytest.raises(ServingError, match="busy"):
                    client.embed_texts(["a bird"])
            assert len(asked) == tries


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
