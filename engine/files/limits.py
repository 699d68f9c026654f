"""How many files this process may have open."""

from ..errors import InputError

NEEDED = 64
"""A run has less than twenty files open at once; some libraries end the process if one cannot be opened."""


def refuse_few_open_files(needed: int = NEEDED) -> None:
    """Raise the process's own limit if it is too low.

    Args:
        needed: The lowest limit that is enough.

    Raises:
        InputError: The system does not allow so many.
    """
    try:
        import resource  # noqa: PLC0415 - not on Windows, which has no such limit
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise InputError(
            f"this process may have {hard} files open, and a run needs {needed}: raise the limit, such as with "
            "`ulimit -n 1024`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
