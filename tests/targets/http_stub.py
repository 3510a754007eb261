"""A small S3-like server that answers as scripted: what no real server can be made to say at a wish."""

import re
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

Answer = tuple[int, str] | None  # status and body; None: an ordinary answer
CUT = (0, "the connection is cut instead of an answer")


class StubServer(ThreadingHTTPServer):
    """Holds objects by URL path, honours If-None-Match unless `conditions` is off; `script` is asked first."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), StubHandler)
        self.objects: dict[str, bytes] = {}
        self.requests: Counter[str] = Counter()
        self.conditions = True
        self.script: Callable[[str, str], Answer] = lambda method, path: None
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class StubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubServer

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        with self.server.lock:
            self.server.requests[self.command] += 1
            scripted = self.server.script(self.command, self.path)
            status, answer = scripted or getattr(self, f"do_it_{self.command.lower()}")(path, body)
        if (status, answer) == CUT:
            self.close_connection = True
            return
        data = answer if isinstance(answer, bytes) else answer.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"etag"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815 - http.server's names

    def do_it_get(self, path: str, body: bytes) -> tuple[int, str | bytes]:
        query = parse_qs(self.path.partition("?")[2])
        if "list-type" in query:
            return 200, self.listing(path.rstrip("/"), query.get("prefix", [""])[0])
        if path not in self.server.objects:
            return error(404, "NoSuchKey")
        wanted = self.headers.get("Range")
        if wanted is None:
            return 200, self.server.objects[path]
        return error(416, "InvalidRange")

    def listing(self, bucket: str, prefix: str) -> str:
        """All keys that begin with `prefix`, on one page, without folders."""
        keys = (path.removeprefix(f"{bucket}/") for path in sorted(self.server.objects))
        found = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-10-21T07:28:00.000Z</LastModified><ETag>e</ETag>"
            f"<Size>{len(self.server.objects[f'{bucket}/{key}'])}</Size></Contents>"
            for key in keys
            if key.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"

    def do_it_head(self, path: str, body: bytes) -> tuple[int, str | bytes]:
        is_bucket = path.count("/") == 1
        return (200, self.server.objects.get(path, b"")) if is_bucket or path in self.server.objects else (404, "")

    def do_it_put(self, path: str, body: bytes) -> tuple[int, str | bytes]:
        if self.server.conditions and self.headers.get("If-None-Match") == "*" and path in self.server.objects:
            return error(412, "PreconditionFailed")
        self.server.objects[path] = body
        return 200, ""

    def do_it_post(self, path: str, body: bytes) -> tuple[int, str | bytes]:
        keys = re.findall(rb"<Key>(.*?)</Key>", body)
        for key in keys:
            self.server.objects.pop(f"{path}/{key.decode()}", None)
        deleted = "".join(f"<Deleted><Key>{key.decode()}</Key></Deleted>" for key in keys)
        return 200, f"<DeleteResult>{deleted}</DeleteResult>"

    def log_message(self, *_: object) -> None:
        pass


def error(status: int, code: str) -> tuple[int, str]:
    return status, f"<Error><Code>{code}</Code><Message>as scripted</Message></Error>"


def once(answer: Answer, method: str) -> Callable[[str, str], Answer]:
    """A script that gives `answer` to the first request of `method`, and ordinary answers after it."""
    answers = iter([answer])
    return lambda asked, path: next(answers, None) if asked == method else None
