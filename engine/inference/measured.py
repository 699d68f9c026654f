"""What is measured once for a model on this kind of processor, and is the same from then on.

Some choices depend on speeds, such as whether the low-precision model is worth its audit. A stopwatch gives another
number each time, so two shards of a run could choose differently. So the first process measures and keeps the number
beside the export; later processes take it from there. A process that needs it meanwhile waits for the first.

    models/NAME/.measured.json     conditions → name → value, and the digest of them all

The conditions are the kind of processor (`processor`) and the digests of the graphs: another processor or another
export has numbers of its own. If the model's folder cannot be written, the numbers are kept in the user's cache folder.
A damaged file is not an error: what it held is measured again.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from ..files.atomic import is_leftover
from ..files.reading import MissingFileError
from ..files.sealed import read_sealed, write_sealed

_FORMAT = 1
_FILE = ".measured.json"
_MOST_KEPT = 64  # kinds of processors; the oldest are forgotten
_SECONDS_TO_WAIT = 120.0  # for another process that measures
_DECIMALS = 4

Say = Callable[[str], None]


class _Entry(msgspec.Struct):
    """What was measured under the same conditions: name → value."""

    conditions: dict[str, Any]
    values: dict[str, float]


class _Document(msgspec.Struct):
    format: int
    kept: list[_Entry]


@dataclass(frozen=True)
class Measured:
    """The measured numbers of one model under the same conditions.

    Attributes:
        conditions: What the numbers depend on; JSON values.
        places: The files that may hold them; the first one that can be written is written.
        wait: How many seconds to wait for another process that measures.
    """

    conditions: Mapping[str, Any]
    places: Sequence[Path]
    wait: float = _SECONDS_TO_WAIT

    @classmethod
    def beside(cls, folder: Path, conditions: Mapping[str, Any]) -> "Measured":
        """The numbers of the export in a folder.

        Args:
            folder: Of the export.
            conditions: What the numbers depend on, the digests of the graphs included.
        """
        import platformdirs  # noqa: PLC0415 - most commands measure nothing

        cache = platformdirs.user_cache_path("negengine", appauthor=False) / "measured"
        return cls(conditions, (folder / _FILE, cache / _digest(str(folder.resolve()))[:16] / _FILE))

    def number(self, name: str, measure: Callable[[], float], say: Say = lambda _: None) -> float:
        """A number above 0: the kept one, or else the one that is measured now and kept.

        Args:
            name: What is measured.
            measure: Measures it; called at most once.
            say: Receives one line where a file is damaged, or where the number cannot be kept.
        """
        return self.numbers([name], lambda: {name: measure()}, say)[name]

    def kept(self, names: Sequence[str], say: Say = lambda _: None) -> dict[str, float] | None:
        """Several numbers; None unless all of them are kept.

        Args:
            names: What they measure.
            say: Receives one line where a file is damaged.
        """
        return next((found for place in self.places if (found := self._kept(place, names, say))), None)

    def numbers(
        self, names: Sequence[str], measure: Callable[[], Mapping[str, float]], say: Say = lambda _: None
    ) -> dict[str, float]:
        """Several numbers that are measured together; see `number`.

        Args:
            names: What is measured, at least one.
            measure: Measures all of them; called at most once.
            say: As for `number`.
        """
        from filelock import FileLock, Timeout  # noqa: PLC0415 - most commands measure nothing

        told = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        if (known := self.kept(names, say)) is not None:
            return known
        for place in self.places:
            with ExitStack() as stack:
                try:
                    # The lock makes the folder, too.
                    stack.enter_context(FileLock(place.with_suffix(".lock"), self.wait, fallback_to_soft=False))
                except (OSError, NotImplementedError, Timeout):
                    continue
                if known := self._kept(place, names, lambda _: None):  # another process was first
                    return known
                found = _rounded(measure())
                try:
                    if all(0 < value < math.inf for value in found.values()):
                        self._keep(place, found)
                except InputError as error:
                    say(f"the measured {told} is not kept, and another process measures it again: {error}")
                return found
        say(f"the measured {told} is not kept, and another process measures it again: {self.places[0]} is not writable")
        return _rounded(measure())

    def _kept(self, place: Path, names: Sequence[str], say: Say) -> dict[str, float] | None:
        for entry in _read(place, say):
            if entry.conditions == self.conditions and all(name in entry.values for name in names):
                return {name: entry.values[name] for name in names}
        return None

    def _keep(self, place: Path, values: Mapping[str, float]) -> None:
        for path in place.parent.glob(f".{place.name}.*"):  # of killed processes: this one holds the lock
            if is_leftover(path):
                with suppress(OSError):
                    path.unlink()
        entries = _read(place, lambda _: None)
        own: dict[str, float] = next((entry.values for entry in entries if entry.conditions == self.conditions), {})
        others = [entry for entry in entries if entry.conditions != self.conditions]
        kept = [*others, _Entry(dict(self.conditions), {**own, **values})][-_MOST_KEPT:]
        write_sealed(place, _Document(_FORMAT, kept))


def _read(place: Path, say: Say) -> list[_Entry]:
    """The entries of a file; none where there is no such file, or where it is damaged."""
    try:
        return read_sealed(place, _Document, made_as=_FORMAT, repair="").kept
    except MissingFileError:
        return []
    except InputError:
        say(f"{place}: damaged; what it held is measured again")
        return []


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    """As they are kept: the process that measures uses the same numbers as those that read them."""
    return {name: float(f"{value:.{_DECIMALS}g}") for name, value in values.items()}
