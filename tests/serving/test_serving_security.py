"""Addresses, TLS, authorisation, redirects and the size of answers, over real sockets."""

import gzip
import json
import socket
import threading
import time
import zlib

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from clarel_tf.errors import ClarelError
from clarel_tf.serving.address import parse_server
from clarel_tf.serving.calls import MAX_ANSWER_BYTES
from clarel_tf.serving.client import ServingError, connect
from tests.helpers.hostile_servers import (
    answering,
    grpc_answering,
    make_certificate,
    read_request,
    response,
    talking,
)
from tests.helpers.programs import call_program

ONE = {"outputs": [[1.0, 2.0]]}
SECRET = "Bearer s3cret"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def embedding(value: np.ndarray) -> predict_pb2.PredictResponse:
    answer = predict_pb2.PredictResponse()
    answer.outputs["embedding"].CopyFrom(tf.make_tensor_proto(value))
    return answer


@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_tls_and_authorisation(made, kind, tmp_path):
    seen = []

    def rest(request):
        seen.append(request.headers.get("authorization"))
        return response(ONE)

    def by_grpc(request, context):
        seen.append(dict(context.invocation_metadata()).get("authorization"))
        return embedding(np.ones((1, 2), np.float32))

    def server(is_secure: bool):
        if kind == "rest":
            return answering(rest, made.context() if is_secure else None)
        return grpc_answering(by_grpc, made.credentials() if is_secure else None)

    authority = str(made.certificate)
    with server(True) as address:
        address = address if kind == "rest" else f"grpcs://{address}"
        client = connect(address, 5, ca_file=authority, authorization=SECRET)
        for _ in range(3):  # over one connection
            assert client.embed_texts(["a bird"]).shape == (1, 2)
        assert connect(address, 5, ca_file=authority).embed_texts(["a"]).shape == (1, 2)
        assert seen == [SECRET] * 3 + [None]
        # Nobody we trust has signed it; and it is not for a host of another name.
        with pytest.raises(ServingError, match=r"(?i)certificate|handshake|UNAVAILABLE"):
            connect(address, 5).embed_texts(["a bird"])
        with pytest.raises(ServingError, match=r"(?i)certificate|handshake|UNAVAILABLE"):
            other = address.replace("127.0.0.1", "localhost")
            connect(other, 5, ca_file=authority).embed_texts(["a bird"])
        assert len(seen) == 4
    with server(False) as address:
        assert connect(address, 5, authorization=SECRET).embed_texts(["a"]).shape == (1, 2)
        assert seen[-1] == SECRET


def test_secrets_in_plain_text_stay_here():
    for address in ("http://192.0.2.1:8501", "server.example:8500", "grpc://192.0.2.1:8500"):
        with pytest.raises(ClarelError, match="in plain text") as caught:
            connect(address, authorization=SECRET)
        assert "s3cret" not in str(caught.value)
        with pytest.raises(ClarelError, match="ca_file needs https"):
            connect(address, ca_file="ca.pem")
    for bad in ("", " ", "Bearer a\r\nX-Other: b", "Bearer ü", "a\x00"):
        with pytest.raises(ClarelError, match="authorization value must be"):
            connect("https://server.example", authorization=bad)
    for address in ("http://localhost", "http://127.1.2.3:99", "[::1]:8500", "https://a.example"):
        assert "s3cret" not in repr(parse_server(address, authorization=SECRET))


def test_ca_file_must_hold_certificates(tmp_path):
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("empty.pem", "none.pem"):
        for address in ("https://server.example", "grpcs://server.example:8500"):
            with pytest.raises(ClarelError, match="cannot use ca_file"):
                connect(address, ca_file=str(tmp_path / name))


@pytest.mark.parametrize(
    "address",
    [
        *("http://host:99999", "http://host:-1", "http://host:0", "http://host:x", "http://"),
        *("http:///v1", "https://", "ftp://host", "file:///etc/passwd", "unix:/run/x", ""),
        *("host", ":8500", "host:", "host:99999", "grpc://host", "grpcs://:8500", "host:1/path"),
        *("http://host?x=1", "http://host/#x", "http://ho st", "http://host\n.example", "[::1"),
        *("http://[zz]:80", "http://[1.2.3.4]", "http://" + "a" * 70, "http://a..b", "//host:80"),
        "http://host%0d%0a:80",
    ],
)
def test_bad_addresses_are_named(address):
    with pytest.raises(ClarelError, match="server address"):
        connect(address)


