"""A sealed document is read only as it was written."""

import hashlib
import json
from functools import partial

import msgspec
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.reading import MissingFileError
from negengine.engine.basics.sealed import DamagedError, read_sealed, seal, unseal, write_sealed


class Document(msgspec.Struct):
    format: int
    name: str = msgspec.field(name="a name that is long " * 10)
    counts: dict[str, float] = {}


DOCUMENT = Document(3, "CpTp “Ünïcode”", {"tested": 11, "share": 0.1 + 0.2})


def test_the_form_of_a_document_byte_by_byte_and_every_flipped_bit_is_noticed():
    content = b'{\n  "format": 3,\n  "n": [\n    1\n  ]'
    digest = hashlib.sha256(content).hexdigest()
    assert seal({"format": 3, "n": [1]}) == content + b',\n  "content_sha256": "' + digest.encode() + b'"\n}\n'
    assert json.loads(seal({"format": 3, "n": [1]})) == {"format": 3, "n": [1], "content_sha256": digest}
    content = seal(DOCUMENT)
    assert unseal(content, Document) == DOCUMENT
    for position in range(len(content)):
        for mask in [*(1 << bit for bit in range(8)), 0xFF]:
            damaged = content[:position] + bytes([content[position] ^ mask]) + content[position + 1 :]
            with pytest.raises(DamagedError):
                unseal(damaged, Document)


def test_a_file_that_is_not_ours_is_one_line_with_its_repair(tmp_path):
    path = tmp_path / "document.json"
    read = partial(read_sealed, kind=Document, made_as=3, repair="make it again")
    with pytest.raises(MissingFileError):
        read(path)
    write_sealed(path, DOCUMENT)
    assert read(path) == DOCUMENT
    for content, reason in {
        path.read_bytes().replace(b"CpTp", b"CpUp"): r"not as .* damaged or was edited: the digest .* is another\)",
        seal({"format": 4, "anything": []}): "format 4, this version reads 3",
        seal({"name": "x"}): r"not as negengine writes it \(Object missing required field `format`\)",
        seal({"format": 3}): r"not as negengine writes it \(Object missing required field `a [a-z ]{87}\)",
        b'{"format": 3}': r"not as negengine writes it \(it has no digest of its content\)",
    }.items():
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"document\.json: {reason}; make it again$"):
            read(path)
