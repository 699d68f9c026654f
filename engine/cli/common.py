"""Options of every command: where exports have their names, and what becomes of messages."""

import os
from pathlib import Path
from typing import Annotated

from ..basics.errors import InputError
from ..basics.option import Option, options_of_function

_MODELS = "The folder where exported models have their names (default: the variable NEGENGINE_MODELS, else models)."
_QUIET = "Print only results and errors."
_LOG = "Add all messages to this file, each line with the time (default: only on stderr)."


def apply_common(
    *,
    models_folder: Annotated[Path | None, Option(_MODELS, "DIR", flags=("--models",))] = None,
    quiet: Annotated[bool, Option(_QUIET, flags=("--quiet", "-q"))] = False,
    log: Annotated[Path | None, Option(_LOG, "FILE")] = None,
) -> None:
    """Have this process, and those that it starts, do as these options say."""
    from ..runs.stderr import Messages

    if models_folder is not None:
        os.environ["NEGENGINE_MODELS"] = str(models_folder.absolute())
    Messages.quiet = quiet
    Messages.log = None
    if log is not None:
        try:
            Messages.log = log.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"--log {log}: {error.strerror}; give a file in a folder that can be written") from None


COMMON = options_of_function(apply_common)
