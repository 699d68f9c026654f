"""The items of runs as texts to ask again: what is drawn, which tokens are expected, which numbers are compared.

The texts are those of `Run.sentences`. Expected tokens are looked up with the tokenizer in the very sentence, one word
at a time (see `MaskTokenizer.word_tokens`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...choices import Precision, TargetMethod
from ...experiments.diagnostics.runs import DiagnosticsRun
from ...experiments.gh22.choices import Variant
from ...experiments.gh22.runs import Gh22Run
from ...experiments.gh22.variants import load_variant
from ...experiments.items import SEPARATOR
from ...experiments.lama.runs import LamaRun
from ...experiments.negation.runs import ScoresRun, SelectionRun
from ...experiments.negation.several import TOKENS
from ...experiments.probe.columns import TARGET_TOKENS
from ...experiments.probe.runs import ProbeRun
from ...experiments.vocabulary import LIST, Ranked, Vocabulary
from ...files.home import with_home
from ...inference.exported import ExportedModel
from ...inference.free_text import MASK
from ...library.run import Run
from ...library.sentences import drawn
from ...text.lexicon import FORMS_SEPARATOR
from ...text.slots import AT_MASK, NAME, PROFESSION, PRONOUN, column
from ...text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from .agreement import Recorded


@dataclass(frozen=True, eq=False)
class Vocabularies:
    """Tokenizer and ranked tokens of a run's model.

    Attributes:
        tokenizer: The model's.
        size: How many logits the model has.
    """

    tokenizer: MaskTokenizer
    size: int

    @classmethod
    def of(cls, exported: ExportedModel) -> "Vocabularies":
        """Those of an export."""
        return cls(exported.tokenizer, exported.vocab_size)

    def tokens(self, text: str, words: Sequence[str]) -> tuple[int, ...]:
        """The tokens of words at the mask of a text; empty unless each word that matters is one token."""
        before, _, after = text.partition(self.tokenizer.mask_token)
        found = self.tokenizer.word_tokens([(before, after)] * len(words), words)
        return tuple(int(token) for token in found if token != NOT_ONE_TOKEN)

    def except_for(self, ranked: NDArray[np.int32]) -> NDArray[np.int64]:
        """The tokens that are not ranked, int64 [m]."""
        return np.setdiff1d(np.arange(self.size), ranked)


def drawn_items(run: Run, exported: ExportedModel, sample: int, seed: int) -> list[Recorded]:
    """A random sample of a run's items.

    Args:
        run: A finished run of a masked language model.
        exported: Its model.
        sample: How many to draw.
        seed: Of the choice.

    Raises:
        InputError: The run has no sentences.
    """
    rows = drawn(_single_decisions(run), sample, seed).collect()
    words = Vocabularies.of(exported)
    if isinstance(run, Gh22Run):
        return list(_acts_repeated(run, rows))
    if isinstance(run, LamaRun):
        return list(_facts(run, rows, words))
    if isinstance(run, ProbeRun):
        return list(_own_stimuli(run, rows, words))
    if isinstance(run, SelectionRun):  # it records no token but the decision
        kind = str(Precision.FP32 if was_exact(run) else Precision.MIXED)
        rows = rows.with_columns(precision=pl.lit(kind), answer=pl.lit(None, pl.String))
    return [_item(row, words, several=isinstance(run, DiagnosticsRun)) for row in rows.iter_rows(named=True)]


def _single_decisions(run: Run) -> pl.LazyFrame:
    """The items that the model decides at once; for words of several tokens see `several` and `targets`."""
    rows = run.sentence_rows()
    if isinstance(run, SelectionRun | ScoresRun) and run.several is not None:
        return rows.filter(pl.col(TOKENS).is_null())
    if isinstance(run, ProbeRun):
        is_word = run.record.identity["method"] == TargetMethod.WHOLE_WORD
        return rows.filter(pl.lit(not is_word) & (pl.col(TARGET_TOKENS) == 1))
    return rows


def was_exact(run: Run) -> bool:
    """Whether the reference model made all decisions of a run."""
    return not run.record.counts.get("decided")


def _item(row: Mapping[str, Any], words: Vocabularies, *, several: bool = False) -> Recorded:
    """A row of `sentences`."""
    expected = row["expected"]
    wanted = [] if expected is None else expected.split(SEPARATOR) if several else [expected]
    is_exact = row.get("precision", Precision.FP32) == Precision.FP32
    recorded = Recorded(
        name=f"{row['item']} in {row['condition']}",
        text=row["sentence"],
        tokens=words.tokens(row["sentence"], wanted),
        accepted=_further(row, words),
        is_first=row["repeated"] if "repeated" in row else row["correct"],
        is_exact=is_exact,
    )
    return replace(recorded, answer=row["answer"], **_numbers(row)) if is_exact else recorded


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a row that only the reference model gives exactly."""
    return {name: row[name] for name in ("rank", "logprob", "answer_logprob")}


