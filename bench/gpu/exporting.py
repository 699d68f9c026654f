"""Export the models; one that cannot be exported does not stop the others."""

from pathlib import Path

import msgspec

from ...engine.errors import InputError
from ..shapes import prepare
from .setting import Found, Model, Setting


def export(setting: Setting) -> Found:
    """Each model, exported or found in the cache, and why others are not.

    Raises:
        InputError: None of them can be exported.
    """
    models, failed = [], {}
    for name in setting.names:
        try:
            made = prepare(name, Path(setting.cache))
        except InputError as error:
            failed[name] = str(error)
            continue
        models.append(Model(made.name, made.checkpoint, str(made.exported.folder), made.is_random))
    if not models:
        raise InputError("; ".join(failed.values()))
    return {"models": msgspec.to_builtins(models), "failed": failed}
