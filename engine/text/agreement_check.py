"""Words and patterns compared with the rules of their language: problems, and notes on what a user should know."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial

import regex as re  # its \w holds the marks on letters

from ..basics.printable import some
from ..basics.reading import paths_in
from .agreement import Elision, VerbEndings, article_of, before
from .lexicon import Lexicon
from .pattern import MASK, PROFESSION, PRONOUN, SLOT, VERB, WORD_SLOTS, Pattern, Role
from .pattern_files import Language
from .sentences import title
from .text_lines import read_entries

_TWO_WORDS = re.compile(r"(?<![\w'’-])(\w+) (?=([\w-]+))")


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
        checks = (self._articles, self._endings, self._verbs, self._elisions, self._lists, self._patterns)
        found = [finding for check in (*checks, self._characters) for finding in check()]
        return sorted(found, key=lambda finding: finding.kind is Kind.NOTE)

    @cached_property
    def _entries(self) -> Mapping[str, Mapping[str, str]]:  # name of a file → entry → file and line
        folder = self.language.folder
        paths = [path for name in ("names_*", "professions*", "slot_*") for path in paths_in(folder, f"{name}.txt")]
        paths.append(folder / self.language.file.verbs)
        return {path.name: {entry.text: entry.location for entry in read_entries(path)} for path in paths}

    def _of_profession(self, gender: str, profession: str) -> str:
        own = f"professions_{gender}.txt"
        return self._entries[own if own in self._entries else "professions.txt"][profession]

    def _articles(self) -> Iterator[Finding]:
        lexicon, told = self.language.lexicon, set()
        rules = lexicon.agreement.articles
        forms = {rule.form for rule in rules}  # a profession may have no article
        for gender, label in lexicon.labels.items() if rules else ():
            for profession in lexicon.forms.get(PROFESSION, {}).get(label, lexicon.professions):
                given, noun = _divided(profession)
                article, where = article_of(rules, gender, noun, given), self._of_profession(gender, profession)
                if given in forms and article != given and where not in told:
                    told.add(where)
                    right = before(article, capital=False) + noun
                    yield _problem(where, f"{profession!r} has the wrong article; write {right!r}")

    def _endings(self) -> Iterator[Finding]:
        lexicon = self.language.lexicon
        rules, genders = lexicon.agreement.endings, list(lexicon.labels)
        for slot, by_gender in sorted(lexicon.forms.items(), key=lambda own: own[0] != PROFESSION) if rules else ():
            is_profession = slot == PROFESSION
            for forms in zip(*(by_gender[label] for label in lexicon.labels.values()), strict=True):
                words = [_divided(form)[1] if is_profession else form for form in forms]
                if not _agree(dict(zip(genders, words, strict=True)), rules):
                    where = self._of_profession(genders[0], forms[0]) if is_profession else self._of_slot(slot)
                    yield _problem(where, f"{_listed(forms)} do not differ by a rule of [[endings]]")

    def _of_slot(self, slot: str) -> str:
        if slot in self.language.file.slots:
            return self.language.file.toml.line_in("slots", slot)
        return str(self.language.folder / f"slot_{slot}.txt")

    def _verbs(self) -> Iterator[Finding]:
        lexicon, file = self.language.lexicon, self.language.file.verbs
        rule: VerbEndings | None = next((rule for rule in lexicon.agreement.verbs if rule.file == file), None)
        if rule is None:
            return
        entries = {text.partition("=")[0].strip(): where for text, where in self._entries[file].items()}
        for verb in lexicon.verbs:
            wrong = [] if verb.endswith(rule.context) else [verb]
            wrong += [form for form in lexicon.accepted(verb) if not form.endswith(rule.mask or rule.context)]
            for form in dict.fromkeys(wrong):
                ends = rule.context if form == verb else rule.mask or rule.context
                yield _problem(entries[verb], f"{form!r} does not end in {_listed(ends)}, as [[verbs]] says")

    def _elisions(self) -> Iterator[Finding]:
        rules, patterns = self.language.lexicon.agreement.elisions, self.language.patterns.all
        files = [own for file, own in self._entries.items() if not file.startswith("professions")]  # see `_articles`
        texts = [own for entries in files for own in entries.items()]
        texts += [(piece, self.of_pattern(pattern)) for pattern in patterns for piece in pattern.pieces]
        by_word = {rule.word: rule for rule in rules}
        for text, where in texts:
            for word, following in _TWO_WORDS.findall(SLOT.sub("", text)):
                if (own := by_word.get(word.lower())) is not None:
                    right = own.spell(following, capital=word[0].isupper())
                    if right != f"{word} {following}":
                        yield _problem(where, f"'{word} {following}' should be {right!r}")
        for pattern in patterns:
            for hole, piece in zip(pattern.holes, pattern.pieces, strict=False):
                text = piece if hole.elision is None else f"{piece}{hole.elision.word} "
                for rule in rules:
                    yield from self._before_hole(rule, hole.slot, text, self.of_pattern(pattern))

    def _before_hole(self, rule: Elision, slot: str, piece: str, where: str) -> Iterator[Finding]:
        """Whether the fixed word before a slot suits all that can stand in it."""
        words = self._fillers(slot)
        for form, following in rule.forms:
            unknown = [word for word in words if following.is_doubtful(word)]
            fitting = [word for word in words if word in following]
            others = [word for word in words if word not in fitting and word not in unknown]
            is_article = form in {article.form for article in self.language.lexicon.agreement.articles}
            written = form if form.endswith(_APOSTROPHES) else f"{form} "
            if (
                re.search(rf"(?i)(?<![\w'’-]){re.escape(written)}\Z", piece)
                and others
                and (is_article or form.endswith(_APOSTROPHES))
            ):
                if slot == MASK:
                    verbs = f"{len(others)} of {len(words)} verbs cannot: {some(others)}"
                    yield _note(where, f"{form!r} stands before the mask: {verbs}")
                else:
                    said = f"{form!r} before {{{slot}}} does not suit {some(others)}; write '{rule.word} {{{slot}}}'"
                    yield _problem(where, said)
            if not re.search(rf"(?i)(?<![\w'’-]){re.escape(rule.word)} \Z", piece):
                continue
            if unknown and slot != MASK:
                said = f"{rule.word!r} stays before {some(list(map(repr, unknown)))}"
                yield _note(where, f"{said}: letters do not tell whether it should be {form!r}; read these sentences")
            if slot == MASK and fitting:
                yield _note(
                    where,
                    f"{rule.word!r} stands before the mask, and is {form!r} before {len(fitting)} of {len(words)} "
                    f"verbs, which a model cannot answer well: {some(fitting)}",
                )

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
                yield _problem(
                    self._of_slot(slot),
                    f"{some(both)} of {{{slot}}} are verbs of {self.language.file.verbs}, too: a sentence can have "
                    "one twice; remove them from one of the two",
                )

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
            yield from (_note(where, said) for said in self._beginnings(pattern))
            if said := pronoun_note(self.language.lexicon, pattern):
                yield _note(where, said)
        file = str(self.language.file.toml.path)
        roles = {pattern.role for pattern in patterns.scored}
        if missing := [str(role) for role in (Role.FORBIDDEN, Role.CONTROL) if role not in roles]:
            yield _note(file, f"no pattern is {' or '.join(missing)}, so drops cannot be compared")
        if PRONOUN not in patterns.slots:
            yield _note(file, f"no pattern has {{{PRONOUN}}}: --coreference takes pronoun only")
        for slot in self.language.lexicon.slots:
            if slot not in {*WORD_SLOTS, *patterns.slots, MASK}:
                yield _note(self._of_slot(slot), f"no pattern has {{{slot}}}")

    def _beginnings(self, pattern: Pattern) -> Iterator[str]:
        """Where a sentence may begin or not, and first letters that a language may write in its own way."""
        texts = [text for entries in self._entries.values() for text in entries] + [pattern.sentence]
        is_turkic = any(letter in text for text in texts for letter in "ıİğĞ")
        for hole in dict.fromkeys(pattern.holes):
            words = self._fillers(hole.slot)
            if hole.doubt and (changed := [word for word in words if title(word, hole.capitals) != hole.spell(word)]):
                yield (
                    f"{pattern.name}: {hole.doubt}, so {{{hole.slot}}} has no capital: {some(changed)}; a sentence "
                    "of its own belongs into target"
                )
            elif hole.doubt and (changed := [word for word in words if hole.spell(word) != word]):
                yield f"{pattern.name}: {hole.doubt}, but {{{hole.slot}}} has a capital: {some(changed)}"
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
        names = [table.get("name") for table in file.toml.tables("pattern")]
        return file.line(names.index(pattern.name))

    def _characters(self) -> Iterator[Finding]:
        """Accents that are characters of their own, and two kinds of apostrophes: tokenizers tell them apart."""
        texts = {text: where for entries in self._entries.values() for text, where in entries.items()}
        texts |= {pattern.sentence: self.of_pattern(pattern) for pattern in self.language.patterns.all}
        for text, where in texts.items():
            if unicodedata.normalize("NFC", text) != text:
                said = f"{text!r} has accents as characters of their own; save the file in Unicode's form NFC"
                yield _problem(where, said)
        kinds = {mark: next((where for text, where in texts.items() if mark in text), None) for mark in _APOSTROPHES}
        if all(kinds.values()):
            straight, curly = kinds.values()
            yield _problem(str(curly), f"the apostrophe is ’ here, but ' in {straight}; use one of the two")


_APOSTROPHES = ("'", "’")


def pronoun_note(lexicon: Lexicon, pattern: Pattern) -> str:
    """The pronouns of a lexicon that do not agree with the verb of a pattern; empty where all do."""
    for hole, following in zip(pattern.holes, pattern.pieces[1:], strict=True):
        if hole.slot == PRONOUN:
            wrong, verb = lexicon.agreement.disagreeing(list(lexicon.pronouns.values()), following)
            if wrong:
                return f"{pattern.name}: {verb!r} does not agree with {_listed(wrong)}; write patterns that suit both"
    return ""


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


def _divided(profession: str) -> tuple[str, str]:
    """Article and noun; the article is empty where there is none."""
    found = re.match(r"(\w+['’]|\w+(?= ))\s?(?=\w)", profession)
    return (found[1], profession[found.end() :]) if found else ("", profession)


def _agree(forms: Mapping[str, str], rules: Sequence[Mapping[str, str]]) -> bool:
    """Whether the forms of a word differ by one of the rules; of several words the first decides."""
    words = {gender: form.split()[0] for gender, form in forms.items()}
    return any(
        all(word.endswith(rule[gender]) for gender, word in words.items())
        and len({word.removesuffix(rule[gender]) for gender, word in words.items()}) == 1
        for rule in rules
    )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(map(repr, words))