def _further(row: Mapping[str, Any], words: Vocabularies) -> tuple[int, ...]:
    """The tokens of the further accepted forms of a verb, where it has several."""
    forms = (row.get(AT_MASK) or "").split(FORMS_SEPARATOR)[1:]
    is_capital = (row["expected"] or "")[:1].isupper()  # at the start of a sentence
    return words.tokens(row["sentence"], [form[:1].upper() + form[1:] if is_capital else form for form in forms])


def _acts_repeated(run: Gh22Run, rows: pl.DataFrame) -> Iterator[Recorded]:
    """Items of GH22: an ACT may be a piece of a word, so its token is that of acts.parquet."""
    tokens = {(pair, rank): act for pair, rank, act in run.acts.select("pair", "rank", "act_id").iter_rows()}
    for row in rows.iter_rows(named=True):
        is_exact = row["precision"] == Precision.FP32
        yield Recorded(
            name=f"pair {row['item']}, ACT {row['act_rank']} in {row['condition']} {row['pattern']}",
            text=row["sentence"],
            tokens=(tokens[row["item"], row["act_rank"]],),
            is_first=row["repeated"],
            answer=row["answer"],
            is_exact=is_exact,
            **(_numbers(row) if is_exact else {}),
        )


def drawn_acts(run: Gh22Run, exported: ExportedModel, sample: int, seed: int) -> list[Recorded]:
    """A random sample of the ACTs that the model has chosen, with their ranks; empty for another sentence than ours."""
    pattern = load_variant(Variant.ORIGINAL).selecting
    if run.record.identity["sentence"] != pattern.sentence:
        return []
    words = Vocabularies.of(exported)
    unranked = words.tokenizer.unranked_ids(words.size)
    rows = run.acts.sample(min(sample, len(run.acts)), seed=seed)
    return [
        Recorded(
            name=f"pair {row['pair']}, ACT {row['rank']}",
            text=pattern.text({slot: row[column(slot)] for slot in (NAME, PROFESSION, PRONOUN)}, exported.mask_token),
            tokens=(row["act_id"],),
            rank=row["rank"],
            logprob=row["act_logprob"],
            unranked=unranked,
        )
        for row in rows.iter_rows(named=True)
    ]


def _ranked(run: LamaRun, words: Vocabularies) -> NDArray[np.int32] | None:
    """The tokens that a run of LAMA ranks; None if its word list is not found."""
    identity, arguments = run.record.identity, run.record.metadata.get("call", {}).get("arguments", {})
    ranked = Ranked(identity["vocabulary"])
    if ranked.name == LIST:
        match arguments.get("vocabulary"):
            case {"path": str(path)} if (file := with_home(path)).is_file():
                ranked = Ranked.of(str(file))
        if ranked.sha256 != identity["vocabulary sha256"]:
            return None
    return ranked.ids(words.tokenizer, words.size)


def _facts(run: LamaRun, rows: pl.DataFrame, words: Vocabularies) -> Iterator[Recorded]:
    """Queries of LAMA: ranks and first choices are among the ranked tokens."""
    ranked = _ranked(run, words)
    known = ranked is not None
    unranked = None if ranked is None else words.except_for(ranked)
    for row in rows.iter_rows(named=True):
        item = _item(row, words)
        yield Recorded(
            name=item.name,
            text=item.text,
            tokens=item.tokens,
            is_first=item.is_first if known else None,
            rank=item.rank if known else None,
            logprob=item.logprob,
            answer=item.answer if known else None,
            answer_logprob=item.answer_logprob if known else None,
            unranked=unranked,
        )


def _own_stimuli(run: ProbeRun, rows: pl.DataFrame, words: Vocabularies) -> Iterator[Recorded]:
    """A user's own sentences."""
    identity = run.record.identity
    ranked = Ranked(identity["vocabulary"], tuple(run.record.metadata["ranked words"]))
    unranked = None if ranked.name == Vocabulary.ALL else words.except_for(ranked.ids(words.tokenizer, words.size))
    for row in rows.iter_rows(named=True):
        yield replace(_item(row, words), unranked=unranked, among_ranked=unranked is not None)


@dataclass(frozen=True)
class Correlated:
    """A query of LAMA and its negation.

    Attributes:
        name: What to call it in a message.
        texts: Both, with the model's own mask token.
        correlation: Spearman's, over the ranked tokens.
    """

    name: str
    texts: tuple[str, str]
    correlation: float


def drawn_correlations(
    run: LamaRun, exported: ExportedModel, sample: int, seed: int
) -> tuple[list[Correlated], NDArray[np.int32] | None]:
    """A random sample of LAMA's correlations, and the tokens that they are over; None if these are not known."""
    if (ranked := _ranked(run, Vocabularies.of(exported))) is None:
        return [], None
    rows = run.items.filter(pl.col("spearman").is_not_null())
    drawn = rows.sample(min(sample, len(rows)), seed=seed)
    return [
        Correlated(
            f"{row['item']} in {row['dataset']}",
            (_with_mask(row["query"], exported), _with_mask(row["negated_query"], exported)),
            row["spearman"],
        )
        for row in drawn.iter_rows(named=True)
    ], ranked


def _with_mask(text: str, exported: ExportedModel) -> str:
    return text.replace(MASK, exported.mask_token)
