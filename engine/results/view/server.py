"""The local page of `negengine view`: a server that this computer alone can reach, and that knows a secret word."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import SEEK_END, BytesIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Annotated, Any, BinaryIO, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec

from ...basics.errors import InputError
from ..report.row_files import RowFile
from .items import Items, Query
from .page import library, page

MOST_ROWS = 500  # of one answer
_Kind = TypeVar("_Kind")
_MOST_BYTES = 1_000_000  # of one question
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_FILES = {".csv": "text/csv; charset=utf-8", ".xlsx": _SHEET}
# Nothing is loaded from another place, even if a text of a run could be read as HTML.
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{}'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Viewer(ThreadingHTTPServer):
    """Answers the questions of the page at `address`, until it is stopped."""

    daemon_threads = True

    def __init__(self, items: Items, port: int = 0) -> None:
        self.items, self.token = items, secrets.token_urlsafe(16)
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise InputError(f"--port {port}: {error.strerror}; give another one, or none") from None
        # What a browser calls this server; a page of another site, whose name leads here, calls it otherwise.
        self.hosts = tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    def answer(self, path: str, body: bytes) -> Any:
        """The answer to a question of the page; InputError if there is none."""
        asked = _read(body, Asked)
        match path:
            case "/rows":
                return self.items.page(asked.query, asked.start, min(asked.count, MOST_ROWS))
            case "/groups":
                return self.items.groups(asked.query, asked.column)
            case "/alike":
                return self.items.alike(asked.query, asked.row)
        raise InputError(f"no question {path}")


@dataclass(frozen=True)
class Asked:
    """What the page asks, as its JSON has it."""

    query: Query
    start: Annotated[int, msgspec.Meta(ge=0)] = 0
    count: Annotated[int, msgspec.Meta(ge=0)] = 0
    row: Annotated[int, msgspec.Meta(ge=0)] = 0
    column: str = ""


def _read(body: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise InputError(f"not a question of the page: {error}") from None


class _Handler(BaseHTTPRequestHandler):
    server: Viewer

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        given = {name: values[-1] for name, values in parse_qs(address.query).items()}
        if not self._is_allowed(given.get("token", "")):
            return
        suffix = Path(address.path).suffix
        if address.path == "/":
            nonce = secrets.token_urlsafe(16)
            text = page(self.server.items, nonce=nonce, token=self.server.token)
            self._send(text.encode(), "text/html; charset=utf-8", policy=_POLICY.format(nonce))
        elif address.path in {"/tables.js", "/tables.css"}:
            kind = "text/javascript" if suffix == ".js" else "text/css"
            self._send(library(suffix).encode(), f"{kind}; charset=utf-8")
        elif suffix in _FILES and address.path == f"/rows{suffix}":
            self._guarded(lambda: self._file(suffix, given.get("query", "")))
        else:
            self._send(b"not found", "text/plain", HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        if not self._is_allowed(self.headers.get("X-Token", "")):
            return
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MOST_BYTES:
            self._send(b"too long", "text/plain", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        body = self.rfile.read(length)
        self._guarded(lambda: self._json(self.server.answer(urlsplit(self.path).path, body)))

    def _is_allowed(self, token: str) -> bool:
        good = secrets.compare_digest(token.encode(), self.server.token.encode())
        if good and self.headers.get("Host") in self.server.hosts:
            return True
        self._send(b"open the address that `negengine view` printed", "text/plain", HTTPStatus.FORBIDDEN)
        return False

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except InputError as error:
            self._json({"error": str(error)}, HTTPStatus.BAD_REQUEST)

    def _file(self, suffix: str, question: str) -> None:
        rows = self.server.items.wanted(_read(question.encode(), Query))
        with TemporaryDirectory(prefix="negengine-view-") as folder:
            path = Path(folder) / f"rows{suffix}"
            RowFile(path).write(rows)
            with path.open("rb") as file:
                self._send(file, _FILES[suffix], name=path.name)

    def _json(self, answer: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(json.dumps(answer, ensure_ascii=False, allow_nan=False).encode(), "application/json", status)

    def _send(
        self,
        content: bytes | BinaryIO,
        kind: str,
        status: HTTPStatus = HTTPStatus.OK,
        *,
        policy: str = "",
        name: str = "",
    ) -> None:
        self.send_response(status)
        stream = BytesIO(content) if isinstance(content, bytes) else content
        length = stream.seek(0, SEEK_END)
        stream.seek(0)
        headers = {"Content-Type": kind, "Content-Length": str(length), "Cache-Control": "no-store"}
        headers |= {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        headers |= {"Content-Security-Policy": policy} if policy else {}
        headers |= {"Content-Disposition": f'attachment; filename="{name}"'} if name else {}
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        copyfileobj(stream, self.wfile)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Requests are not told."""
