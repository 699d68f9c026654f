"""As much of the Hugging Face hub as the tests need, served on this machine: models and data sets, two revisions."""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMITS = {"main": "a" * 40, "v1": "b" * 40, "a" * 40: "a" * 40, "b" * 40: "b" * 40}


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does: `api/models/NAME/revision/REVISION`, `…/tree/REVISION`, `NAME/resolve/REVISION/FILE`."""

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body):
        path = self.path.partition("?")[0].strip("/")
        self.server.asked.append(path)
        # The API names models and data sets by their kind; files of a model are below its bare name.
        name = path.removeprefix("api/").removeprefix("models/")
        repository = next((own for own in self.server.folders if name.startswith(f"{own}/")), None)
        if repository is None:
            return self.fail("RepoNotFound")
        verb, revision, *parts = name.removeprefix(f"{repository}/").split("/")
        if revision not in COMMITS:
            return self.fail("RevisionNotFound")
        found = self.server.folders[repository].joinpath(*parts)
        match verb:
            case "revision":
                siblings = [{"rfilename": file["path"], "size": file["size"]} for file in files(found)]
                found = {"id": repository, "sha": COMMITS[revision], "siblings": siblings}
                return self.give(json.dumps(found).encode(), body=body)
            case "tree" if found.is_dir():
                return self.give(json.dumps(files(found)).encode(), body=body)
            case "resolve" if found.is_file():
                return self.give(found.read_bytes(), body=body, commit=COMMITS[revision])
        return self.fail("EntryNotFound")

    def give(self, content, *, body, commit=COMMITS["main"]):
        if asked := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            content = content[int(asked[1]) : int(asked[2]) + 1]
        self.send_response(206 if asked else 200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hash(content) & 0xFFFFFFFF:x}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.server.sent[self.path] += len(content)
            self.wfile.write(content)

    def fail(self, code):
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def files(folder: Path) -> list[dict[str, object]]:
    """All files of a repository."""
    return [
        {"type": "file", "path": path.relative_to(folder).as_posix(), "size": path.stat().st_size, "oid": "c" * 40}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


class Served(ThreadingHTTPServer):
    """The server, the folder of each repository, the paths that were asked for, and the bytes that each was given."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Hub)
        self.folders, self.asked, self.sent = folders, [], Counter()
        self.address = f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serve(folders: Mapping[str, Path]) -> Iterator[Served]:
    """Serve folders, by the names of their repositories: `lab/tiny`, `datasets/lab/pairs`."""
    server = Served(folders)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
