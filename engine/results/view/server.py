"""The local page of `negengine view`: a server that this computer alone can reach, and that knows a secret word."""

import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from socketserver import ThreadingMixIn
from tempfile import TemporaryDirectory
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import msgspec

from ...basics.errors import InputError, needs_extra
from ..report.row_files import RowFile
from .items import Items
from .page import library, page
from .query import Query

with needs_extra("view", "the page of `negengine view`"):
    from bottle import Bottle, HTTPResponse, JSONPlugin, request, response, static_file

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
# Nothing is loaded from another place, even if a text of a run could be read as HTML.
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{}'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Requests are not told."""


class Viewer(ThreadingMixIn, WSGIServer):
    """Answers the questions of the page at `address`, one after another, until it is stopped."""

    daemon_threads = True

    def __init__(self, items: Items, port: int = 0) -> None:
        self.items, self.token, self.nonce = items, secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.turn = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), _Quiet)
        except OSError as error:
            raise InputError(f"--port {port}: {error.strerror}; give another one, or none") from None
        # What a browser calls this server; a page of another site, whose name leads here, calls it otherwise.
        self.hosts = tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))
        headers = _HEADERS | {"Content-Security-Policy": _POLICY.format(self.nonce)}
        app = Bottle(autojson=False)
        app.add_hook("before_request", self._refuse_strangers)
        app.add_hook("after_request", lambda: response.headers.update(headers))
        app.install(JSONPlugin(msgspec.json.encode))  # for which a number that is not finite is none
        app.install(self._in_turn)
        app.route("/", callback=lambda: page(items, nonce=self.nonce, token=self.token))
        app.route("/<name:re:dt_bundle[.](js|css)>", callback=lambda name: static_file(name, library().parent))
        app.route("/rows.json", callback=lambda: items.page(_query()))
        app.route("/groups.json", callback=lambda: items.groups(_query(), request.query.column))
        app.route("/<name:re:rows[.](csv|xlsx)>", callback=self._file)
        self.set_app(app)

    def server_close(self) -> None:
        """No thread reads rows while the program ends: the last question is answered, and no other one."""
        super().server_close()
        self.turn.acquire(timeout=10)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    def _refuse_strangers(self) -> None:
        knows = secrets.compare_digest(request.query.token.encode(), self.token.encode())
        if not knows or request.get_header("Host") not in self.hosts:
            raise HTTPResponse("open the address that `negengine view` printed", 403, {"Content-Type": "text/plain"})

    def _in_turn(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def answered(**given: str) -> Any:
            try:
                with self.turn:
                    return answer(**given)
            except InputError as error:
                return HTTPResponse({"error": str(error)}, 400)

        return answered

    def _file(self, name: str) -> Any:
        wanted = self.items.wanted(_query())
        with TemporaryDirectory(dir=self.items.folder.name, ignore_cleanup_errors=True) as folder:
            RowFile(Path(folder) / name).write(wanted)
            return static_file(name, folder, download=name)  # it is open, and its space is free once it is sent


def _query() -> Query:
    try:
        return msgspec.json.decode(request.query.query, type=Query)
    except msgspec.DecodeError as error:
        raise InputError(f"not a question of the page: {error}") from None
