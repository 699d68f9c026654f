"""`negengine predict`: the most probable tokens at the mask of free text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from ..sentences.tokens import MaskTokenizer
from .cloze import log_softmax, logits_in_batches, slices
from .device import choose_device
from .exported import load_exported
from .model import MaskedLM


def predict(reference: str, texts: Sequence[str], *, top: int = 5, device: str = "auto") -> list[dict[str, Any]]:
    """Run texts with one mask each.

    Args:
        reference: exported folder, or a name under `models/`.
        texts: the mask is written [MASK] or as the model's own mask token.
        top: how many tokens to return.
        device: as for `choose_device`.

    Returns:
        For each text, in the order given, `{"text": …, "top": [{"token", "logit", "probability"}, …]}`, the most
        probable token first.
    """
    exported = load_exported(reference)
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    sentences = slices(exported, tokenizer, texts)
    model = MaskedLM(exported, choose_device(device))
    results: list[dict[str, Any]] = [{} for _ in texts]
    for rows, logits in logits_in_batches(model, sentences):
        probabilities = np.exp(log_softmax(logits))
        best = np.argsort(-logits, axis=1, kind="stable")[:, :top]
        for row, ids, scores, chances in zip(rows, best, logits, probabilities, strict=True):
            results[row] = {
                "text": texts[row],
                "top": [
                    {
                        "token": tokenizer.token_text(int(i)),
                        "logit": float(scores[i]),
                        "probability": float(chances[i]),
                    }
                    for i in ids
                ],
            }
    return results


def predictions_table(prediction: dict[str, Any]) -> Table:
    """One text's predictions as a table."""
    table = Table(title=prediction["text"], title_justify="left")
    table.add_column("token")
    table.add_column("probability", justify="right")
    table.add_column("logit", justify="right")
    for item in prediction["top"]:
        table.add_row(item["token"], f"{item['probability']:.2%}", f"{item['logit']:.2f}")
    return table
