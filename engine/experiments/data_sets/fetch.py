"""Fetching data sets of other authors with Pooch: most from GitHub at a fixed commit, checked, kept in a cache.

Only the SHA-256 of each file is fixed: `_contents` finds the files of an archive by their digests.
"""

import hashlib
import io
import tarfile
import zlib
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pooch
import requests

from ...basics.atomic import json_bytes, unwritable, write_bytes
from ...basics.errors import InputError
from ...basics.printable import counted
from ...basics.reading import file_sha256, is_file
from ...text.table_sources import DIGESTS
from ..lama.facts import merge
from .sources import REGISTRY, Source, source

HOST = "https://codeload.github.com"
LARGEST = 256 * 2**20  # bytes, of an archive and of its content; the real ones have at most some tens of MB
_RETRIES = 2
_TIMEOUT = 60.0  # seconds without an answer
_TOO_MANY_REQUESTS = 429


def get(
    name: str,
    *,
    say: Callable[[str], None] = lambda _: None,
    host: str = HOST,
    largest: int = LARGEST,
    registry: Path = REGISTRY,
) -> Path:
    """Fetch a data set of at most `largest` bytes into its folder in the cache, if it is not there already."""
    wanted = source(name, registry)
    say(f"{name}: {wanted.title}")
    say(f"licence: {wanted.licence}")
    if not wanted.missing():
        return wanted.folder
    pooch.get_logger().setLevel("WARNING")
    archive, contents = f"{host}/{wanted.repository}/tar.gz/{wanted.commit}", dict[str, bytes]()
    # Files whose digests are not known are fetched one by one, or are those that somebody has put there.
    own, kept = wanted.addresses(), wanted.kept_digests()
    is_there = wanted.by_hand and not any(kept.values()) and all(is_file(wanted.folder / file) for file in own)
    if is_there:
        say(f"taking the {counted(len(own), 'file')} that lie in {wanted.folder}")
    else:
        which = f"{counted(len(own), 'file')}, the first from " if own else ""
        say(f"fetching {which}{next(iter(own.values()), archive)}")

    def download(file: str, url: str, output_file: str, pup: Any) -> None:
        if not own and not contents:  # the archive is downloaded once, when its first file is asked for
            contents.update(_contents(wanted, url, pup, largest))
        Path(output_file).write_bytes(contents[file] if not own else _downloaded(url, pup, largest, wanted))

    while missing := [] if is_there else wanted.missing():  # twice where the digests of the files come with them
        known = dict.fromkeys(own) or wanted.digests()
        urls = own or dict.fromkeys(known, archive)
        files = pooch.create(path=wanted.folder, base_url="", registry=known, urls=urls, retry_if_failed=_RETRIES)
        file = missing[0]
        try:
            for file in missing:
                if own:  # without a digest, Pooch takes any file of this name
                    (wanted.folder / file).unlink(missing_ok=True)
                files.fetch(file, downloader=partial(download, file))
                if (before := kept.get(file)) and file_sha256(wanted.folder / file) != before:
                    said = f"not the file that was fetched first; remove {wanted.folder} to take it"
                    raise InputError(f"{urls[file]}: {said}")
        except requests.RequestException as error:
            raise _unreachable(urls[file], reason_of(error), wanted) from error
        except OSError as error:
            raise unwritable(wanted.folder / file, error) from error
        if own:
            break
    if own:
        write_bytes(wanted.folder / DIGESTS, json_bytes({name: file_sha256(wanted.folder / name) for name in own}))
        say(f"their digests were not known before; they are kept in {wanted.folder / DIGESTS}")
    return wanted.folder


def _downloaded(url: str, pup: Any, largest: int, wanted: Source) -> bytes:
    """What a URL gives. Errors that may be temporary are exceptions of Requests: after these, Pooch tries again."""
    content = _Limited(url, largest)
    try:
        pooch.HTTPDownloader(timeout=_TIMEOUT)(url, content, pup)
    except requests.HTTPError as error:
        if error.response.status_code < 500 and error.response.status_code != _TOO_MANY_REQUESTS:
            raise _unreachable(url, reason_of(error), wanted) from error
        raise
    return content.getvalue()


def _contents(wanted: Source, url: str, pup: Any, largest: int) -> dict[str, bytes]:
    members = _unpack(_downloaded(url, pup, largest, wanted), url, largest)
    if packed := wanted.packed:
        inner = _unpack(members.get(packed, b""), f"{url}/{packed}", largest)
        members = {f"{packed}/{path}": content for path, content in inner.items()}
    files = merge(members, url) if wanted.merged else members
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    own = {path.rpartition("/")[2]: path for path in files if fnmatchcase(path, wanted.paths)}
    listed = json_bytes({name: digests[own[name]] for name in sorted(own)})
    by_digest = {hashlib.sha256(listed).hexdigest(): listed, **{digests[path]: files[path] for path in files}}
    for file, digest in wanted.files.items():
        if digest not in by_digest:
            raise InputError(
                f"{url}: no file has the sha256 of {file} ({digest[:12]}…), so it is not the right archive"
            )
    found = {file: by_digest[digest] for file, digest in wanted.files.items()}
    return found | {name: files[path] for name, path in own.items()}


class _Limited(io.BytesIO):
    """Bytes in memory, up to a limit; more are an `InputError`."""

    def __init__(self, url: str, largest: int) -> None:
        super().__init__()
        self._url, self._largest = url, largest

    def write(self, content: Any) -> int:
        if self.tell() + len(content) > self._largest:
            raise _too_large(self._url, self._largest)
        return super().write(content)


def _unpack(archive: bytes, url: str, largest: int) -> dict[str, bytes]:
    """The files of an archive, path → content, in the order of their paths; paths are without the top folder."""
    members: dict[str, bytes] = {}
    room = largest
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            for member in tar:
                if member.isfile() and (content := tar.extractfile(member)) is not None:
                    room -= member.size
                    if room < 0:
                        raise _too_large(url, largest)
                    members[member.name.partition("/")[2]] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{url}: the archive is not complete ({error}): run the same command again") from error
    return dict(sorted(members.items()))


def _too_large(url: str, largest: int) -> InputError:
    return InputError(f"{url}: more than {largest / 2**20:,.0f} MB, so it is not the right archive")


def _unreachable(url: str, reason: str, wanted: Source) -> InputError:
    if wanted.by_hand:
        names = ", ".join(wanted.unfixed)
        return InputError(
            f"{url}: cannot be fetched ({reason}): try again later, or put {names} into {wanted.folder} and run the "
            f"same command again; {wanted.by_hand}"
        )
    return InputError(f"{url}: cannot be fetched ({reason}): try again later, or give the command a copy of your own")


def reason_of(error: Exception) -> str:
    """The reason of an error of the network, without the messages of each library that passed it on."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    reason, inner = str(error), error.__cause__ or error.__context__
    while inner is not None:
        reason = getattr(inner, "strerror", None) or reason
        inner = inner.__cause__ or inner.__context__
    return reason.splitlines()[0]
