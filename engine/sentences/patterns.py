"""Sentences with slots, one of them for the mask; a pattern set is a TOML file.

    [[pattern]]
    name = "CpTp"
    role = "selecting"
    context = "{NAME} is {PROF} who likes to {ACT}."
    target = "{PRON} is happy to {MASK}."

The sentence is the context, a space and the target. Where there is one sentence only, there is no target.
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
from typing import Annotated, Any

import msgspec

from ..errors import InputError, did_you_mean
from ..files.reading import exists
from .slots import MASK, SLOTS
from .textfiles import read_text

SELF_CONTAINED_NEGATION = "self-contained-negation"
_BUNDLED = {path.stem: path for path in sorted((Path(__file__).parent / "resources" / "patterns").glob("*.toml"))}

_SLOT = re.compile(r"\{(\w+)\}")
_REQUIRED_KEYS = ("name", "role", "context")
_KEYS = (*_REQUIRED_KEYS, "target")
_MOST_PATTERNS = 500
_LONGEST_SENTENCE = 2_000  # characters


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
    def slots(self) -> tuple[str, ...]:
        """The slots of all patterns, in order of appearance; {MASK} is not among them."""
        return tuple(dict.fromkeys(slot for pattern in self.all for slot in pattern.slots))

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
        """The inverse of `to_json`.

        Raises:
            InputError: It is something else.
        """
        try:
            kept = msgspec.convert(content, _Kept)
        except msgspec.ValidationError as error:
            raise InputError(f"run.json holds no pattern set ({error}); run its command again") from None
        selecting, *scored = (Pattern(name, context, target, role) for name, role, context, target in kept.patterns)
        return cls(kept.name, selecting, tuple(scored))


class _Kept(msgspec.Struct):
    """A pattern set in run.json: name, role, context and target of each pattern."""

    name: str
    patterns: Annotated[list[tuple[str, Role, str, str]], msgspec.Meta(min_length=1)]


def load_patterns(source: str | Path | None = None, slots: Collection[str] = SLOTS) -> PatternSet:
    """Read a pattern set.

    Args:
        source: The name of a bundled set, such as "gh22-connective", or the path of a TOML file: a `name`, and a table
            `[[pattern]]` with name, role, context and target for each pattern. By default the set of the
            Self-Contained Negation Test.
        slots: The names that may stand in braces: `Lexicon.slots` for a lexicon with slots of its own.

    Raises:
        InputError: No bundled set has this name; the file cannot be read or is not TOML; a key is missing, unknown or
            not a string; a role or slot is unknown; braces do not match; white space is more than one space between
            words; a pattern has not exactly one mask; two patterns share a name; not exactly one of them is selecting.
    """
    file = _File.read(_path(SELF_CONTAINED_NEGATION if source is None else source))
    document = file.document
    if unknown := next((key for key in document if key not in {"name", "pattern"}), None):
        raise InputError(f"{file.line(key=unknown)}: unknown key {unknown!r}; known are name and [[pattern]]")
    if not isinstance(document.get("name"), str):
        raise InputError(f'{file.line(key="name")}: the set needs a name: name = "…" above the first [[pattern]]')
    tables = document.get("pattern")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{file.line(key='pattern')}: no pattern; each is a table [[pattern]]")
    if len(tables) > _MOST_PATTERNS:
        raise InputError(f"{file.path}: {len(tables):,} patterns; a set has at most {_MOST_PATTERNS}")
    patterns = [_pattern(table, number, file, slots) for number, table in enumerate(tables)]
    _refuse_duplicates(patterns, file)
    selecting = _selecting(patterns, file)
    scored = tuple(pattern for pattern in patterns if pattern is not selecting)
    return PatternSet(name=document["name"], selecting=selecting, scored=scored)


def bundled_patterns() -> tuple[str, ...]:
    """The names of the bundled pattern sets."""
    return tuple(_BUNDLED)


def _path(source: str | Path) -> Path:
    """The file of a bundled set, or of a path. A word without a folder or an ending is a name."""
    path, name = Path(source), str(source)
    if name in _BUNDLED:
        return _BUNDLED[name]
    if path.suffix or path.name != name or exists(path):
        return path
    guess = did_you_mean(name, _BUNDLED)
    raise InputError(
        f"no pattern set is named {name!r}: {guess}The bundled sets are {_listed(_BUNDLED)}; or give a TOML file"
    )


@dataclass(frozen=True)
class _File:
    """A pattern file: what it says, and on which lines."""

    path: Path
    lines: tuple[str, ...]
    document: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "_File":
        text = read_text(path, "give a TOML file of patterns, or the name of a bundled set")
        try:
            return cls(path, tuple(text.split("\n")), tomllib.loads(text))
        except RecursionError:
            raise InputError(f"{path}: not valid TOML: nested too deeply") from None
        except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
            # Python 3.11 tells the line in the message alone, and none where the file ends too early.
            line = int(found[1]) if (found := re.search(r"at line (\d+)", str(error))) else text.count("\n")
            raise InputError(f"{path}:{line}: not valid TOML: {error}") from error

    def line(self, pattern: int | None = None, key: str | None = None) -> str:
        """File and line of a key of the pattern with this number, or of the pattern where the key is not found.

        Without a number, the keys above the first pattern are meant.
        """
        headers = self._starting_with(r"\[\[\s*[\"']?pattern[\"']?\s*\]\]", range(len(self.lines)))
        tables = [0, *headers, len(self.lines)]
        table = 0 if pattern is None or pattern >= len(headers) else pattern + 1
        own = range(tables[table], tables[table + 1])
        found = [] if key is None else self._starting_with(rf"""["']?{re.escape(key)}["']?\s*=""", own)
        return f"{self.path}:{(found or own)[0] + 1}"

    def _starting_with(self, expression: str, lines: range) -> list[int]:
        """The lines on which a statement like this begins.

        What stands above a statement is a whole document; what stands above a line within a string is not.
        """
        alike = [number for number in lines if re.match(rf"\s*{expression}", self.lines[number])]
        if not any(quotes in line for line in self.lines for quotes in ('"""', "'''")) or len(alike) > _MOST_PATTERNS:
            return alike  # no string has several lines; or there are too many to parse what is above each of them
        return [number for number in alike if _is_toml("\n".join(self.lines[:number]))]


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _pattern(table: dict[str, Any], number: int, file: _File, slots: Collection[str]) -> Pattern:
    if missing := next((key for key in _REQUIRED_KEYS if key not in table), None):
        raise InputError(f"{file.line(number)}: this pattern has no {missing!r}; it needs {_listed(_REQUIRED_KEYS)}")
    for key, value in table.items():
        if key not in _KEYS:
            raise InputError(f"{file.line(number, key)}: unknown key {key!r}; known are {_listed(_KEYS)}")
        if not isinstance(value, str):
            raise InputError(f"{file.line(number, key)}: {key} is {value!r}; it must be a string")
    for key in ("context", "target"):
        if fault := _fault(table.get(key, ""), slots):
            raise InputError(f"{file.line(number, key)}: {fault}")
    if table["role"] not in set(Role):
        raise InputError(f"{file.line(number, 'role')}: unknown role {table['role']!r}; known are {_listed(Role)}")
    pattern = Pattern(table["name"], table["context"], table.get("target", ""), Role(table["role"]))
    masks = sum(hole.slot == MASK for hole in pattern.holes)
    if masks != 1:
        raise InputError(f"{file.line(number)}: {pattern.name} has {masks} masks; it needs exactly one {{{MASK}}}")
    return pattern


def _fault(sentence: str, slots: Collection[str]) -> str:
    """The error in a sentence; empty if there is none."""
    if len(sentence) > _LONGEST_SENTENCE:
        return f"{len(sentence):,} characters; a sentence has at most {_LONGEST_SENTENCE:,}"
    if unknown := next((slot for slot in _SLOT.findall(sentence) if slot not in slots), None):
        return f"unknown slot {unknown!r} in {sentence!r}; known are {_listed(slots)}"
    if re.search(r"[{}]", _SLOT.sub("", sentence)):
        return f"stray brace in {sentence!r}; write braces only around the name of a slot"
    if sentence != " ".join(sentence.split()):
        return f"white space in {sentence!r} must be single spaces between words"
    if odd := next((character for character in sentence if not character.isprintable()), None):
        return f"the character U+{ord(odd):04X} in {sentence!r} is not printable; remove it"
    return ""


def _refuse_duplicates(patterns: Sequence[Pattern], file: _File) -> None:
    first: dict[str, int] = {}
    for number, pattern in enumerate(patterns):
        if (earlier := first.setdefault(pattern.name, number)) != number:
            raise InputError(
                f"{file.line(number, 'name')}: the name {pattern.name!r} is also in {file.line(earlier, 'name')}; "
                "give each pattern its own"
            )


def _selecting(patterns: Sequence[Pattern], file: _File) -> Pattern:
    numbers = [number for number, pattern in enumerate(patterns) if pattern.role is Role.SELECTING]
    if not numbers:
        raise InputError(f'{file.line()}: no selecting pattern; give one of them role = "{Role.SELECTING}"')
    if len(numbers) > 1:
        raise InputError(
            f"{file.line(numbers[1], 'role')}: {patterns[numbers[1]].name} is a second selecting pattern beside "
            f"{patterns[numbers[0]].name} ({file.line(numbers[0], 'role')}); there can be one"
        )
    return patterns[numbers[0]]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)
