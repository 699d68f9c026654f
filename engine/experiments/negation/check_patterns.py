"""`ng.check_patterns`: a pattern set and its words, compared with the rules of their language.

What a model's tokenizer makes of them is said by the plan of a selection.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...basics.choices import Coreference
from ...basics.errors import InputError, check_number
from ...basics.printable import counted
from ...inference.free_text import MASK
from ...library.shown import Shown
from ...text.keys import checked_seed
from ...text.language_check import Finding, Kind, Rules, differences
from ...text.pattern import ACT_SLOTS, PROFESSION
from ...text.pattern_files import Language, load_language
from ...views import Column, Table
from .grid import pair_fillers

SENTENCES = 10
_MOST_SENTENCES = 10_000


@dataclass(frozen=True, eq=False)
class PatternsCheck(Shown):
    """A checked pattern set."""

    content: Mapping[str, str | int]
    patterns: pl.DataFrame  # columns name, role, sentence, difference (from the first one, which selects)
    sentences: pl.DataFrame  # columns pattern, sentence
    findings: tuple[Finding, ...]  # problems first

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind is Kind.PROBLEM]

    def tables(self) -> list[Table]:
        values = [f"{value:,}" if isinstance(value, int) else value for value in self.content.values()]
        content = pl.DataFrame({"what": list(self.content), "value": values})
        other = f"other than {self.patterns['name'][0]}"
        patterns = [Column("pattern", "name"), Column("role", "role"), Column(other, "difference")]
        sentences = [Column("pattern", "pattern"), Column("sentence", "sentence")]
        tables = [
            Table("Patterns and words", content, [Column("", "what"), Column("", "value")]),
            Table("Patterns", self.patterns, patterns),
            Table(counted(len(self.sentences), "sentence"), self.sentences, sentences),
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
        }

    def refuse_faults(self) -> None:
        if self.problems:
            first, more = self.problems[0], len(self.problems) - 1
            raise InputError(f"{first.where}: {first.what}{f' (and {more:,} more, see above)' if more else ''}")


def check_patterns(
    patterns: str | Path | None = None,
    *,
    lexicon: str | Path | None = None,
    sentences: int = SENTENCES,
    seed: int = 0,
) -> PatternsCheck:
    """Check a pattern set and its words by the rules of their language.

    Args:
        patterns: A pattern set by name, or a TOML file; the paper's by default.
        lexicon: A lexicon by name, or a folder of word lists; by default the one that the patterns name.
        sentences: How many sentences are shown.
        seed: Seed for the choice of their words.

    Returns:
        The check. Problems do not raise an error; see `PatternsCheck.problems`.

    Raises:
        InputError: A file is missing or not of the right form.
    """
    check_number("--sentences", sentences, 1, _MOST_SENTENCES)
    checked_seed(seed)
    language = load_language(patterns, lexicon, ACT_SLOTS)
    known, every = language.lexicon, language.patterns.all
    fillers = pair_fillers(known, Coreference.PRONOUN, seed)
    random, labels, rows = np.random.default_rng(seed), list(known.pronouns), list[dict[str, Any]]()
    for number in range(sentences):
        label = labels[number % len(labels)]
        name = int(random.choice([i for i, gender in enumerate(known.genders) if gender == label]))
        profession = int(random.integers(len(known.professions)))
        words = {slot: filler.word(name, profession) for slot, filler in fillers.items()}
        verbs = random.permutation(len(known.verbs))[: len(ACT_SLOTS)]  # gh22 fills them with the model's own words
        acts = dict(zip(ACT_SLOTS, (known.verbs[i] for i in np.resize(verbs, len(ACT_SLOTS))), strict=True))
        pattern = every[number // len(labels) % len(every)]
        rows.append({"pattern": pattern.name, "sentence": pattern.text({**acts, **words}, MASK)})
    compared = [(own.name, str(own.role), own.sentence, differences(own, every[0])) for own in every]
    shown = pl.DataFrame(compared, schema=["name", "role", "sentence", "difference"], orient="row")
    return PatternsCheck(_content(language), shown, pl.DataFrame(rows), tuple(Rules(language).findings()))


def _content(language: Language) -> dict[str, str | int]:
    lexicon, file = language.lexicon, language.file
    return {
        "pattern set": language.patterns.name,
        "pattern file": str(file.toml.path),
        "lexicon": str(language.folder),
        **{f"names, {gender}": lexicon.genders.count(label) for gender, label in lexicon.labels.items()},
        "professions": len(lexicon.professions),
        "pairs": lexicon.n_pairs,
        f"verbs in {file.content.verbs}": len(lexicon.verbs),
        "with another form at the mask": len(lexicon.at_mask),
        "with several accepted forms": sum(len(forms) > 1 for forms in lexicon.at_mask.values()),
        **{f"words of {{{slot}}}": len(words) for slot, words in lexicon.lists.items()},
        **{f"forms of {{{slot}}}": len(forms) for slot, forms in lexicon.forms.items() if slot != PROFESSION},
    }
