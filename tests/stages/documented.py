"""What docs/files.md says of the columns of a file."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "files.md"


def documented(file: str) -> list[str]:
    """The columns of a table below the heading of a file, such as `items.parquet` or `` items.parquet` of `gh22 ``."""
    sections = re.split(r"^##+ ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    (section,) = (text for text in sections if text.partition("\n")[0] == f"`{file}`")
    (table,) = re.findall(r"^\| (?:column|key) \|.*\n\|[-|]+\n((?:\|.*\n)+)", section, re.MULTILINE)
    return [name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
