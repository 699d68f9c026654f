"""Pattern sets, which are TOML files (`docs/languages.md`), and languages: a pattern set together with its words."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
    known = [*slots, *(slot for slot in file.slots if slot not in slots)]
    return file.patterns(known)


class _PatternTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    role: Role
    context: str
    target: str = ""


@dataclass(frozen=True)
class PatternFile:
    """A pattern file, read but not yet compared with a lexicon."""

    toml: TomlFile
    lexicon: str | Path | None  # the name of a bundled one, or a folder; None where the file names none
    verbs: str
    slots: Mapping[str, tuple[str, ...] | Mapping[str, str]]  # of the file's own: their words, or gender → form
    published: tuple[PublishedColumn, ...]
    between: str | None  # what stands between context and target; None for what the script says

    @classmethod
    def read(cls, source: str | Path | None = None) -> "PatternFile":
        """Read all of a file except its patterns, which need the words of a lexicon."""
        path = pattern_path(source)
        toml = TomlFile.read(path, "give a TOML file of patterns, or the name of a bundled set")
        known = ("name", "lexicon", "verbs", "between", "slots", "pattern", "published")
        toml.refuse_unknown(known, "name, lexicon, verbs, between, [slots], [[pattern]] and [[published]]")
        if not isinstance(toml.document.get("name"), str):
            raise InputError(f'{toml.line("name")}: the set needs a name: name = "…" above the first [[pattern]]')
        lexicon = toml.document.get("lexicon")
        if lexicon is not None:
            if not isinstance(lexicon, str) or not lexicon.strip():
                where = toml.line("lexicon")
                raise InputError(f'{where}: lexicon is {lexicon!r}; give a name or a folder, as in "italian"')
            beside = path.parent / lexicon
            lexicon = beside if is_folder(beside) else lexicon
        verbs = toml.document.get("verbs", "verbs.txt")
        if not isinstance(verbs, str) or not re.fullmatch(r"verbs\w*\.txt", verbs):
            where = toml.line("verbs")
            raise InputError(f"{where}: verbs is {verbs!r}; name a file of the lexicon, as in verbs_gerund.txt")
        between = toml.document.get("between")
        if between is not None and (not isinstance(between, str) or between.strip() or len(between) > 1):
            where = toml.line("between")
            raise InputError(f'{where}: between is {between!r}; give "" or one space: it stands between two sentences')
        return cls(toml, lexicon, verbs, _slots(toml), tuple(toml.convert("published", PublishedColumn)), between)

    def patterns(self, slots: Collection[str], rules: Agreement | None = None) -> PatternSet:
        rules, tables = rules or Agreement(), self.toml.tables("pattern")
        if not tables:
            raise InputError(f"{self.toml.line('pattern')}: no pattern; each is a table [[pattern]]")
        if len(tables) > _MOST_PATTERNS:
            raise InputError(f"{self.toml.path}: {len(tables):,} patterns; a set has at most {_MOST_PATTERNS}")
        patterns: list[Pattern] = []
        first: dict[str, int] = {}
        for number, table in enumerate(self.toml.convert("pattern", _PatternTable)):
            for key, sentence in (("context", table.context), ("target", table.target)):
                if fault := _fault(sentence, slots):
                    raise InputError(f"{self.line(number, key)}: {fault}")
            own = table.name, table.context, table.target, table.role
            pattern = Pattern(*own, rules.elisions, rules.capitals, self.between)
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
        for number, column in enumerate(self.published):
            if other := next((name for name in column.drops if name not in names), None):
                where = self.toml.line("published", number, "drops")
                raise InputError(f"{where}: a drop of {other!r}, but the scored patterns are {', '.join(names)}")
        bundled = self.toml.path in PATTERNS.values()
        return PatternSet(self.toml.document["name"], selecting, scored, self.published, bundled)

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


def _slots(toml: TomlFile) -> dict[str, tuple[str, ...] | Mapping[str, str]]:
    table = toml.document.get("slots", {})
    if not isinstance(table, dict):
        raise InputError(f"{toml.line('slots')}: slots must be a table [slots]")
    found: dict[str, tuple[str, ...] | Mapping[str, str]] = {}
    for slot, words in table.items():
        where = toml.line("slots", slot)
        if not SLOT_NAME.fullmatch(slot) or slot in SLOTS:
            raise InputError(f"{where}: {slot!r} cannot be the name of another slot; use capitals and digits: CITY")
        entries = list(words.values()) if isinstance(words, dict) else words
        if not isinstance(entries, list) or not entries or not all(isinstance(word, str) for word in entries):
            raise InputError(f"{where}: {slot} must be a list of words, or have a word for each gender")
        for word in entries:
            if fault := fault_of_entry(word):
                raise InputError(f"{where}: {fault}")
        if isinstance(words, dict):
            found[slot] = words
            continue
        if twice := next((word for number, word in enumerate(entries) if word in entries[:number]), None):
            raise InputError(f"{where}: {twice!r} is there twice; remove one of the two")
        found[slot] = tuple(entries)
    return found


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
    words = load_lexicon(folder, file.verbs)
    forms, lists = dict(words.forms), dict(words.lists)
    for slot, own in file.slots.items():
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
