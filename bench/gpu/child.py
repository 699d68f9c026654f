"""The process of one step: `python -m negengine.bench.gpu.child SETTING FUNCTION RESULT`."""

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec

from .setting import NotHere, Setting

DONE, NOT_HERE, FAILED = "done", "not here", "failed"


def main(setting: str, function: str, result: str) -> None:
    """Run a step and write its status and what it found."""
    given = msgspec.json.decode(Path(setting).read_bytes(), type=Setting)
    module, _, name = function.partition(":")
    found: dict[str, Any]
    try:
        found = {"status": DONE, "found": getattr(importlib.import_module(module), name)(given)}
    except NotHere as reason:
        found = {"status": NOT_HERE, "why": str(reason)}
    except Exception as error:  # noqa: BLE001 - whatever a step raises is a line of the result
        traceback.print_exc()
        found = {"status": FAILED, "why": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}
    Path(result).write_text(json.dumps(found, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
