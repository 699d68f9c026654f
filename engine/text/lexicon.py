"""The words that fill the slots, and all that depends on a language: a folder of text files (`docs/languages.md`)."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from ..basics.errors import InputError
from ..basics.reading import exists, paths_in
from .agreement import Agreement, read_agreement
from .bundled import BUNDLED_LEXICON
from .pattern import MASK, PROFESSION, SLOT_NAME, SLOTS, WORD_SLOTS, column
from .text_lines import Located, read_entries

_HINT = "a lexicon folder holds names_female.txt, names_male.txt, professions.txt and verbs.txt"
_MOST_PAIRS = 10**7
_RESERVED_COLUMNS = {"triplet", "gender", "pattern"}


@cache
def _bundled_pronouns() -> Mapping[str, str]:
    return _read_pronouns(BUNDLED_LEXICON)[0]


@dataclass(frozen=True)
class Lexicon:
    """Fillers of the slots, in the order of their files."""

    names: tuple[str, ...]
    genders: tuple[str, ...]
    professions: tuple[str, ...]  # with article, as in "an architect"; of the first gender where they differ by gender
    verbs: tuple[str, ...]  # the forms that stand in the context; base forms in English
    pronouns: Mapping[str, str] = field(default_factory=_bundled_pronouns)  # gender → what fills {PRON}
    # Slot → gender → the forms that agree with it. All genders have the same number of forms.
    forms: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # slot of the lexicon's own → its words
    # Verb → the forms that are accepted at the mask, the main form first. A verb that is not here has the same form in
    # the context and at the mask.
    at_mask: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)  # name of a gender → its label in `genders`
    agreement: Agreement = field(default_factory=Agreement, compare=False)

    def accepted(self, verb: str) -> tuple[str, ...]:
        """The forms of a verb that count as a repetition at the mask, the main form first."""
        return self.at_mask.get(verb, (verb,))

    @property
    def mask_forms(self) -> frozenset[str]:
        return frozenset(form for verb in self.verbs for form in self.accepted(verb))

    @property
    def n_pairs(self) -> int:
        return len(self.names) * len(self.professions)

    @property
    def slots(self) -> tuple[str, ...]:  # the slots that a pattern may have with this lexicon, {MASK} among them
        own = sorted({*self.forms, *self.lists} - {*WORD_SLOTS})
        return (*WORD_SLOTS, *own, MASK)

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the entries and their order; of optional files, where they differ from ours."""
        entries: list[object] = [self.names, self.genders, self.professions, self.verbs]
        if self.pronouns != _bundled_pronouns():
            entries.append({"pronouns": list(self.pronouns.items())})
        if self.forms:
            entries.append({"forms": [[slot, list(forms.items())] for slot, forms in sorted(self.forms.items())]})
        if self.lists:
            entries.append({"lists": sorted(self.lists.items())})
        if self.at_mask:
            entries.append({"at mask": list(self.at_mask.items())})
        return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


def load_lexicon(folder: Path | None = None, verbs: str = "verbs.txt") -> Lexicon:
    """Read a lexicon folder, or the bundled English lexicon, whose articles and pronouns stand in for missing files."""
    folder = folder or BUNDLED_LEXICON
    pronouns, labels = _read_pronouns(folder)
    _refuse_other_genders(folder, "names", labels)
    names = {label: _read(folder / f"names_{gender}.txt") for gender, label in labels.items()}
    _distinct([entry for entries in names.values() for entry in entries])
    articles = _texts(_distinct(read_entries(_or_bundled(folder, "articles.txt"))))
    professions = _read_professions(folder, labels, articles)
    verb_forms = _read_verbs(folder / verbs)
    forms, lists = _read_own_slots(folder, labels)
    if isinstance(professions, Mapping):
        forms[PROFESSION] = professions
        professions = next(iter(professions.values()))
    if (pairs := sum(map(len, names.values())) * len(professions)) > _MOST_PAIRS:
        raise InputError(f"{folder}: {pairs:,} name–profession pairs; give lists that make at most {_MOST_PAIRS:,}")
    agreement = read_agreement(folder, tuple(labels))
    if not exists(folder / "articles.txt") or (
        {*articles} <= {"a", "an"} and {*pronouns.values()} & {*_bundled_pronouns().values()}
    ):  # English words of a user's own follow the rules of the bundled ones
        english = read_agreement(BUNDLED_LEXICON, tuple(labels))
        elisions, nouns = agreement.elisions or english.elisions, agreement.articles or english.articles
        agreement = replace(agreement, elisions=elisions, articles=nouns)
    return Lexicon(
        names=tuple(entry.text for entries in names.values() for entry in entries),
        genders=tuple(gender for gender, entries in names.items() for _ in entries),
        professions=professions,
        verbs=tuple(verb_forms),
        pronouns=pronouns,
        forms=forms,
        lists=lists,
        at_mask={verb: accepted for verb, accepted in verb_forms.items() if accepted != (verb,)},
        labels=labels,
        agreement=agreement,
    )


def _read(path: Path) -> list[Located]:
    if entries := read_entries(path, _HINT):
        return entries
    raise InputError(f"{path}:1: no entry in this file; write one entry per line")


def _texts(entries: Sequence[Located]) -> tuple[str, ...]:
    return tuple(entry.text for entry in entries)


def _or_bundled(folder: Path, file: str) -> Path:
    return folder / file if exists(folder / file) else BUNDLED_LEXICON / file


