"""What the model has decided, as it can be asked again: triplets, and candidates that were not selected.

A selection keeps, of each pair, the repeating verbs with the smallest keys, at most `--max-verbs`. So a verb that was
not selected must not be repeated, except where the pair is full and the verb's key comes after those that are kept.
Such verbs say nothing and are not drawn.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.choices import Coreference, VerbConvention
from ...basics.errors import InputError
from ...basics.paths import with_home
from ...library.again import Draw, Question, Sample
from ...runs.record import StageRecord, differences
from ...text.bundled import lexicon_path
from ...text.lexicon import FORMS_SEPARATOR, Lexicon, load_lexicon
from ...text.pattern import AT_MASK, NAME, PROFESSION, VERB, PatternSet
from ...text.pattern_files import load_language
from .select import SEVERAL, TOKENS, Selection, Settings, Verbs


def triplets(draw: Draw, rows: pl.LazyFrame) -> Iterator[Sample]:
    """Rows of `sentence_rows`; those of verbs of several tokens apart."""
    has_several = TOKENS in rows.collect_schema()
    single = rows.filter(pl.col(TOKENS).is_null()) if has_several else rows
    yield Sample("items", [_question(draw, row) for row in draw.rows(single)])
    if has_several:
        some = draw.rows(rows.filter(pl.col(TOKENS) > 1))
        yield Sample(SEVERAL, [replace(draw.word_question(row, row[TOKENS]), cut=True) for row in some])


def _question(draw: Draw, row: Mapping[str, Any]) -> Question:
    """A verb of one token, with its further accepted forms."""
    forms = (row.get(AT_MASK) or "").split(FORMS_SEPARATOR)[1:]
    if row["expected"][:1].isupper():  # at the start of a sentence
        forms = [form[:1].upper() + form[1:] for form in forms]
    return replace(draw.question(row), accepted=draw.tokens(row["sentence"], forms))


def unselected(draw: Draw, record: StageRecord, kept: pl.DataFrame, *, is_exact: bool) -> Sample:
    """Candidates that were not selected: those without a row in `kept`, the content of triplets.parquet.

    Raises:
        InputError: run.json contradicts itself, or the word lists that a user gives cannot be read.
    """
    kind, lexicon = "unselected candidates", _lexicon(record, draw.lexicon)
    if lexicon is None or lexicon.sha256 != record.identity["lexicon sha256"]:
        return Sample(kind, [], "the word lists of the run were not found: give --lexicon DIR")
    verbs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, profession, verb in kept.select("name", "profession", "verb").iter_rows():
        verbs[name, profession].append(verb)
    return Sample(kind, Unselected(_planned(draw, record, lexicon), verbs, is_exact).drawn(draw))


def _lexicon(record: StageRecord, given: Path | None) -> Lexicon | None:
    """The words of a run: those given, those where the run found its own, or the bundled ones."""
    arguments = record.metadata.get("call", {}).get("arguments", {})
    patterns = _source(arguments.get("patterns"))
    if given is not None:
        with suppress(InputError):  # the patterns may have been moved, too
            return load_language(patterns, given).lexicon
        return load_lexicon(lexicon_path(given))
    with suppress(InputError):
        return load_language(patterns, _source(arguments.get("lexicon"))).lexicon
    return None


def _source(argument: Any) -> str | Path | None:
    match argument:
        case {"path": str(path)}:
            return with_home(path)
        case str(name):
            return name
    return None


def _planned(draw: Draw, record: StageRecord, lexicon: Lexicon) -> Selection:
    """The selection as its run has recorded it."""
    identity = record.identity
    settings = Settings(
        seed=identity["seed"],
        pairs=identity["pairs"],
        max_verbs=identity["max verbs"],
        coreference=Coreference(identity["coreference"]),
        verbs=VerbConvention(identity["verbs"]),
        lazy=identity["lazy"],
    )
    stage = Selection.plan(draw.exported, lexicon, PatternSet.from_json(record.metadata["pattern set"]), settings)
    known, planned = (
        {key: value for key, value in own.items() if not key.startswith("pairs per part")}
        for own in (identity, stage.identity)
    )
    if other := differences(known, planned):
        raise InputError(f"the selection that run.json describes has {other}")
    return stage


@dataclass(frozen=True, eq=False)
class Unselected:
    """The candidates of one token that were not selected though they would have been if their verb were repeated."""

    stage: Selection
    kept: Mapping[tuple[str, str], list[str]]  # name and profession → verbs
    is_exact: bool

    @property
    def verbs(self) -> Verbs:
        return self.stage.verbs[0]  # those of one token

    def drawn(self, draw: Draw) -> list[Question]:
        """A random verb of each random pair in turn, so that few pairs are looked at twice."""
        random = np.random.default_rng(draw.seed)
        waiting: deque[tuple[int, list[int] | None]] = deque(
            (pair, None) for pair in random.permutation(self.verbs.grid.pairs).tolist()
        )
        found: list[Question] = []
        while waiting and len(found) < draw.size:
            pair, left = waiting.popleft()
            verbs = random.permutation(self._telling(pair)).tolist() if left is None else left
            if verbs:
                found.append(self._question(draw, pair, verbs.pop()))
                waiting.append((pair, verbs))
        return found

    def _words(self, pair: int) -> dict[str, str]:
        """Slot → the pair's filler."""
        name, profession = divmod(pair, self.verbs.grid.professions)
        return {slot: filler.word(name, profession) for slot, filler in self.stage.fillers.items()}

    def _telling(self, pair: int) -> NDArray[np.int64]:
        """The verbs of a pair that were not selected and would have been if they were repeated; in the grid."""
        words, stage = self._words(pair), self.stage
        kept = self.kept.get((words[NAME], words[PROFESSION]), [])
        [order] = stage.verb_order(self.verbs, np.divmod(np.array([pair]), self.verbs.grid.professions))
        is_kept = np.isin(np.array(stage.lexicon.verbs, object)[self.verbs.index[order]].astype(str), kept)
        last = len(order)
        if len(kept) >= stage.settings.max_verbs:
            last = int(np.flatnonzero(is_kept).max(initial=-1)) + 1
        telling: NDArray[np.int64] = order[:last][~is_kept[:last]]
        return telling

    def _question(self, draw: Draw, pair: int, verb: int) -> Question:
        stage, words = self.stage, self._words(pair)
        verb_text, pattern = stage.lexicon.verbs[int(self.verbs.index[verb])], stage.patterns.selecting
        sentence = pattern.text({**words, VERB: verb_text}, draw.exported.mask_token)
        forms = [pattern.mask.spell(form) for form in stage.lexicon.accepted(verb_text)]
        return Question(
            name=f"{words[NAME]}, {words[PROFESSION]}, {verb_text}",
            text=sentence,
            tokenizer=draw.tokenizer,
            tokens=(draw.tokens(sentence, forms),),
            is_first=False,
            is_exact=self.is_exact,
        )
