"""`ng.predict`: the most probable tokens at the mask of free text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import polars as pl

from ..basics.errors import InputError, check_number
from ..basics.option import OpeningOptions
from ..basics.printable import counted
from ..inference.free_text import MASK, encode_texts, predict_texts
from ..text.spelling import SPECIAL, otherwise
from ..text.tokenizer import MaskTokenizer
from ..views import Column, Table
from .model import ModelLike, open_model
from .shown import Shown

_SCHEMA = {"text": pl.String, "rank": pl.Int64, "token": pl.String, "logit": pl.Float64, "probability": pl.Float64}


def predict(
    model: ModelLike, texts: Sequence[str] | str, *, top: int = 5, bos: bool = False, **opening: Unpack[OpeningOptions]
) -> pl.DataFrame:
    """The most probable tokens at the mask of each text, by the reference model.

    Args:
        model: From `load`, or the folder or name of an exported model.
        texts: One, or a list; each with one mask, written [MASK] or as the model's own mask token. A causal model
            continues a text that has none.
        top: How many tokens of each text.
        bos: Whether every text begins with the model's BOS token; for causal models.
        **opening: See `OpeningOptions`; not beside a model from `load`. The reference model decides at any precision.

    Returns:
        One row for each text and token: text, rank (1 for the most probable), token, logit, probability.

    Raises:
        InputError: A text does not have exactly one mask, or is too long; or `top` is not a number of tokens.
    """
    check_number("--top", top, 1, 10**6)
    texts = [texts] if isinstance(texts, str) else list(texts)
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise InputError(f"{odd[0]!r} is not a text; give a list of texts")
    opened = open_model(model, **opening)
    tokenizer = opened.exported.tokenizer_with(bos=bos)
    if opened.exported.is_causal:
        texts = [text if MASK in text else f"{text.rstrip()} {MASK}" for text in texts]
    encode_texts(opened.exported, tokenizer, texts)  # refuses bad texts before the model is opened
    return pl.DataFrame(predict_texts(opened.reference, tokenizer, texts, top), schema=_SCHEMA)


@dataclass(frozen=True, eq=False)
class Predictions(Shown):
    """The tables of `negengine predict`."""

    frame: pl.DataFrame
    texts: Sequence[str] = ()  # as they were given
    tokenizer: MaskTokenizer | None = None  # the model's, for the remarks

    def tables(self) -> list[Table]:
        columns = [
            Column("token", "token"),
            Column("probability", "probability", decimals=2, scale=100, unit="%"),
            Column("logit", "logit", decimals=2),
        ]
        return [Table(str(text), own, columns) for (text,), own in self.frame.group_by("text", maintain_order=True)]

    def remarks(self) -> list[str]:
        """What was read otherwise than it was written, in how many texts."""
        given = pl.DataFrame({"text": self.texts}, {"text": pl.String})
        known = self.tokenizer.known(SPECIAL) if self.tokenizer else SPECIAL
        counts = given.select(has_it.sum().alias(what) for what, has_it in otherwise("text", MASK, known).items())
        return [f"{what} in {counted(n, 'text')}" for what, n in counts.row(0, named=True).items() if n]

    def document(self) -> list[dict[str, Any]]:
        """One object a text: `{"text": …, "top": [{"token", "logit", "probability"}, …]}`."""
        return [
            {"text": text, "top": own.select("token", "logit", "probability").to_dicts()}
            for (text,), own in self.frame.group_by("text", maintain_order=True)
        ]
