"""Sentences with slots, one of them for the mask; a pattern set is a TOML file.

    [[pattern]]
    name = "CpTp"
    role = "selecting"
    context = "{NAME} is {PROF} who likes to {ACT}."
    target = "{PRON} is happy to {MASK}."

The sentence is the context, a space and the target. Where there is one sentence only, the target is left out.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import InputError

BUNDLED_PATTERNS = Path(__file__).parent / "resources" / "patterns" / "self-contained-negation.toml"
MASK = "MASK"
SLOTS = ("NAME", "PROF", "ACT", "PRON", MASK)

_SLOT = re.compile(r"\{(\w+)\}")
_REQUIRED_KEYS = ("name", "role", "context")
_KEYS = (*_REQUIRED_KEYS, "target")


class Role(StrEnum):
    """What a pattern is for (sections 3.1 to 3.3 of the paper)."""

    SELECTING = "selecting"
    """The triplets whose verb is repeated in it make the test set."""
    FORBIDDEN = "forbidden"
    """Its negation rules the repetition out."""
    CONTROL = "control"
    """Repetition stays natural in it."""


@dataclass(frozen=True)
class Hole:
    """One occurrence of a slot in a sentence."""

    slot: str
    starts_sentence: bool

    def spell(self, filler: str) -> str:
        """The filler as it stands here: with a capital where a sentence starts."""
        return filler[:1].upper() + filler[1:] if self.starts_sentence else filler


@dataclass(frozen=True)
class Pattern:
    """A context and a target sentence with slots in braces; exactly one {MASK}."""

    name: str
    context: str
    target: str = ""
    role: Role = Role.CONTROL

    @property
    def sentence(self) -> str:
        """Context and target in one, slots unfilled."""
        return " ".join(part for part in (self.context, self.target) if part)

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots that take a filler, in order of appearance; {MASK} is not among them."""
        return tuple(dict.fromkeys(hole.slot for hole in self.holes if hole.slot != MASK))

    @cached_property
    def holes(self) -> tuple[Hole, ...]:
        """The occurrences of slots in the sentence, {MASK} among them."""
        starts = (0, len(self.sentence) - len(self.target))
        return tuple(Hole(match[1], match.start() in starts) for match in _SLOT.finditer(self.sentence))

    def fill(self, words: Sequence[str]) -> str:
        """The sentence with one word for each hole, spelled as given."""
        replacements = iter(words)
        return _SLOT.sub(lambda _: next(replacements), self.sentence)

    def text(self, fillers: Mapping[str, str], mask: str) -> str:
        """The sentence with its slots filled; a filler at the start of context or target gets a capital.

        Args:
            fillers: A filler for each of `slots`.
            mask: The model's mask token.
        """
        return self.fill([mask if hole.slot == MASK else hole.spell(fillers[hole.slot]) for hole in self.holes])


@dataclass(frozen=True)
class PatternSet:
    """One pattern that selects triplets, and those that they are scored in."""

    name: str
    selecting: Pattern
    scored: tuple[Pattern, ...]

    @property
    def all(self) -> tuple[Pattern, ...]:
        """The selecting pattern, then the scored ones."""
        return (self.selecting, *self.scored)

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the patterns and their order, whatever else their file holds."""
        content = json.dumps([[pattern.name, pattern.role, pattern.context, pattern.target] for pattern in self.all])
        return hashlib.sha256(content.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The set as it is kept in a run's run.json; `from_json` reads it back."""
        patterns = [[pattern.name, str(pattern.role), pattern.context, pattern.target] for pattern in self.all]
        return {"name": self.name, "patterns": patterns}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "PatternSet":
        """The inverse of `to_json`."""
        patterns = [
            Pattern(name=name, context=context, target=target, role=Role(role))
            for name, role, context, target in content["patterns"]
        ]
        return cls(content["name"], patterns[0], tuple(patterns[1:]))


def load_patterns(path: Path | None = None, slots: Collection[str] = SLOTS) -> PatternSet:
    """Read a pattern set, by default that of the Self-Contained Negation Test.

    Args:
        path: A TOML file: a `name`, and a table `[[pattern]]` with name, role, context and target for each pattern.
        slots: The names that may stand in braces.

    Raises:
        InputError: The file cannot be read or is not TOML; a key is missing, unknown or no string; a role or slot is
            unknown; braces do not match; white space is more than one space between words; a pattern has not exactly
            one mask; two patterns share a name; not exactly one of them is selecting.
    """
    source = _Source.read(path or BUNDLED_PATTERNS)
    document = source.document
    if unknown := next((key for key in document if key not in {"name", "pattern"}), None):
        raise InputError(f"{source.place(key=unknown)}: unknown key {unknown!r}; known are name and [[pattern]]")
    if not isinstance(document.get("name"), str):
        raise InputError(f'{source.place(key="name")}: the set needs a name: name = "…" above the first [[pattern]]')
    tables = document.get("pattern")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{source.place(key='pattern')}: no pattern; each is a table [[pattern]]")
    patterns = [_pattern(table, number, source, slots) for number, table in enumerate(tables)]
    _refuse_duplicates(patterns, source)
    selecting = _selecting(patterns, source)
    scored = tuple(pattern for pattern in patterns if pattern is not selecting)
    return PatternSet(name=document["name"], selecting=selecting, scored=scored)


