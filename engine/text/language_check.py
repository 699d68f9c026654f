"""Words and patterns of a language compared with each other: problems, and notes on what a user should know."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial

import regex as re  # its \w holds the marks on letters

from ..basics.printable import some
from ..basics.reading import paths_in
from .agreement import title
from .pattern import MASK, PROFESSION, PRONOUN, VERB, WORD_SLOTS, Pattern, Role
from .pattern_files import Language
from .text_lines import read_entries


class Kind(StrEnum):
    """What a finding means."""

    PROBLEM = "problem"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """What is wrong, or what to know, and where."""

    kind: Kind
    where: str
    what: str


_problem, _note = partial(Finding, Kind.PROBLEM), partial(Finding, Kind.NOTE)


@dataclass(frozen=True)
class Rules:
    """The check of one language."""

    language: Language

    def findings(self) -> list[Finding]:
        """All findings, problems first."""
        checks = (self._elisions, self._lists, self._patterns, self._characters)
        found = [finding for check in checks for finding in check()]
        return sorted(found, key=lambda finding: finding.kind is Kind.NOTE)

    @cached_property
    def _texts(self) -> Mapping[str, str]:  # each entry and each sentence → file and line
        folder = self.language.folder
        paths = [path for name in ("names_*", "professions*", "slot_*") for path in paths_in(folder, f"{name}.txt")]
        paths.append(folder / self.language.file.content.verbs)
        found = {entry.text: entry.location for path in paths for entry in read_entries(path)}
        return found | {pattern.sentence: self.of_pattern(pattern) for pattern in self.language.patterns.all}

    def _of_slot(self, slot: str) -> str:
        if slot in self.language.file.content.slots:
            return self.language.file.toml.line("slots", slot)
        return str(self.language.folder / f"slot_{slot}.txt")

    def _elisions(self) -> Iterator[Finding]:
        """The words before which another word stays as it is written, as letters do not tell how they are spoken."""
        for pattern in self.language.patterns.all:
            for hole in dict.fromkeys(pattern.holes):
                for form, following in hole.elision.forms if hole.elision and hole.slot != MASK else ():
                    if unknown := [repr(word) for word in self._fillers(hole.slot) if following.is_doubtful(word)]:
                        said = f"letters do not tell whether it should be {form!r}; read these sentences"
                        where, word = self.of_pattern(pattern), hole.elision.word  # type: ignore[union-attr]
                        yield _note(where, f"{word!r} stays before {some(unknown)}: {said}")

    def _fillers(self, slot: str) -> Sequence[str]:
        """The words that can stand in a slot; at the mask, the main forms of the verbs."""
        lexicon = self.language.lexicon
        if slot == MASK:
            return [lexicon.accepted(verb)[0] for verb in lexicon.verbs]
        if slot in lexicon.forms:
            return [word for words in lexicon.forms[slot].values() for word in words]
        known = {VERB: lexicon.verbs, PROFESSION: lexicon.professions, PRONOUN: tuple(lexicon.pronouns.values())}
        return known.get(slot, lexicon.lists.get(slot, lexicon.names))

    def _lists(self) -> Iterator[Finding]:
        verbs = {*self.language.lexicon.verbs, *self.language.lexicon.mask_forms}
        for slot, words in self.language.lexicon.lists.items():
            if both := [word for word in words if word in verbs]:
                said = f"{some(both)} of {{{slot}}} are verbs of {self.language.file.content.verbs}, too"
                more = "a sentence can have one twice; remove them from one of the two"
                yield _problem(self._of_slot(slot), f"{said}: {more}")

    def _patterns(self) -> Iterator[Finding]:
        patterns = self.language.patterns
        first: dict[str, Pattern] = {}
        for pattern in patterns.all:
            where = self.of_pattern(pattern)
            if (earlier := first.setdefault(pattern.sentence, pattern)) is not pattern:
                yield _problem(where, f"{pattern.name} has the same sentence as {earlier.name}")
            if VERB not in pattern.slots and pattern is not patterns.selecting:
                yield _problem(where, f"{pattern.name} has no {{{VERB}}}: there is nothing to repeat")
            if re.search(r"\w", pattern.pieces[-1]) or pattern.holes[-1].slot != MASK:
                yield _note(where, f"{pattern.name}: the mask is not at the end; causal models need that")
            yield from (_note(where, said) for said in self._capitals(pattern))
        file = str(self.language.file.toml.path)
        roles = {pattern.role for pattern in patterns.scored}
        if missing := [str(role) for role in (Role.FORBIDDEN, Role.CONTROL) if role not in roles]:
            yield _note(file, f"no pattern is {' or '.join(missing)}, so drops cannot be compared")
        if PRONOUN not in patterns.slots:
            yield _note(file, f"no pattern has {{{PRONOUN}}}: --coreference takes pronoun only")
        for slot in self.language.lexicon.slots:
            if slot not in {*WORD_SLOTS, *patterns.slots, MASK}:
                yield _note(self._of_slot(slot), f"no pattern has {{{slot}}}")

    def _capitals(self, pattern: Pattern) -> Iterator[str]:
        """First letters of a sentence that a language may write in its own way."""
        is_turkic = any(letter in text for text in self._texts for letter in "ıİğĞ")
        for hole in dict.fromkeys(pattern.holes):
            words = self._fillers(hole.slot)
            own = {"i": "İ"} if is_turkic else {"ij": "IJ"}
            for beginning, capital in own.items() if hole.starts_sentence else ():
                odd = [word for word in words if word.startswith(beginning) and title(word) == hole.spell(word)]
                if odd:
                    yield (
                        f"{pattern.name}: {some(odd)} begins a sentence with {title(odd[0])[: len(beginning)]!r}; "
                        f"if it should be {capital!r}, write into agreement.toml: [capitals], {beginning} = {capital!r}"
                    )

    def of_pattern(self, pattern: Pattern) -> str:
        file = self.language.file
        return file.line([own.name for own in file.content.pattern].index(pattern.name))

    def _characters(self) -> Iterator[Finding]:
        """Accents that are characters of their own, and two kinds of apostrophes: tokenizers tell them apart."""
        for text, where in self._texts.items():
            if unicodedata.normalize("NFC", text) != text:
                said = f"{text!r} has accents as characters of their own; save the file in Unicode's form NFC"
                yield _problem(where, said)
        kinds = {
            mark: next((where for text, where in self._texts.items() if mark in text), None) for mark in _APOSTROPHES
        }
        if all(kinds.values()):
            straight, curly = kinds.values()
            yield _problem(str(curly), f"the apostrophe is ’ here, but ' in {straight}; use one of the two")


_APOSTROPHES = ("'", "’")


def differences(pattern: Pattern, other: Pattern) -> str:
    """The words in which a sentence differs from another: `+ non`, `is → isn't`."""
    import difflib  # noqa: PLC0415 - only the check needs it

    one, two = other.sentence.split(), pattern.sentence.split()
    found = []
    for what, start, stop, first, last in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        old, new = " ".join(one[start:stop]), " ".join(two[first:last])
        if what != "equal":
            found.append(f"+ {new}" if not old else f"− {old}" if not new else f"{old} → {new}")
    return "; ".join(found)
