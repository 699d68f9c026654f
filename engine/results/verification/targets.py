"""Targets of several tokens and whole words of a user's own sentences, decided again: item by item, token by token."""

from functools import partial
from typing import Any

import polars as pl

from ...choices import TargetMethod
from ...experiments.probe.columns import TARGET_TOKENS
from ...experiments.probe.runs import ProbeRun
from ...inference.exported import ExportedModel
from ...library.sentences import CORRECT, drawn
from ...printable import counted
from ...text.tokenizer import MaskTokenizer
from ...text.word_marks import WordMarks
from .agreement import Compared, Verdict
from .reference import Reference, each
from .words import ask_word

TARGETS = "targets of several tokens"


def targets_again(
    run: ProbeRun, exported: ExportedModel, reference: Reference, sample: int, seed: int
) -> list[Compared]:
    """Decide a random sample of a run's items again that are more than one decision.

    Args:
        run: A run on a user's own sentences.
        exported: Its model.
        reference: What decides again.
        sample: How many to draw.
        seed: Of the choice.

    Raises:
        InputError: The method is `whole-word`, and the vocabulary does not mark words.
    """
    method = TargetMethod(run.record.identity["method"])
    rows, tokenizer, marks = run.sentence_rows(), exported.tokenizer, None
    if method is TargetMethod.WHOLE_WORD:
        marks = WordMarks.of(tokenizer, exported.vocab_size)
    else:
        rows = rows.filter(pl.col(TARGET_TOKENS) > 1)  # the others are single decisions: see `asked`
    again = partial(_again, tokenizer=tokenizer, reference=reference, method=method, marks=marks)
    return each(drawn(rows, sample, seed).collect().to_dicts(), again, reference.at_once)


def _again(
    row: dict[str, Any], tokenizer: MaskTokenizer, reference: Reference, method: TargetMethod, marks: WordMarks | None
) -> Compared:
    name = f"{row['item']} ({row['expected']}) in {row['condition']}"
    before, _, after = row["sentence"].partition(tokenizer.mask_token)
    [tokens] = tokenizer.word_sequences([(before, after)], [row["expected"]])
    if isinstance(tokens, str):
        return Compared(name, Verdict.WRONG, tokens)
    if len(tokens) != row[TARGET_TOKENS]:
        return Compared(
            name, Verdict.WRONG, f"the target has {counted(len(tokens), 'token')}, in the run {row[TARGET_TOKENS]}"
        )
    asked = ask_word((before, after), tokens, tokenizer, reference, method, marks)
    verdict, why = asked.decision(row[CORRECT], "the target was {}the first choice")
    if verdict is Verdict.AGREES:
        why = asked.numbers(row["rank"], row["logprob"], row["answer"], row["answer_logprob"], tokenizer.word_text)
        verdict = Verdict.WRONG if why else verdict
    return Compared(name, verdict, why)
