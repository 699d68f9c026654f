"""As much of the Hugging Face hub as an export needs, served on this machine: one repository, two revisions."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMITS = {"main": "a" * 40, "v1": "b" * 40, "a" * 40: "a" * 40, "b" * 40: "b" * 40}


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a download needs: one repository, two revisions."""

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body):
        parts = self.path.partition("?")[0].strip("/").split("/")
        self.server.asked.append(self.path)
        if parts[:5] == ["api", "models", "lab", "tiny", "revision"]:
            return self.give(json.dumps({"id": "lab/tiny", "siblings": self.files()}).encode(), body=body)
        if parts[:2] == ["api", "models"]:  # is there a folder of chat templates?
            return self.fail(404, "EntryNotFound")
        if parts[:2] != ["lab", "tiny"]:
            return self.fail(404, "RepoNotFound")
        if parts[3] not in COMMITS:
            return self.fail(404, "RevisionNotFound")
        path = self.server.folder / "/".join(parts[4:])
        if not path.is_file():
            return self.fail(404, "EntryNotFound")
        return self.give(path.read_bytes(), body=body, commit=COMMITS[parts[3]])

    def files(self):
        return [{"rfilename": path.name, "size": path.stat().st_size} for path in self.server.folder.iterdir()]

    def give(self, content, *, body, commit=COMMITS["main"]):
        self.send_response(200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hash(content) & 0xFFFFFFFF:x}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def fail(self, status, code):
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Served(ThreadingHTTPServer):
    """The server, the folder that it serves as `lab/tiny`, and the paths that were asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Hub)
        self.folder, self.asked = folder, []
        self.address = f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serve(folder: Path) -> Iterator[Served]:
    """Serve a checkpoint's folder."""
    server = Served(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
