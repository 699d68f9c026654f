"""Names that stay inside their folder, on every operating system.

A run or an export can come from elsewhere. The names in its documents are used to open and to write files, so none of
them may lead out of the folder.
"""

import re

_LONGEST = 255  # bytes of a file name, on all usual file systems
_ELSEWHERE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)  # on Windows, in every folder


def is_file_name(name: str) -> bool:
    """Whether a name is that of a file in the folder itself."""
    if _ELSEWHERE.search(name) or _DEVICE.fullmatch(name) or name != name.rstrip(". "):  # also refuses "." and ".."
        return False
    try:
        return 0 < len(name.encode()) <= _LONGEST
    except UnicodeEncodeError:  # a lone surrogate
        return False


def is_model_name(name: str) -> bool:
    """Whether a name is that of a model, such as `roberta-base` or `owner/name`: at most two names of files."""
    parts = name.split("/")
    return len(parts) <= 2 and all(is_file_name(part) for part in parts)
