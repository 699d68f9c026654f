"""What commands print: results on stdout, everything else on stderr."""

import json
import sys
from typing import Any


def say(line: str) -> None:
    """A line for people, beside the results."""
    print(line, file=sys.stderr)


def show(*renderables: Any) -> None:
    """Tables and other things of rich, as results."""
    from rich.console import Console

    console = Console()
    for item in renderables:
        console.print(item)


def document(value: Any) -> None:
    """One JSON document as the result."""
    print(json.dumps(value, ensure_ascii=False, indent=2))
