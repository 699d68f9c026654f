"""`negengine doctor`: what works on this machine, and how to fix what does not."""

from ..commands import options
from ..commands.console import document, show


def doctor(as_json: options.Json = False) -> None:
    """Check what works on this machine, and what is missing.

    Example: negengine doctor
    """
    from .findings import diagnose

    found = diagnose()
    if as_json:
        document(found)
    else:
        width = max(map(len, found))
        show("\n".join(f"{name:{width}}  {value}" for name, value in found.items()))
