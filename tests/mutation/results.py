"""What became of each mutant, printed at once and kept in a file, so that a call that is stopped loses nothing."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

from .mutants import Mutant


@dataclass(frozen=True)
class Result:
    """One mutant and its tests."""

    group: str  # the group of its module
    place: str  # Module, line and kind of change
    before: str  # the line as it is
    after: str  # the same line of the mutant
    sha256: str  # of the whole mutant, in hex
    failed: str | None  # the test that failed, or why else the tests did not pass; None if the mutant has survived
    seconds: float  # how long its tests took

    @classmethod
    def of(cls, group: str, mutant: Mutant, failed: str | None, seconds: float) -> "Result":
        """The result of a mutant."""
        place = f"{mutant.module}:{mutant.line} {mutant.operator}"
        return cls(group, place, mutant.before, mutant.after, _digest(mutant), failed, round(seconds, 1))


class Results:
    """All results of a call, and the killed mutants of earlier ones: with more tests they are killed again."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock = path, Lock()
        lines = path.read_text("utf-8").splitlines() if path is not None and path.exists() else []
        found = [Result(**json.loads(line)) for line in lines]
        self._killed = {result.sha256: result for result in found if result.failed is not None}

    def killed(self, mutant: Mutant) -> Result | None:
        """The result of a mutant that was killed before."""
        return self._killed.get(_digest(mutant))

    def add(self, result: Result) -> Result:
        """Print a survivor, and keep a result."""
        with self._lock:
            if result.failed is None:
                print(f"survived: {result.place}\n  - {result.before}\n  + {result.after}", flush=True)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")
        return result


def _digest(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.module}\n{mutant.source}".encode()).hexdigest()
