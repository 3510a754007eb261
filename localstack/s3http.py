"""HTTP for `FaultyServer`: a listener, its connections, and one request with its answer for a fault to meddle with."""

import contextlib
import socket
import threading
from collections.abc import Collection, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from localstack.process import HOST
from localstack.s3memory import Answer, Request
from localstack.s3signature import check_signature

if TYPE_CHECKING:
    from localstack.faulty import FaultyServer

__all__ = ["Exchange", "Listener"]


class Exchange:
    """One request and its answer, for a fault to meddle with."""

    def __init__(self, server: "FaultyServer", request: Request, connection: "Connection") -> None:
        self.server = server
        self.request = request
        self._connection = connection
        signed = server.credentials
        self._refusal = check_signature(request, signed, server.memory.now()) if signed else None

    def perform(self, *, locked: Collection[str] = (), lag: float = 0.0) -> Answer:
        """Do what is asked, if it may be, and return the answer without sending it."""
        return self._refusal or self.server.memory.answer(self.request, locked=locked, lag=lag)

    def send(self, answer: Answer, count: int | None = None) -> None:
        """Send an answer, or its head and the first `count` bytes of its body."""
        connection, body = self._connection, answer.body
        connection.send_response(answer.status)
        if answer.status != 204:  # noqa: PLR2004 - an answer without a body
            answer.headers.setdefault("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            connection.send_header(name, value)
        connection.end_headers()
        if self.request.method != "HEAD":
            connection.wfile.write(body if count is None else body[:count])
        connection.wfile.flush()

    def go_on(self) -> None:
        """Do what is asked and answer, as without a fault."""
        self.send(self.perform())

    def wait(self, seconds: float) -> None:
        """Let time pass; less where the server is stopped or healed."""
        self.server.stopped.wait(seconds)

    def cut(self) -> None:
        """Reset the connection (RST), whatever was sent."""
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # struct linger: on, 0 seconds
        self._connection.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.end()

    def end(self) -> None:
        """Let nothing more be sent on this connection: it is closed."""
        self._connection.close_connection = True


class Listener(ThreadingHTTPServer):
    """A port on 127.0.0.1 and a thread for each connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, server: "FaultyServer", port: int) -> None:
        super().__init__((HOST, port), Connection)
        self.served = server
        self._sockets: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def server_bind(self) -> None:
        """Without http.server's look for the host's name, which may ask a name server."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Note the connection, to be cut at the end."""
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """The connection has ended."""
        self._sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients hang up on what is slow: nothing to tell."""

    def end(self) -> None:
        """Stop listening and cut all connections."""
        self.shutdown()
        self.server_close()
        for connection in [*self._sockets]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        served = self.server.served
        request = _request(len(served.log) + 1, self.command, self.path, dict(self.headers.items()), body)
        served.due(request)(Exchange(served, request, self))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """The log is `FaultyServer.log`."""


def _request(number: int, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
    path, _, text = target.partition("?")
    query = dict(parse_qsl(text, keep_blank_values=True))
    bucket, _, key = unquote(path).lstrip("/").partition("/")
    operation = _operation(method, key, query)
    lower = {name.lower(): value for name, value in headers.items()}
    return Request(number, method, target, operation, bucket, key or query.get("prefix", ""), query, lower, body)


def _operation(method: str, key: str, query: Mapping[str, str]) -> str:
    """S3's name of what is asked."""
    if not key:
        named = {"list-type": "ListObjectsV2", "delete": "DeleteObjects", "uploads": "ListMultipartUploads"}
        return next((name for parameter, name in named.items() if parameter in query), f"{method.title()}Bucket")
    if "uploads" in query:
        return "CreateMultipartUpload"
    if "uploadId" in query:
        parts = {"PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload"}
        return parts.get(method, "ListParts")
    return f"{method.title()}Object"