@dataclass(frozen=True)
class _Source:
    """A pattern file: what it says, and on which lines."""

    path: Path
    lines: tuple[str, ...]
    document: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "_Source":
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); give a TOML file of patterns") from error
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise InputError(f"{path}:{line}: byte 0x{error.object[error.start]:02x} is not UTF-8") from error
        try:
            return cls(path, tuple(text.splitlines()), tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            # Python 3.11 tells the line in the message alone, and none where the file ends too early.
            line = int(found[1]) if (found := re.search(r"at line (\d+)", str(error))) else text.count("\n") + 1
            raise InputError(f"{path}:{line}: not valid TOML: {error}") from error

    def place(self, pattern: int | None = None, key: str | None = None) -> str:
        """File and line of a key, in the pattern of this number; or of the pattern where the key is not found."""
        headers = [number for number, line in enumerate(self.lines, 1) if re.match(r"\s*\[\[\s*pattern\s*\]\]", line)]
        starts = [1, *headers]
        table = 0 if pattern is None or pattern >= len(headers) else pattern + 1
        last = starts[table + 1] - 1 if table + 1 < len(starts) else len(self.lines)
        for number in range(starts[table], last + 1):
            if key is not None and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", self.lines[number - 1]):
                return f"{self.path}:{number}"
        return f"{self.path}:{starts[table]}"


def _pattern(table: dict[str, Any], number: int, source: _Source, slots: Collection[str]) -> Pattern:
    if missing := next((key for key in _REQUIRED_KEYS if key not in table), None):
        raise InputError(
            f"{source.place(number)}: this pattern has no {missing!r}; it needs {', '.join(_REQUIRED_KEYS)}"
        )
    for key, value in table.items():
        place = source.place(number, key)
        if key not in _KEYS:
            raise InputError(f"{place}: unknown key {key!r}; known are {_listed(_KEYS)}")
        if not isinstance(value, str):
            raise InputError(f"{place}: {key} is {value!r}; it must be a string")
    for key in ("context", "target"):
        _check_sentence(table.get(key, ""), source.place(number, key), slots)
    if table["role"] not in set(Role):
        raise InputError(f"{source.place(number, 'role')}: unknown role {table['role']!r}; known are {_listed(Role)}")
    pattern = Pattern(table["name"], table["context"], table.get("target", ""), Role(table["role"]))
    masks = sum(hole.slot == MASK for hole in pattern.holes)
    if masks != 1:
        raise InputError(f"{source.place(number)}: {pattern.name} has {masks} masks; it needs exactly one {{{MASK}}}")
    return pattern


def _check_sentence(sentence: str, place: str, slots: Collection[str]) -> None:
    if unknown := next((slot for slot in _SLOT.findall(sentence) if slot not in slots), None):
        raise InputError(f"{place}: unknown slot {unknown!r} in {sentence!r}; known are {_listed(slots)}")
    if re.search(r"[{}]", _SLOT.sub("", sentence)):
        raise InputError(f"{place}: stray brace in {sentence!r}; braces stand around the name of a slot only")
    if sentence != " ".join(sentence.split()):
        raise InputError(f"{place}: white space in {sentence!r} must be single spaces between words")


def _refuse_duplicates(patterns: Sequence[Pattern], source: _Source) -> None:
    first: dict[str, int] = {}
    for number, pattern in enumerate(patterns):
        if (earlier := first.setdefault(pattern.name, number)) != number:
            raise InputError(
                f"{source.place(number, 'name')}: the name {pattern.name!r} stands already in "
                f"{source.place(earlier, 'name')}; give each pattern its own"
            )


def _selecting(patterns: Sequence[Pattern], source: _Source) -> Pattern:
    numbers = [number for number, pattern in enumerate(patterns) if pattern.role is Role.SELECTING]
    if not numbers:
        raise InputError(f'{source.place()}: no selecting pattern; give one of them role = "{Role.SELECTING}"')
    if len(numbers) > 1:
        raise InputError(
            f"{source.place(numbers[1], 'role')}: {patterns[numbers[1]].name} is a second selecting pattern beside "
            f"{patterns[numbers[0]].name} ({source.place(numbers[0], 'role')}); there can be one"
        )
    return patterns[numbers[0]]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)
