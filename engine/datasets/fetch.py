"""Data sets of other authors: fetched from their source at a pinned commit, checked, kept in a cache.

`sources.toml` names them. What is downloaded is the archive of one commit on GitHub; its files are known by
their SHA-256, so neither their place in it nor a change of the archive's own packing matters. Nothing else is kept.
"""

import hashlib
import io
import os
import tarfile
import time
import tomllib
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from pathlib import Path

import platformdirs
from rich.table import Table

from ..errors import InputError
from ..runs.atomic import make_folder, write_bytes

CACHE_VARIABLE = "NEGENGINE_DATA"
HOST = "https://codeload.github.com"
_REGISTRY = Path(__file__).parent / "sources.toml"
_WAITS = (2.0, 8.0)  # seconds before each further attempt
_TIMEOUT = 60.0
_LARGEST = 256 * 2**20  # bytes, of an archive and of what it unpacks to; the real ones have a few MB


@dataclass(frozen=True)
class Source:
    """A data set and where it comes from.

    Attributes:
        name: what it is called on the command line.
        title: what it is.
        probe: the command that reads it.
        repository: `owner/name` on GitHub.
        commit: which state of it.
        licence: one line.
        files: file name → SHA-256 of its content.
        merged: whether the files are put together from those of the archive.
    """

    name: str
    title: str
    probe: str
    repository: str
    commit: str
    licence: str
    files: Mapping[str, str]
    merged: bool = False

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return cache_folder() / self.name

    def missing(self) -> list[str]:
        """The files that are not in the cache, or not as they should be."""
        return [name for name, digest in self.files.items() if _digest(self.folder / name) != digest]


def sources() -> dict[str, Source]:
    """All data sets, by name."""
    return {name: Source(name, **entry) for name, entry in tomllib.loads(_REGISTRY.read_text("utf-8")).items()}


def source(name: str) -> Source:
    """A data set by its name.

    Raises:
        InputError: there is none of that name.
    """
    known = sources()
    if name not in known:
        raise InputError(f"unknown data set {name!r}; known are {', '.join(known)}")
    return known[name]


def sources_table() -> Table:
    """All data sets, and whether they are in the cache."""
    table = Table(title=f"Data sets of other authors, kept in {cache_folder()}", title_justify="left")
    for heading in ("name", "what", "command", "here"):
        table.add_column(heading)
    for found in sources().values():
        table.add_row(found.name, found.title, found.probe, "no" if found.missing() else "yes")
    return table


def cache_folder() -> Path:
    """The folder of all data sets: that of NEGENGINE_DATA, else one in the platform's cache folder."""
    own = os.environ.get(CACHE_VARIABLE)
    return Path(own).expanduser() if own else platformdirs.user_cache_path("negengine", appauthor=False) / "data"


def find(name: str, given: Path | None = None) -> Path:
    """Where a probe reads its data from.

    Args:
        name: of the data set.
        given: a file or folder that the user has named instead.

    Raises:
        InputError: it is not there, or the cached copy is damaged.
    """
    if given is not None:
        if not given.exists():
            raise InputError(f"{given}: no such file or folder; give another --data")
        return given
    found = source(name)
    if missing := found.missing():
        state = "is not whole" if (found.folder / missing[0]).exists() else "is not here"
        raise InputError(f"{found.folder / missing[0]} {state}: run `negengine data get {name}`, or give --data PATH")
    return found.folder


def get(
    name: str,
    *,
    say: Callable[[str], None] = lambda _: None,
    host: str = HOST,
    waits: Sequence[float] = _WAITS,
) -> Path:
    """Fetch a data set into the cache; nothing is fetched if it is there already.

    Args:
        name: of the data set.
        say: told the licence, and what is going on.
        host: where archives come from, as `HOST/owner/name/tar.gz/COMMIT`.
        waits: seconds before each further attempt, where another may help.

    Returns:
        The folder.

    Raises:
        InputError: unknown name, no way to the source, or it does not hold the files wanted.
    """
    wanted = source(name)
    say(f"{name}: {wanted.title}")
    say(f"licence: {wanted.licence}")
    if not wanted.missing():
        return wanted.folder
    url = f"{host}/{wanted.repository}/tar.gz/{wanted.commit}"
    say(f"fetching {url}")
    members = _unpack(_fetch(url, waits), url)
    contents = _merged(members, url) if wanted.merged else list(members.values())
    by_digest = {hashlib.sha256(content).hexdigest(): content for content in contents}
    if absent := [file for file, digest in wanted.files.items() if digest not in by_digest]:
        raise InputError(f"{url}: gives no {absent[0]} with the sha256 {wanted.files[absent[0]][:12]}…: not the source")
    make_folder(wanted.folder)
    for file, digest in wanted.files.items():
        write_bytes(wanted.folder / file, by_digest[digest])
    return wanted.folder


def _merged(members: Mapping[str, bytes], url: str) -> list[bytes]:
    from ..probes.lama.facts import merge  # noqa: PLC0415 -- the one data set that needs it

    return list(merge(members, url).values())


def _fetch(url: str, waits: Sequence[float]) -> bytes:
    reason = ""
    for wait in (0.0, *waits):
        time.sleep(wait)
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310 -- the scheme is ours
                content: bytes = answer.read(_LARGEST + 1)
                if len(content) <= _LARGEST and answer.length:  # a read with a limit does not say so itself
                    raise IncompleteRead(content, answer.length)
        except urllib.error.HTTPError as error:
            reason = f"HTTP {error.code} {error.reason}"
            if error.code < 500 and error.code != 429:
                break
        except (OSError, HTTPException) as error:  # no route, no name, cut off, too slow
            reason = str(getattr(error, "reason", None) or error)
        else:
            if len(content) > _LARGEST:
                raise InputError(f"{url}: more than {_LARGEST >> 20} MB: not the source")
            return content
    raise InputError(f"{url}: cannot be fetched ({reason}): try again later, or give the probe --data PATH")


def _unpack(archive: bytes, url: str) -> dict[str, bytes]:
    """The files of an archive, path → content, in the order of their paths; the top folder is left out."""
    members: dict[str, bytes] = {}
    room = _LARGEST
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            for member in tar:
                if member.isfile() and (content := tar.extractfile(member)) is not None:
                    room -= member.size
                    if room < 0:
                        raise InputError(f"{url}: unpacks to more than {_LARGEST >> 20} MB: not the source")
                    members[member.name.partition("/")[2]] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{url}: not a whole archive ({error}): run the same command again") from error
    return dict(sorted(members.items()))


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