def test_passwords_in_addresses_are_refused_and_not_shown():
    for address in ("http://me:s3cret@host", "me:s3cret@host:8500", "https://s3cret@host/x"):
        with pytest.raises(ClarelError, match="must not hold a user name") as caught:
            connect(address)
        assert "s3cret" not in str(caught.value)


def test_good_addresses():
    assert parse_server("http://host").url == "http://host:80"
    assert (
        parse_server("https://host/a b".replace(" ", "%20") + "/").url == "https://host:443/a%20b"
    )
    assert parse_server("HTTP://Host:8501").url == "http://host:8501"
    assert parse_server("[::1]:8500").host_and_port == "[::1]:8500"
    assert parse_server("grpcs://vögel.example:1").host == "xn--vgel-5qa.example"
    with answering(
        lambda request: response(ONE if request.path.startswith("/sub/v1") else {})
    ) as a:
        assert connect(f"{a}/sub/").embed_texts(["a bird"]).shape == (1, 2)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status):
    asked = []

    def elsewhere(request):
        asked.append(request)
        return response(ONE)

    with answering(elsewhere) as target:
        to = f"{target}/other\x1b[2J"
        answer = response(b"", f"{status} Moved", (f"Location: {to}",))
        with answering(lambda request: answer) as address:
            client = connect(address, authorization=SECRET)
            with pytest.raises(ServingError, match=f"redirects to {target}/other") as caught:
                client.embed_texts(["a bird"])
    assert asked == [] and "\x1b" not in str(caught.value)


def wrapped(body: bytes, *headers: str) -> bytes:
    return response(body, headers=headers)


def test_compressed_answers_are_read():
    plain = json.dumps(ONE).encode()
    bare = zlib.compressobj(wbits=-15)
    for body, encoding in (
        (gzip.compress(plain), "gzip"),
        (gzip.compress(plain), " GZIP"),
        (zlib.compress(plain), "deflate"),
        (bare.compress(plain) + bare.flush(), "deflate"),
        (plain, "identity"),
    ):
        asked = []

        def answer(request, asked=asked, body=body, encoding=encoding):
            asked.append(request.headers["accept-encoding"])
            return wrapped(body, f"Content-Encoding: {encoding}")

        with answering(answer) as address:
            assert connect(address).embed_texts(["a bird"]).shape == (1, 2)
        assert asked == ["identity"]


def bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    return b"".join([packer.compress(zeros) for _ in range(1 << 7)]) + packer.flush()


def test_answers_that_are_too_large_or_packed_wrongly():
    plain = json.dumps(ONE).encode()
    packed = gzip.compress(plain)
    huge = f"HTTP/1.1 200 OK\r\nContent-Length: {MAX_ANSWER_BYTES + 1}\r\n\r\n".encode()
    for answer, message in (
        (huge, "larger than 16 MiB"),
        (wrapped(bomb(), "Content-Encoding: gzip"), "larger than 16 MiB"),
        (wrapped(plain, "Content-Encoding: br"), "unknown encoding"),
        (wrapped(packed, "Content-Encoding: gzip, gzip"), "unknown encoding"),
        (wrapped(packed[:-9], "Content-Encoding: gzip"), "does not end where it should"),
        (wrapped(packed * 2, "Content-Encoding: gzip"), "does not end where it should"),
        (wrapped(plain, "Content-Encoding: gzip"), "error"),
        (wrapped(packed), "not JSON"),
        (response(plain)[:-3], "bytes too early"),
    ):

        def talk(sock: socket.socket, answer=answer) -> None:
            read_request(sock)
            sock.sendall(answer)
            if answer is huge:
                time.sleep(5)

        with talking(talk) as port:
            started = time.monotonic()
            with pytest.raises(ServingError, match=message):
                connect(f"http://127.0.0.1:{port}").embed_texts(["a bird"])
            assert time.monotonic() - started < 4


