"""A mutant in the place of its module, in a process that has imported the module before.

The functions of the module get the code of the mutant's functions. Whoever has imported them has the mutant then, as
the functions themselves stay. So a trial does not begin with seconds of imports. A mutant that changes what the import
itself does, such as a constant or a default, cannot be put in place like this: its module must be imported.
"""

import gc
import inspect
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType

Place = tuple[str, int, str]
"""File, first line and qualified name of a function."""


def live_functions(files: Iterable[str]) -> dict[Place, list[FunctionType]]:
    """The functions of some files that this process has, by place."""
    found: dict[Place, list[FunctionType]] = {}
    wanted = set(files)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename in wanted:
            found.setdefault(_place(thing.__code__), []).append(thing)
    return found


def put_in_place(file: str, original: str, mutant: str, functions: Mapping[Place, list[FunctionType]]) -> bool:
    """Give the functions of a module the code of a mutant's.

    Returns:
        Whether the process runs the mutant now. If not, its module must be imported.
    """
    pairs = changed_functions(*(compile(text, file, "exec", dont_inherit=True) for text in (original, mutant)))
    if pairs is None or len({_place(old) for old, _ in pairs}) < len(pairs):
        return False
    found = [(functions.get(_place(old), []), new) for old, new in pairs]
    if not all(own for own, _ in found):
        return False
    try:
        for own, new in found:
            for function in own:
                function.__code__ = new
    except ValueError:  # it needs other variables of the function around it
        return False
    return True


def changed_functions(original: CodeType, mutant: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """The outermost functions that differ, as they were and as they are; None if more than functions differs."""
    if _by_itself(original) != _by_itself(mutant):
        return None
    pairs = []
    for old, new in zip(_inner(original), _inner(mutant), strict=True):
        if old == new:
            continue
        if old.co_flags & inspect.CO_OPTIMIZED:
            pairs.append((old, new))
        elif (found := changed_functions(old, new)) is not None:  # the body of a class
            pairs += found
        else:
            return None
    return pairs


def _by_itself(code: CodeType) -> tuple[object, ...]:
    """What a code does, except for the code in it and for the numbers of its lines."""
    constants = [
        const.co_qualname if isinstance(const, CodeType) else f"{type(const)} {const!r}" for const in code.co_consts
    ]
    return (code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags)


def _inner(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_firstlineno, code.co_qualname