def _read_pronouns(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Label of a gender → pronoun, and name of a gender → its label."""
    found = _by_gender(_read(_or_bundled(folder, "pronouns.txt")))
    initials = {gender[0] for gender in found}
    labels = {gender: gender[0] if len(initials) == len(found) else gender for gender in found}
    return {labels[gender]: pronoun for gender, pronoun in found.items()}, labels


def _by_gender(entries: Sequence[Located]) -> dict[str, str]:
    """Name of a gender → its word, of lines such as `female = she`."""
    found = dict[str, str]()
    for entry in entries:
        gender, equals, form = (part.strip() for part in entry.text.partition("="))
        if not equals or not gender.isidentifier() or not form:
            said = f"{entry.text!r} is not of the form `GENDER = word`, as in `female = she`"
            raise InputError(f"{entry.location}: {said}")
        if gender in found:
            raise InputError(f"{entry.location}: {gender!r} is there twice; remove one of the two lines")
        found[gender] = form
    return found


def _refuse_other_genders(folder: Path, stem: str, labels: Mapping[str, str]) -> None:
    for path in paths_in(folder, f"{stem}_*.txt"):
        if (gender := path.stem.removeprefix(f"{stem}_")) not in labels:
            raise InputError(
                f"{path}: pronouns.txt has no gender {gender!r}, it has {', '.join(labels)}; add a line `{gender} = …`"
            )


def _read_professions(
    folder: Path, labels: Mapping[str, str], articles: Sequence[str]
) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    """The professions, or label of a gender → its forms of them."""
    _refuse_other_genders(folder, "professions", labels)
    one, several = folder / "professions.txt", {gender: folder / f"professions_{gender}.txt" for gender in labels}
    if not any(exists(path) for path in several.values()):
        return _texts(_checked_professions(one, articles))
    if exists(one):
        files = " and ".join(path.name for path in several.values())
        raise InputError(f"{one}: give either this file, or {files}; not both")
    forms = {gender: _checked_professions(path, articles) for gender, path in several.items()}
    longest = max(forms, key=lambda gender: len(forms[gender]))
    for gender, entries in forms.items():
        if len(entries) != len(forms[longest]):
            missing = forms[longest][len(entries)]
            raise InputError(
                f"{several[gender]}: {len(entries)} professions, but {several[longest].name} has "
                f"{len(forms[longest])}; add the form of {missing.text!r} ({missing.location})"
            )
    return {labels[gender]: _texts(entries) for gender, entries in forms.items()}


def _checked_professions(path: Path, articles: Sequence[str]) -> list[Located]:
    professions = _distinct(_read(path))
    starts = tuple(article if article.endswith(("'", "’")) else f"{article} " for article in articles)
    for profession in professions:
        if starts and not profession.text.startswith(starts):
            raise InputError(
                f"{profession.location}: {profession.text!r} has no article; begin it with {' or '.join(articles)}, or "
                "change articles.txt"
            )
    return professions


def _read_verbs(path: Path) -> dict[str, tuple[str, ...]]:
    """Form in the context → the forms at the mask."""
    found, entries = dict[str, tuple[str, ...]](), _read(path)
    for entry in entries:
        verb, equals, given = (part.strip() for part in entry.text.partition("="))
        accepted = tuple(form.strip() for form in given.split(",")) if equals else (verb,)
        if not verb or not all(accepted) or "=" in given:
            raise InputError(
                f"{entry.location}: {entry.text!r} is not of the form `VERB` or `CONTEXT = FORM, FORM`, as in "
                "`dîner = dîner, diner`"
            )
        if len(set(accepted)) < len(accepted):
            raise InputError(f"{entry.location}: {entry.text!r} has a form twice; remove one of the two")
        found[verb] = accepted
    _distinct([Located(entry.text.partition("=")[0].strip(), entry.location) for entry in entries])
    return found


def _read_own_slots(
    folder: Path, labels: Mapping[str, str]
) -> tuple[dict[str, Mapping[str, tuple[str, ...]]], dict[str, tuple[str, ...]]]:
    """The further slots: slot → label of a gender → forms, and slot → words."""
    forms: dict[str, Mapping[str, tuple[str, ...]]] = {}
    lists: dict[str, tuple[str, ...]] = {}
    known = _RESERVED_COLUMNS | {column(slot) for slot in WORD_SLOTS}
    for path in paths_in(folder, "slot_*.txt"):
        slot = path.stem.removeprefix("slot_")
        if not SLOT_NAME.fullmatch(slot) or slot in SLOTS or column(slot) in known:
            raise InputError(
                f"{path}: {slot!r} cannot be the name of another slot; use capitals and digits, as in slot_CITY.txt"
            )
        entries = _distinct(_read(path))
        if "=" not in entries[0].text:
            lists[slot] = _texts(entries)
            continue
        by_gender = _by_gender(entries)
        if set(by_gender) != set(labels):
            raise InputError(f"{path}: one line `GENDER = form` is needed for each of {', '.join(labels)}")
        forms[slot] = {labels[gender]: (by_gender[gender],) for gender in labels}
    return forms, lists


def _distinct(entries: list[Located]) -> list[Located]:
    """The same entries; InputError if one of them is there twice."""
    first: dict[str, Located] = {}
    for entry in entries:
        earlier = first.setdefault(entry.text, entry)
        if earlier is not entry:
            raise InputError(f"{entry.location}: {entry.text!r} is also in {earlier.location}; remove one of the two")
    return entries
