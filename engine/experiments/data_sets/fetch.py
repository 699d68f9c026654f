"""Fetching data sets of other authors: most from GitHub at a fixed commit, checked, kept in a cache.

Only the SHA-256 of each file is fixed: `_contents` finds the files of an archive by their digests.
"""

import hashlib
import io
import tarfile
import time
import zlib
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path

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
_WAITS = (1, 2)  # seconds before the second and the third attempt
_TIMEOUT = 60.0  # seconds without an answer
_TOO_MANY_REQUESTS = 429
_AT_ONCE = 2**20  # bytes


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
    folder = wanted.folder
    say(f"{name}: {wanted.title}")
    say(f"licence: {wanted.licence}")
    if not (missing := wanted.missing()):
        return folder
    # Files whose digests are not known are fetched one by one, or are those that somebody has put there.
    own, kept = wanted.addresses(), wanted.kept_digests()
    found: Iterable[tuple[str, bytes]] = ()
    if wanted.by_hand and not any(kept.values()) and all(is_file(folder / file) for file in own):
        say(f"taking the {counted(len(own), 'file')} that lie in {folder}")
    elif own:
        say(f"fetching {counted(len(own), 'file')}, the first from {next(iter(own.values()))}")
        found = ((file, _downloaded(own[file], largest, wanted)) for file in missing)
    else:
        archive = f"{host}/{wanted.repository}/tar.gz/{wanted.commit}"
        say(f"fetching {archive}")
        found = _contents(wanted, archive, largest).items()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    for file, content in found:
        if own and (before := kept.get(file)) and hashlib.sha256(content).hexdigest() != before:
            raise InputError(f"{own[file]}: not the file that was fetched first; remove {folder} to take it")
        write_bytes(folder / file, content)
    if own:
        write_bytes(folder / DIGESTS, json_bytes({file: file_sha256(folder / file) for file in own}))
        say(f"their digests were not known before; they are kept in {folder / DIGESTS}")
    return folder


def _downloaded(url: str, largest: int, wanted: Source) -> bytes:
    """What a URL gives; an error that may pass is waited for, and then the URL is asked again."""
    waits = iter(_WAITS)
    while True:
        content = bytearray()
        try:
            with requests.get(url, stream=True, timeout=_TIMEOUT) as response:
                response.raise_for_status()
                for piece in response.iter_content(_AT_ONCE):
                    content += piece
                    if len(content) > largest:
                        raise _too_large(url, largest)
                return bytes(content)
        except requests.RequestException as error:
            status = None if error.response is None else error.response.status_code
            may_pass = status is None or status >= 500 or status == _TOO_MANY_REQUESTS
            if not may_pass or (wait := next(waits, None)) is None:
                raise _unreachable(url, reason_of(error), wanted) from error
            time.sleep(wait)


def _contents(wanted: Source, url: str, largest: int) -> dict[str, bytes]:
    members = _unpack(_downloaded(url, largest, wanted), url, largest)
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
