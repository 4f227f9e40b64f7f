"""Servers over real sockets that do whatever a test wants, with and without TLS."""

import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import NamedTuple

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tensorflow_serving.apis import predict_pb2


class Request(NamedTuple):
    """A request as it came in; the names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


def read_request(sock: socket.socket) -> Request | None:
    """One request, byte by byte so that nothing of the next one is taken; None at the end."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)
        if not byte:
            return None
        head += byte
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = b""
    while len(body) < int(headers["content-length"]):
        body += sock.recv(1 << 20)
    return Request(first.split()[1], headers, body)


def response(body: object, status: str = "200 OK", headers: tuple[str, ...] = ()) -> bytes:
    """A whole HTTP answer; what is not bytes becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


@contextlib.contextmanager
def talking(
    talk: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    """A server that calls `talk` with every connection, in threads; yields its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            if tls is None:
                talk(sock)
            else:
                with tls.wrap_socket(sock, server_side=True) as secure:
                    talk(secure)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listening.accept()
                threading.Thread(target=serve, args=[sock], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


@contextlib.contextmanager
def answering(
    answer: Callable[[Request], bytes], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """An HTTP server that sends what `answer` returns, as it is; yields its address."""

    def talk(sock: socket.socket) -> None:
        while (request := read_request(sock)) is not None:
            sock.sendall(answer(request))

    with talking(talk, tls) as port:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"


def dribble(sock: socket.socket, data: bytes, seconds: float, pause: float = 0.1) -> None:
    """Sends `data` again and again, a byte at a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for at in range(len(data)):
            sock.sendall(data[at : at + 1])
            time.sleep(pause)


Predict = Callable[
    [predict_pb2.PredictRequest, grpc.ServicerContext], predict_pb2.PredictResponse | bytes
]


@contextlib.contextmanager
def grpc_answering(
    predict: Predict,
    credentials: grpc.ServerCredentials | None = None,
    address: str = "127.0.0.1:0",
    **options,
) -> Iterator[str]:
    """A gRPC server whose answers, or their bytes, `predict` makes; yields `host:port`."""
    handler = grpc.unary_unary_rpc_method_handler(
        predict,
        request_deserializer=predict_pb2.PredictRequest.FromString,
        response_serializer=lambda a: a if isinstance(a, bytes) else a.SerializeToString(),
    )
    name = "tensorflow.serving.PredictionService"
    server = grpc.server(futures.ThreadPoolExecutor(8), **options)
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(name, {"Predict": handler})]
    )
    if credentials is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Certificate(NamedTuple):
    """Files of a certificate that signs itself, for 127.0.0.1, and of its key."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def credentials(self) -> grpc.ServerCredentials:
        pair = (self.key.read_bytes(), self.certificate.read_bytes())
        return grpc.ssl_server_credentials([pair])


def make_certificate(folder: Path) -> Certificate:
    """Writes a certificate for 127.0.0.1 that is good for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test server")])
    now = datetime.datetime(*time.gmtime()[:6])
    hosts = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / "certificate.pem", folder / "key.pem")
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