@pytest.mark.parametrize("way", ["chunks", "no length", "chunk of -1", "headers"])
def test_answers_that_never_end_are_given_up(way):
    """A bound on bytes, since a fast server sends gigabytes before the time is over."""
    block, sent = b"1" * (1 << 20), []

    def talk(sock: socket.socket) -> None:
        read_request(sock)
        head = b"HTTP/1.1 200 OK\r\n"
        if way in ("chunks", "chunk of -1"):
            head += b"Transfer-Encoding: chunked\r\n"
        sock.sendall(head + (b"" if way == "headers" else b"\r\n"))
        sock.sendall(b"-1\r\n" if way == "chunk of -1" else b"")
        while True:
            sock.sendall(b"100000\r\n" + block + b"\r\n" if way == "chunks" else block)
            sent.append(len(block))

    with (
        talking(talk) as port,
        pytest.raises(ServingError, match=r"larger than 16 MiB|LineTooLong"),
    ):
        connect(f"http://127.0.0.1:{port}", 30).embed_texts(["a bird"])
    assert sum(sent) < 3 * MAX_ANSWER_BYTES


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_grpc_answers_are_bounded_packed_or_not(compression):
    large = np.zeros((1, (MAX_ANSWER_BYTES >> 2) + 1000), np.float32)
    answer = embedding(large)
    with (
        grpc_answering(lambda *_: answer, compression=compression) as address,
        pytest.raises(ServingError, match="RESOURCE_EXHAUSTED"),
    ):
        connect(address).embed_texts(["a bird"])


def test_program_reads_the_value_from_a_file(made, tmp_path):
    seen, answer = (
        [],
        {
            "class_name": [["a\x1b[2J", "b"]],
            "distance": [[0.5, 1.5]],
            "probability": [[0.75, 0.25]],
            "accepted": [True],
        },
    )

    def rest(request):
        seen.append(request.headers.get("authorization"))
        return response({"outputs": answer})

    (tmp_path / "value.txt").write_text(SECRET + "\n")
    np.savez(tmp_path / "images.npz", image_ids=["one\r"], features=np.ones((1, 2), np.float32))
    with answering(rest, made.context()) as address:
        flags = [
            *(f"--server={address}", f"--ca_file={made.certificate}"),
            *(f"--authorization_file={tmp_path / 'value.txt'}",),
            f"--features={tmp_path / 'images.npz'}",
        ]
        for form in ("table", "csv"):
            done = call_program("classify_main.py", *flags, f"--format={form}")
            assert done.returncode == 0, done.stderr
            assert "a\\x1b[2J" in done.stdout and "one\\r" in done.stdout
            assert "\x1b" not in done.stdout
        done = call_program("classify_main.py", *flags, "--format=json")
        assert json.loads(done.stdout)[0]["class"] == "a\x1b[2J"
        assert seen == [SECRET] * 3
        wrong = call_program("classify_main.py", *flags, "--authorization_file=none.txt")
        assert wrong.returncode == 1 and "cannot read none.txt" in wrong.stderr
    alone = call_program(
        "classify_main.py", "--export_dir=x", "--ca_file=y", f"--features={tmp_path / 'images.npz'}"
    )
    assert alone.returncode == 1 and "need --server" in alone.stderr


def test_early_refusal_of_a_large_request_is_heard():
    """A server may say 413 and close before it has read all that is sent."""
    told = threading.Event()

    def talk(sock: socket.socket) -> None:
        sock.recv(1000)
        sock.sendall(response({"error": "less, please"}, "413 Too Large", ("Connection: close",)))
        sock.shutdown(socket.SHUT_WR)
        told.set()
        time.sleep(0.2)
        while sock.recv(1 << 20):
            pass

    with talking(talk) as port, pytest.raises(ServingError, match="413 less, please"):
        connect(f"http://127.0.0.1:{port}").embed_images(np.ones((1, 500_000), np.float32))
    assert told.wait(10)
