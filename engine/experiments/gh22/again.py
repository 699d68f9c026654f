"""What the model has decided, as it can be asked again: repetitions, and the ACTs that it has chosen."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from ...library.again import Draw, Question, Sample
from ...text.pattern import NAME, PROFESSION, PRONOUN, column
from .choices import Variant
from .variants import load_variant


def repetitions(draw: Draw, rows: pl.LazyFrame, acts: pl.DataFrame) -> Iterator[Question]:
    """Rows of `sentence_rows`. An ACT may be a piece of a word, so its token is that of acts.parquet."""
    tokens = {(pair, rank): act for pair, rank, act in acts.select("pair", "rank", "act_id").iter_rows()}
    for row in draw.rows(rows):
        name = f"pair {row['item']}, ACT {row['act_rank']} in {row['condition']} {row['pattern']}"
        yield replace(draw.question(row, ()), name=name, tokens=((tokens[row["item"], row["act_rank"]],),))


def chosen_acts(draw: Draw, acts: pl.DataFrame, sentence: str) -> Sample:
    """The ACTs that the model has chosen, with their ranks; none for another sentence than ours."""
    pattern = load_variant(Variant.ORIGINAL).selecting
    unranked = draw.tokenizer.unranked_ids(draw.exported.vocab_size)
    questions = [
        Question(
            name=f"pair {row['pair']}, ACT {row['rank']}",
            text=pattern.text(
                {slot: row[column(slot)] for slot in (NAME, PROFESSION, PRONOUN)}, draw.exported.mask_token
            ),
            tokenizer=draw.tokenizer,
            tokens=((row["act_id"],),),
            rank=row["rank"],
            logprob=row["act_logprob"],
            unranked=(unranked,),
        )
        for row in (draw.some(acts) if sentence == pattern.sentence else ())
    ]
    return Sample("ACTs", questions)
