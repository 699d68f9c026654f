"""JSON documents that end with the SHA-256 of all bytes before it: nothing else is parsed before that is right."""

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .atomic import sha256, write_bytes
from .errors import InputError
from .reading import MOST_JSON, read_regular

T = TypeVar("T")

_SEAL = b',\n  "content_sha256": "%b"\n}\n'
_SEALED = re.compile(rb'(.*),\n  "content_sha256": "([0-9a-f]{64})"\n\}\n', re.DOTALL)


class DamagedError(Exception):
    """A document is not as it was written: its digest is another, or there is none."""


def seal(document: Any) -> bytes:
    """A document with its digest: a Struct or a mapping with at least one member."""
    content = msgspec.json.format(msgspec.json.encode(document), indent=2).removesuffix(b"\n}")
    return content + _SEAL % sha256(content).encode()


def unseal(content: bytes, kind: type[T]) -> T:
    """The document of such content, of a type without the member `content_sha256`; DamagedError for anything else."""
    if (found := _SEALED.fullmatch(content)) is None:
        raise DamagedError("it has no digest of its content")
    if sha256(found[1]).encode() != found[2]:
        raise DamagedError("it is damaged or was edited: the digest of its content is another")
    try:
        return msgspec.json.decode(found[1] + b"\n}", type=kind)
    except (RecursionError, ValueError, InputError) as error:  # msgspec's errors are ValueErrors
        raise DamagedError(str(error)[:120]) from error


def write_sealed(path: Path, document: Any) -> None:
    """Write a document with its digest, atomically; a failure is an `InputError`."""
    write_bytes(path, seal(document))


def read_sealed(path: Path, kind: type[T], *, made_as: int, repair: str) -> T:
    """Read a document that `write_sealed` wrote, and that says its format; InputError if it is another, or damaged."""
    content = read_regular(path, MOST_JSON)
    try:
        found = unseal(content, _Format).format
        if found == made_as:
            return unseal(content, kind)
    except DamagedError as error:
        raise InputError(f"{path}: not as negengine writes it ({error}); {repair}") from None
    raise InputError(f"{path}: format {found}, this version reads {made_as}; {repair}")


class _Format(msgspec.Struct):
    format: int
