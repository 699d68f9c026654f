"""Triplets of verbs of several tokens, decided again: one query after the other, without composition or batches.

The text is tokenized with one mask, the mask is repeated for each token of the verb, and the verb's tokens are filled
in from left to right. The verb is repeated if every token is the first choice.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ...choices import Precision
from ...experiments.negation.runs import ScoresRun, SelectionRun
from ...experiments.negation.several import TOKENS
from ...inference.exported import ExportedModel
from ...library.sentences import drawn
from ...printable import counted
from ...text.tokenizer import MaskTokenizer
from .agreement import Compared, Verdict
from .asked import was_exact
from .reference import Reference, each
from .words import ask_word


def several_again(
    run: SelectionRun | ScoresRun, exported: ExportedModel, reference: Reference, sample: int, seed: int
) -> list[Compared]:
    """Decide a random sample of a run's triplets of verbs of several tokens again.

    Args:
        run: A run with such verbs.
        exported: Its model.
        reference: What decides again.
        sample: How many to draw.
        seed: Of the choice.
    """
    rows = drawn(run.sentence_rows().filter(pl.col(TOKENS) > 1), sample, seed).collect()
    if isinstance(run, SelectionRun):  # it records no number but the decision
        kind = str(Precision.FP32 if was_exact(run) else Precision.MIXED)
        rows = rows.with_columns(precision=pl.lit(kind), answer=pl.lit(None, pl.String), rank=pl.lit(None, pl.Int32))
    tokenizer = exported.tokenizer

    def one(row: dict[str, Any]) -> Compared:
        name = f"{row['item']} ({row['expected']}) in {row['condition']}"
        is_exact = row["precision"] == Precision.FP32
        tokens = _tokens(row, tokenizer)
        if isinstance(tokens, str):
            return Compared(name, Verdict.WRONG, tokens, is_exact)
        asked = ask_word(_contexts(row, tokenizer), tokens, tokenizer, reference)
        verdict, why = asked.decision(row["repeated"], "the verb was {}repeated")
        if verdict is Verdict.AGREES and is_exact:

            def said(choices: Sequence[int]) -> str:
                wrong = next((i for i, choice in enumerate(choices) if choice != tokens[i]), len(choices) - 1)
                return tokenizer.word_text(choices[: wrong + 1])

            why = asked.numbers(row["rank"], row["logprob"], row["answer"], row["answer_logprob"], said)
            verdict = Verdict.WRONG if why else verdict
        return Compared(name, verdict, why, is_exact)

    return each(rows.to_dicts(), one, reference.at_once)


def _contexts(row: dict[str, Any], tokenizer: MaskTokenizer) -> tuple[str, str]:
    """What stands before the masks of a text, and what follows them."""
    before, _, after = row["sentence"].partition(tokenizer.mask_token * row[TOKENS])
    return before, after


def _tokens(row: dict[str, Any], tokenizer: MaskTokenizer) -> tuple[int, ...] | str:
    """The verb's tokens in the very sentence; or why it does not have those that the run tells."""
    [found] = tokenizer.word_sequences([_contexts(row, tokenizer)], [row["expected"]])
    if isinstance(found, tuple) and len(found) != row[TOKENS]:
        return f"the verb has {counted(len(found), 'token')}, in the run {row[TOKENS]}"
    return found
