"""The address of a model server, with TLS and authorisation."""

import dataclasses
import ipaddress
import ssl
import urllib.parse

from clarel_tf.errors import ClarelError, brief, printable
from clarel_tf.storage import files

_DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": None, "grpcs": None}
_FORMS = "http://host:8501, https://host, host:8500, grpc://host:8500 or grpcs://host:8500"


@dataclasses.dataclass(frozen=True)
class Server:
    """The address of a server, with certificates and authorisation.

    Attributes:
      scheme: http, https, grpc or grpcs.
      host: a name, or an IP address without brackets.
      path: prefix of /v1/models, such as /tenant; without a slash at its end.
      ca_file: certificates to trust instead of the default ones.
      authorization: value of the `Authorization` header, such as "Bearer abc".
    """

    scheme: str
    host: str
    port: int
    path: str = ""
    ca_file: str | None = None
    authorization: str | None = dataclasses.field(default=None, repr=False)

    @property
    def is_rest(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def is_secure(self) -> bool:
        return self.scheme in ("https", "grpcs")

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host_and_port}{self.path}"

    def tls_context(self) -> ssl.SSLContext:
        """A TLS context that checks certificates (by `ca_file`, if given) and the host name."""
        try:
            if self.ca_file is None:
                return ssl.create_default_context()
            text = files.read_regular(self.ca_file).decode("ascii", "replace")
            return ssl.create_default_context(cadata=text)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ClarelError(f"cannot use ca_file {self.ca_file}: {brief(error)}") from error


def parse_server(
    address: str, ca_file: str | None = None, authorization: str | None = None
) -> Server:
    """The server at `http(s)://host:port/path`, `grpc(s)://host:port` or `host:port` (gRPC)."""
    # urlsplit would drop line breaks silently. Messages must not repeat a password.
    if not address.isprintable() or " " in address:
        raise ClarelError(
            f"server address {printable(address)!r}: it contains a space or a control character"
        )
    if "@" in address:
        raise ClarelError(
            "a server address must not hold a user name or password; give the value of the "
            "Authorization header (--authorization_file)"
        )
    try:
        parts = urllib.parse.urlsplit(address if "://" in address else f"grpc://{address}")
        scheme, port = parts.scheme, parts.port
        host = parts.hostname or ""
        if ":" in host:
            ipaddress.IPv6Address(host)
        else:
            host = host.encode("idna").decode("ascii")
    except ValueError as error:
        raise ClarelError(f"server address {address!r}: {error} (expected {_FORMS})") from error
    if scheme not in _DEFAULT_PORTS:
        raise ClarelError(f"server address {address!r}: unknown scheme (expected {_FORMS})")
    if not host or set(host) & set("%/\\<>\"'`{}|^*,;"):
        raise ClarelError(f"server address {address!r}: it has no host (expected {_FORMS})")
    port = _DEFAULT_PORTS[scheme] if port is None else port
    if not port:
        raise ClarelError(f"server address {address!r}: it has no port (expected {_FORMS})")
    is_rest = scheme in ("http", "https")
    if parts.query or parts.fragment or (parts.path.strip("/") and not is_rest):
        raise ClarelError(f"server address {address!r}: unexpected text after host and port")
    path = urllib.parse.quote(parts.path.rstrip("/"), safe="/%~")
    server = Server(scheme, host, port, path, ca_file, authorization)
    _check_security(server)
    return server


def _check_security(server: Server) -> None:
    if server.ca_file is not None:
        if not server.is_secure:
            raise ClarelError(f"ca_file needs https:// or grpcs://, and {server.url} is plain text")
        server.tls_context()
    value = server.authorization
    if value is None:
        return
    # The value is a secret: no message repeats it.
    if not (value.strip() and value.isascii() and value.isprintable()):
        raise ClarelError("the authorization value must be one line of printable ASCII characters")
    if not server.is_secure and not _is_loopback(server.host):
        raise ClarelError(
            f"an authorization value is not sent to {server.url} in plain text, where others could "
            "read it; use https:// or grpcs://"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
