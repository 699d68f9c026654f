"""`ng.check_patterns`: a pattern set and its words, compared with their language's rules and with a model's tokenizer.

Nothing is run and nothing is written: of a model only the tokenizer is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...basics.choices import Coreference
from ...basics.errors import InputError, check_number
from ...basics.printable import counted, some
from ...inference.exported import ExportedModel, load_exported
from ...library.shown import Shown
from ...text.composition import composer
from ...text.keys import checked_seed
from ...text.language_check import Finding, Kind, Rules, differences
from ...text.pattern import ACT_SLOTS, PROFESSION, VERB, WORD_SLOTS, Pattern
from ...text.pattern_files import Language, load_language
from ...text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from ...text.verbs import beside_mask, other_sentences, tokens_at_mask
from ...views import Column, Table
from .grid import PairFillers, pair_fillers
from .select import composed

SENTENCES = 10
_MOST_SENTENCES = 10_000
_MOST_SHOWN = 12  # verbs in a note; the JSON document has all
_BETWEEN_TOKENS = "|"


@dataclass(frozen=True, eq=False)
class PatternsCheck(Shown):
    """A checked pattern set."""

    content: Mapping[str, str | int]
    patterns: pl.DataFrame  # columns name, role, sentence, difference (from the first one, which selects)
    sentences: pl.DataFrame  # columns pattern, sentence, and with a model n_tokens and tokens
    findings: tuple[Finding, ...]  # problems first
    tokens: Mapping[str, Any]  # what a model's tokenizer makes of the words and patterns; empty without a model
    notes: Sequence[str]  # the same, as a person reads it

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind is Kind.PROBLEM]

    def tables(self) -> list[Table]:
        values = [f"{value:,}" if isinstance(value, int) else value for value in self.content.values()]
        content = pl.DataFrame({"what": list(self.content), "value": values})
        other = f"other than {self.patterns['name'][0]}"
        patterns = [Column("pattern", "name"), Column("role", "role"), Column(other, "difference")]
        sentences, border = [Column("pattern", "pattern"), Column("sentence", "sentence")], []
        if self.tokens:
            sentences = [sentences[0], Column("sentence", "tokens"), Column("tokens", "n_tokens")]
            border = [f"{_BETWEEN_TOKENS}: the border of two tokens"]
        tables = [
            Table("Patterns and words", content, [Column("", "what"), Column("", "value")], notes=self.notes),
            Table("Patterns", self.patterns, patterns),
            Table(counted(len(self.sentences), "sentence"), self.sentences, sentences, notes=border),
        ]
        if self.findings:
            findings = pl.DataFrame([{**asdict(finding), "kind": str(finding.kind)} for finding in self.findings])
            columns = [Column("", "kind"), Column("where", "where"), Column("what", "what")]
            tables.append(Table("Findings", findings, columns))
        return tables

    def remarks(self) -> list[str]:
        n = len(self.problems)
        return [f"{counted(n, 'problem')} found." if n else "No problem was found."]

    def document(self) -> dict[str, Any]:
        return {
            "patterns": self.patterns.to_dicts(),
            "content": dict(self.content),
            "sentences": self.sentences.to_dicts(),
            "findings": [asdict(finding) for finding in self.findings],
            **({"tokens": dict(self.tokens)} if self.tokens else {}),
        }

    def refuse_faults(self) -> None:
        if self.problems:
            first, more = self.problems[0], len(self.problems) - 1
            raise InputError(f"{first.where}: {first.what}{f' (and {more:,} more, see above)' if more else ''}")


def check_patterns(
    patterns: str | Path | None = None,
    *,
    model: str | Path | None = None,
    lexicon: str | Path | None = None,
    sentences: int = SENTENCES,
    seed: int = 0,
) -> PatternsCheck:
    """Check a pattern set and its words, and show what a model's tokenizer makes of them.

    Args:
        patterns: A pattern set by name, or a TOML file; the paper's by default.
        model: The folder or the name of an exported model; its tokenizer alone is read.
        lexicon: A lexicon by name, or a folder of word lists; by default the one that the patterns name.
        sentences: How many sentences are shown.
        seed: Seed for the choice of their words.

    Returns:
        The check. Problems do not raise an error; see `PatternsCheck.problems`.

    Raises:
        InputError: A file is missing or not of the right form; the model is not found; no verb is one token.
    """
    check_number("--sentences", sentences, 1, _MOST_SENTENCES)
    checked_seed(seed)
    language = load_language(patterns, lexicon, ACT_SLOTS)
    known, every = language.lexicon, language.patterns.all
    fillers = pair_fillers(known, Coreference.PRONOUN, seed)
    rules = Rules(language)
    findings, content, tokens, notes = rules.findings(), _content(language), dict[str, Any](), list[str]()
    exported = None if model is None else load_exported(model)
    mask = "[MASK]" if exported is None else exported.mask_token
    random, labels, rows = np.random.default_rng(seed), list(known.pronouns), list[dict[str, Any]]()
    for number in range(sentences):
        label = labels[number % len(labels)]
        name = int(random.choice([i for i, gender in enumerate(known.genders) if gender == label]))
        profession = int(random.integers(len(known.professions)))
        words = {slot: filler.word(name, profession) for slot, filler in fillers.items()}
        verbs = random.permutation(len(known.verbs))[: len(ACT_SLOTS)]  # gh22 fills them with the model's own words
        acts = dict(zip(ACT_SLOTS, (known.verbs[i] for i in np.resize(verbs, len(ACT_SLOTS))), strict=True))
        pattern = every[number // len(labels) % len(every)]
        rows.append({"pattern": pattern.name, "sentence": pattern.text({**acts, **words}, mask)})
    if exported is not None:
        tokenizer = exported.tokenizer
        tokens, found = _tokens(rules, exported, fillers, seed)
        lost = {
            "verbs that are left out": tokens["dropped"],
            "further forms that are left out": tokens["dropped_forms"],
        }
        content |= {"model": exported.name, "verbs that are one token": tokens["verbs"]}
        content |= {what: len(words) for what, words in lost.items()}
        content |= {f"tokens of the longest sentence (of {exported.max_length})": tokens["longest"]}
        notes = [*tokens["composed"], *(f"{what}: {some(own, _MOST_SHOWN)}" for what, own in lost.items() if own)]
        findings = [*findings, *found]
        for row in rows:
            sentence, encoding = row["sentence"], tokenizer.backend.encode(row["sentence"])
            pieces = [sentence[start:stop].strip() for start, stop in encoding.offsets if start < stop]
            row |= {"n_tokens": len(encoding.ids), "tokens": _BETWEEN_TOKENS.join(filter(None, pieces))}
    compared = [(own.name, str(own.role), own.sentence, differences(own, every[0])) for own in every]
    shown = pl.DataFrame(compared, schema=["name", "role", "sentence", "difference"], orient="row")
    ordered = sorted(findings, key=lambda finding: finding.kind is Kind.NOTE)
    return PatternsCheck(content, shown, pl.DataFrame(rows), tuple(ordered), tokens, notes)


def _content(language: Language) -> dict[str, str | int]:
    lexicon, file = language.lexicon, language.file
    return {
        "pattern set": language.patterns.name,
        "pattern file": str(file.toml.path),
        "lexicon": str(language.folder),
        **{f"names, {gender}": lexicon.genders.count(label) for gender, label in lexicon.labels.items()},
        "professions": len(lexicon.professions),
        "pairs": lexicon.n_pairs,
        f"verbs in {file.verbs}": len(lexicon.verbs),
        "with another form at the mask": len(lexicon.at_mask),
        "with several accepted forms": sum(len(forms) > 1 for forms in lexicon.at_mask.values()),
        **{f"words of {{{slot}}}": len(words) for slot, words in lexicon.lists.items()},
        **{f"forms of {{{slot}}}": len(forms) for slot, forms in lexicon.forms.items() if slot != PROFESSION},
    }


def _tokens(
    rules: Rules, exported: ExportedModel, fillers: Mapping[str, PairFillers], seed: int
) -> tuple[dict[str, Any], list[Finding]]:
    """What the tokenizer makes of the words and patterns, as the JSON document has it; and what is wrong there."""
    language, tokenizer = rules.language, exported.tokenizer
    lexicon, patterns = language.lexicon, language.patterns
    words = {VERB: lexicon.verbs, **{slot: filler.words for slot, filler in fillers.items()}}
    words |= {slot: lexicon.verbs for slot in ACT_SLOTS if slot not in words}
    main = [lexicon.accepted(verb)[0] for verb in lexicon.verbs]
    first = _one_token(tokenizer, patterns.selecting, words, main, lexicon.verbs)
    found, lines, longest = [], [], 0

    def problem(where: str, what: str) -> None:
        found.append(Finding(Kind.PROBLEM, where, what))

    if not first:
        said = (
            f"none of {len(main):,} verbs is one token of {exported.name} at the mask: give a model of their language"
        )
        problem(str(language.folder / language.file.verbs), said)
    for pattern in patterns.all:
        where, usable = rules.of_pattern(pattern), _one_token(tokenizer, pattern, words, main, lexicon.verbs)
        if lost := [form for form in first if form not in usable]:
            here = some(lost, _MOST_SHOWN)
            problem(where, f"{pattern.name}: {here} are one token in {patterns.selecting.name}, but not here")
        made = composer(tokenizer, pattern, words, seed)
        lines.append(composed(pattern.name, made))
        longest = max(longest, own := made.longest())
        if own > exported.max_length:
            told = f"{pattern.name} has sentences of {counted(own, 'token')}; {exported.name} takes"
            problem(where, f"{told} {exported.max_length}")
    for slot in dict.fromkeys((*WORD_SLOTS, *patterns.slots)):
        if unknown := tokenizer.unknown(list(words[slot])):
            said = f"words of {{{slot}}} with letters that the model does not know: {some(unknown, _MOST_SHOWN)}"
            found.append(Finding(Kind.NOTE, str(language.folder), said))
    others = [(form, verb) for verb in lexicon.verbs for form in lexicon.accepted(verb)[1:]]
    further, owners = [form for form, _ in others], [verb for _, verb in others]
    one = _one_token(tokenizer, patterns.selecting, words, further, owners)
    dropped = [form for form in main if form not in first]
    return {
        "model": exported.name,
        "verbs": len(main) - len(dropped),  # that are one token at the mask of the selecting pattern
        "dropped": dropped,  # the other verbs, each in its main form
        "dropped_forms": [form for form in further if form not in one],  # further accepted forms
        "longest": longest,  # tokens of a sentence
        "most": exported.max_length,
        "composed": lines,  # how the sentences of each pattern are put together
    }, found


def _one_token(
    tokenizer: MaskTokenizer,
    pattern: Pattern,
    words: Mapping[str, Sequence[str]],
    forms: Sequence[str],
    verbs: Sequence[str],
) -> dict[str, None]:
    """The forms of verbs that are one token in each sentence that they are asked in, as `select` takes them."""
    if not forms:
        return {}
    beside = beside_mask(tokenizer, pattern, words, forms[0])
    base = {slot: words[slot][0] for slot in pattern.slots}
    sentences, spelled = [base, *other_sentences(pattern, words, beside)], [pattern.mask.spell(form) for form in forms]
    tokens = tokens_at_mask(tokenizer, pattern, spelled, sentences, verbs if beside else ())
    return dict.fromkeys(form for form, token in zip(forms, tokens, strict=True) if token != NOT_ONE_TOKEN)
