"""Pattern sets, which are TOML files (`docs/languages.md`), and languages: a pattern set together with its words."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from ..basics.errors import InputError
from ..basics.reading import is_folder
from .agreement import Agreement
from .bundled import PATTERNS, lexicon_path, pattern_path
from .lexicon import Lexicon, load_lexicon
from .pattern import MASK, SLOT, SLOT_NAME, SLOTS, Pattern, PatternSet, PublishedColumn, Role
from .text_lines import fault_of_entry
from .toml_file import TomlFile

_MOST_PATTERNS = 500
_LONGEST_SENTENCE = 2_000  # characters
_OTHER_SPACES = "\u00a0\u202f\u3000"  # before a French sign, and between Chinese sentences


def load_patterns(source: str | Path | None = None, slots: Collection[str] = SLOTS) -> PatternSet:
    """Read a pattern set without its words, by default the paper's; `slots` may stand in braces beside its own."""
    file = PatternFile.read(source)
    known = [*slots, *(slot for slot in file.content.slots if slot not in slots)]
    return file.patterns(known)


class _PatternTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    role: Role
    context: str
    target: str = ""


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    lexicon: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    verbs: str = "verbs.txt"
    between: str | None = None  # what stands between context and target; None for what the script says
    slots: dict[str, tuple[str, ...] | dict[str, str]] = {}  # of the file's own: their words, or gender → form
    pattern: tuple[_PatternTable, ...] = ()
    published: tuple[PublishedColumn, ...] = ()


@dataclass(frozen=True)
class PatternFile:
    """A pattern file, read but not yet compared with a lexicon."""

    toml: TomlFile
    content: _Content
    lexicon: str | Path | None  # the name of a bundled one, or a folder; None where the file names none

    @classmethod
    def read(cls, source: str | Path | None = None) -> "PatternFile":
        """Read all of a file; its patterns are not yet looked at, since they need the words of a lexicon."""
        path = pattern_path(source)
        toml = TomlFile.read(path, "give a TOML file of patterns, or the name of a bundled set")
        own = toml.whole(_Content)
        if not re.fullmatch(r"verbs\w*\.txt", own.verbs):
            where = toml.line("verbs")
            raise InputError(f"{where}: verbs is {own.verbs!r}; name a file of the lexicon, as in verbs_gerund.txt")
        if own.between and (own.between.strip() or len(own.between) > 1):
            told = f'between is {own.between!r}; give "" or one space: it stands between two sentences'
            raise InputError(f"{toml.line('between')}: {told}")
        _check_slots(toml, own.slots)
        beside = path.parent / (own.lexicon or "")
        return cls(toml, own, beside if own.lexicon and is_folder(beside) else own.lexicon)

    def patterns(self, slots: Collection[str], rules: Agreement | None = None) -> PatternSet:
        rules, tables = rules or Agreement(), self.content.pattern
        if not tables:
            raise InputError(f"{self.toml.line('pattern')}: no pattern; each is a table [[pattern]]")
        if len(tables) > _MOST_PATTERNS:
            raise InputError(f"{self.toml.path}: {len(tables):,} patterns; a set has at most {_MOST_PATTERNS}")
        patterns: list[Pattern] = []
        first: dict[str, int] = {}
        for number, table in enumerate(tables):
            for key, sentence in (("context", table.context), ("target", table.target)):
                if fault := _fault(sentence, slots):
                    raise InputError(f"{self.line(number, key)}: {fault}")
            own = table.name, table.context, table.target, table.role
            pattern = Pattern(*own, rules.elisions, rules.capitals, self.content.between)
            if (masks := sum(hole.slot == MASK for hole in pattern.holes)) != 1:
                needed = f"{table.name} has {masks} masks; it needs exactly one {{{MASK}}}"
                raise InputError(f"{self.line(number)}: {needed}")
            if (earlier := first.setdefault(table.name, number)) != number:
                raise InputError(
                    f"{self.line(number, 'name')}: the name {table.name!r} is also in {self.line(earlier, 'name')}; "
                    "give each pattern its own"
                )
            patterns.append(pattern)
        selecting = self._selecting(patterns)
        scored = tuple(pattern for pattern in patterns if pattern is not selecting)
        names = [pattern.name for pattern in scored]
        for number, column in enumerate(self.content.published):
            if other := next((name for name in column.drops if name not in names), None):
                where = self.toml.line("published", number, "drops")
                raise InputError(f"{where}: a drop of {other!r}, but the scored patterns are {', '.join(names)}")
        bundled = self.toml.path in PATTERNS.values()
        return PatternSet(self.content.name, selecting, scored, self.content.published, bundled)

    def line(self, number: int, key: str | None = None) -> str:
        return self.toml.line("pattern", number, key)

    def _selecting(self, patterns: Sequence[Pattern]) -> Pattern:
        numbers = [number for number, pattern in enumerate(patterns) if pattern.role is Role.SELECTING]
        if not numbers:
            raise InputError(f'{self.toml.line()}: no selecting pattern; give one of them role = "{Role.SELECTING}"')
        if len(numbers) > 1:
            raise InputError(
                f"{self.line(numbers[1], 'role')}: {patterns[numbers[1]].name} is a second selecting pattern beside "
                f"{patterns[numbers[0]].name} ({self.line(numbers[0], 'role')}); there can be one"
            )
        selecting = patterns[numbers[0]]
        if not selecting.slots:
            told = f"the selecting pattern {selecting.name} has no slot: one sentence would be asked for all verbs"
            raise InputError(f"{self.line(numbers[0])}: {told}")
        return selecting


