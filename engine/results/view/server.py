"""The local page of `negengine view`: a server that this computer alone can reach, and that knows a secret word."""

import json
import secrets
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit

import msgspec

from ...basics.errors import InputError
from ..report.row_files import RowFile
from .items import Items
from .page import library, page
from .query import Query

_MOST_BYTES = 1_000_000  # of one question
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
# Nothing is loaded from another place, even if a text of a run could be read as HTML.
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{}'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Viewer(ThreadingHTTPServer):
    """Answers the questions of the page at `address`, one after another, until it is stopped."""

    daemon_threads = True

    def __init__(self, items: Items, port: int = 0) -> None:
        self.items, self.token, self.nonce = items, secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.turn = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise InputError(f"--port {port}: {error.strerror}; give another one, or none") from None
        # What a browser calls this server; a page of another site, whose name leads here, calls it otherwise.
        self.hosts = tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    def server_close(self) -> None:
        """No thread reads rows while the program ends: the last question is answered, and no other one."""
        super().server_close()
        self.turn.acquire(timeout=10)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    def answer(self, path: str, given: Mapping[str, str], question: bytes) -> bytes:
        """The page, the library, some rows or groups; InputError for another question."""
        match path:
            case "/":
                return page(self.items, nonce=self.nonce, token=self.token).encode()
            case "/tables.js" | "/tables.css":
                return library(Path(path).suffix).encode()
            case "/rows.json":
                return _json(self.items.page(_read(question)))
            case "/groups.json" if given.get("column", "") in map(str, range(len(self.items.columns))):
                return _json(self.items.groups(_read(question), int(given["column"])))
        raise InputError(f"no question {path}")


def _read(question: bytes) -> Query:
    try:
        return msgspec.json.decode(question, type=Query)
    except msgspec.DecodeError as error:
        raise InputError(f"not a question of the page: {error}") from None


def _json(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Viewer

    def do_GET(self) -> None:
        server, address = self.server, urlsplit(self.path)
        given = dict(parse_qsl(address.query))
        knows = secrets.compare_digest(given.get("token", "").encode(), server.token.encode())
        if not knows or self.headers.get("Host") not in server.hosts:
            return self._send(b"open the address that `negengine view` printed", ".txt", HTTPStatus.FORBIDDEN)
        length = min(int(self.headers.get("Content-Length") or 0), _MOST_BYTES)
        question, suffix = self.rfile.read(length), Path(address.path).suffix or ".html"
        try:
            with server.turn:
                if address.path in {"/rows.csv", "/rows.xlsx"}:
                    self._file(suffix, given.get("query", "").encode())
                else:
                    self._send(server.answer(address.path, given, question), suffix)
        except InputError as error:
            self._send(_json({"error": str(error)}), ".json", HTTPStatus.BAD_REQUEST)

    do_POST = do_GET  # noqa: N815 - the name in the base class

    def _file(self, suffix: str, question: bytes) -> None:
        rows = self.server.items.wanted(_read(question))
        with TemporaryDirectory(prefix="negengine-view-") as folder:
            path = Path(folder) / f"rows{suffix}"
            RowFile(path).write(rows)
            with path.open("rb") as file:
                self._send(file, suffix)

    def _send(self, content: bytes | BinaryIO, suffix: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        headers = {"Content-Type": _KINDS.get(suffix, "text/plain"), "Cache-Control": "no-store"}
        headers |= {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        headers |= {"Content-Security-Policy": _POLICY.format(self.server.nonce)}
        if not isinstance(content, bytes):
            headers["Content-Disposition"] = f'attachment; filename="rows{suffix}"'
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        copyfileobj(BytesIO(content) if isinstance(content, bytes) else content, self.wfile)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Requests are not told."""
