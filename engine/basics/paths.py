"""Names and paths in files that are passed on: a document must not lead out of its folder, nor name the user."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from .errors import is_utf8

_HOME = '"$HOME"'


def without_home(path: str | Path) -> str:
    """A path with `~` for the home folder; `with_home` gives it back."""
    text, home = str(path), _home()
    if home and (text == home or text.startswith(f"{home}/")):
        return f"~{text[len(home) :]}"
    return text


def without_home_inside(text: str) -> str:
    """A message with `~` for the home folder wherever it names a path in it."""
    home = _home()
    return re.sub(rf"(?<![\w./-]){re.escape(home)}/", "~/", text) if home else text


def with_home(path: str) -> Path:
    """A path from `without_home` as this user has it."""
    home = _home()
    if home and (path == "~" or path.startswith("~/")):
        return Path(home + path[1:])
    return Path(path)


def shell_command(words: Sequence[str]) -> str:
    """A command line, quoted for a shell, with `"$HOME"` for the home folder; `words_of` gives the words back."""
    home, quoted = _home(), []
    for word in words:
        if not home or f"{home}/" not in f"{word}/":
            quoted.append(shlex.quote(word))
        else:
            before, _, after = word.partition(home)
            quoted.append((before and shlex.quote(before)) + _HOME + (after and shlex.quote(after)))
    return " ".join(quoted)


def words_of(command: str) -> list[str]:
    """The words of a command line; a `ValueError` if it is not one."""
    home = _home()
    return shlex.split(command.replace(_HOME, shlex.quote(home)) if home else command)


def _home() -> str | None:
    """The home folder; None where there is none, or it is a folder that all users share."""
    try:
        home = str(Path.home())
    except RuntimeError:
        return None
    return home if len(Path(home).parts) > 1 else None


_ELSEWHERE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)  # on Windows, in every folder


def is_file_name(name: str) -> bool:
    """Whether a name is that of a file in the folder itself, on every system."""
    if _ELSEWHERE.search(name) or _DEVICE.fullmatch(name) or name != name.rstrip(". "):  # also refuses "." and ".."
        return False
    return is_utf8(name) and 0 < len(name.encode()) <= 255  # bytes, on all usual file systems


def is_model_name(name: str) -> bool:
    """Whether a name is that of a model, such as `roberta-base` or `owner/name`: at most two names of files."""
    parts = name.split("/")
    return len(parts) <= 2 and all(is_file_name(part) for part in parts)