def _check_slots(toml: TomlFile, slots: Mapping[str, tuple[str, ...] | Mapping[str, str]]) -> None:
    for slot, words in slots.items():
        where = toml.line("slots", slot)
        if not SLOT_NAME.fullmatch(slot) or slot in SLOTS:
            raise InputError(f"{where}: {slot!r} cannot be the name of another slot; use capitals and digits: CITY")
        entries = words if isinstance(words, tuple) else tuple(words.values())
        if not entries:
            raise InputError(f"{where}: {slot} has no word; give one")
        if fault := next(filter(None, map(fault_of_entry, entries)), ""):
            raise InputError(f"{where}: {fault}")
        if isinstance(words, tuple) and (twice := [word for n, word in enumerate(words) if word in words[:n]]):
            raise InputError(f"{where}: {twice[0]!r} is there twice; remove one of the two")


def _fault(sentence: str, slots: Collection[str]) -> str:
    """The error in a sentence; empty if there is none."""
    if len(sentence) > _LONGEST_SENTENCE:
        return f"{len(sentence):,} characters; a sentence has at most {_LONGEST_SENTENCE:,}"
    if unknown := next((slot for slot in SLOT.findall(sentence) if slot not in slots), None):
        return f"unknown slot {unknown!r} in {sentence!r}; known are {', '.join(slots)}"
    if re.search(r"[{}]", SLOT.sub("", sentence)):
        return f"stray brace in {sentence!r}; write braces only around the name of a slot"
    if re.search(r"^\s|\s$|\s\s", sentence) or re.search(rf"[^\S {_OTHER_SPACES}]", sentence):
        return f"white space in {sentence!r} must be single spaces between words"
    plain = re.sub(f"[{_OTHER_SPACES}]", " ", sentence)
    if odd := next((character for character in plain if not character.isprintable()), None):
        return f"the character U+{ord(odd):04X} in {sentence!r} is not printable; remove it"
    return ""


@dataclass(frozen=True)
class Language:
    """A pattern set and its lexicon."""

    patterns: PatternSet
    lexicon: Lexicon
    folder: Path
    file: PatternFile


def load_language(
    patterns: str | Path | None = None, lexicon: str | Path | None = None, slots: Collection[str] = ()
) -> Language:
    """Read a pattern set and its words: of the given lexicon, the one that the file names, or the English one."""
    file = PatternFile.read(patterns)
    folder = lexicon_path(file.lexicon if lexicon is None else lexicon)
    words = load_lexicon(folder, file.content.verbs)
    forms, lists = dict(words.forms), dict(words.lists)
    for slot, own in file.content.slots.items():
        where = file.toml.line("slots", slot)
        if slot in words.slots:
            raise InputError(f"{where}: {slot} is also in {folder / f'slot_{slot}.txt'}; remove one of the two")
        if not isinstance(own, Mapping):
            lists[slot] = own
            continue
        if set(own) != set(words.labels):
            raise InputError(f"{where}: {slot} must have a word for each of {', '.join(words.labels)}")
        forms[slot] = {label: (own[gender],) for gender, label in words.labels.items()}
    words = replace(words, forms=forms, lists=lists)
    return Language(file.patterns([*words.slots, *slots], words.agreement), words, folder, file)
