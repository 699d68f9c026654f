"""`negengine bench probe`: a user's own sentences, against a loop in PyTorch: log-probabilities [n, targets]."""

from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import torch

from ..engine.basics.option import Opening
from ..engine.basics.printable import counted
from ..engine.experiments.probe.probe import OwnSentences
from ..engine.experiments.probe.probe_columns import LOGPROB
from ..engine.runs.executors import PartWorker
from ..engine.runs.part import EncodedPart
from ..engine.runs.stage import Choices, changed
from ..engine.text.lexicon import load_lexicon
from .rounds import Effort
from .shapes import Measured
from .subject import Measurement, Subject
from .system import LOOP, Answers, Choice, Fp32
from .torch_models import Loop

TARGETS = ("target", "other")
_TEXTS = (
    "{name} likes to [MASK].",
    "{name} is {profession} who likes to [MASK].",
    "{name} is {profession} who doesn't like to {verb}. Today {name} wants to [MASK].",
    "When {name} was young, it was not easy to {verb}, and so {name}, {profession}, never learned how to [MASK].",
)


def stimuli(n: int, words: Sequence[str], targets: Sequence[str] = TARGETS) -> pl.DataFrame:
    """Sentences with a mask, of four different lengths, and a column for each of up to two targets."""
    lexicon, random = load_lexicon(), np.random.default_rng(0)
    chosen = {
        "name": [str(word) for word in random.choice(lexicon.names, n)],
        "profession": [str(word) for word in random.choice(lexicon.professions, n)],
        "verb": [str(word) for word in random.choice(list(words), n)],
    }
    rows = [dict(zip(chosen, values, strict=True)) for values in zip(*chosen.values(), strict=True)]
    texts = [_TEXTS[i % len(_TEXTS)].format(**row) for i, row in enumerate(rows)]
    expected = {name: [str(word) for word in random.choice(list(words), n)] for name in TARGETS}
    return pl.DataFrame({"sentence": texts, **expected}).select("sentence", *targets)


class TargetLoop(Loop[pl.DataFrame]):
    """Log-probability and rank of the targets, and the first choice."""

    def run(self, work: pl.DataFrame, choice: Choice) -> Answers:
        targets = [self._tokenizer.convert_tokens_to_ids(list(own)) for own in work.drop("sentence")]
        expected = np.stack(targets, axis=1)
        scores = np.empty(expected.shape)
        for rows, logits in self.batches(work["sentence"].to_list(), choice["batch"]):
            own = logits.gather(1, torch.from_numpy(expected[rows]).to(self._device))
            logprobs = own - logits.logsumexp(1, keepdim=True)
            for target in range(expected.shape[1]):
                (logits > own[:, target : target + 1]).sum(1)  # the rank
            logits.argmax(1)
            scores[rows] = logprobs.cpu().numpy()
        return scores


class Own(Fp32[pl.DataFrame]):
    """`negengine probe` without its files: it reads and checks a table, and makes the rows of results."""

    def run(self, work: pl.DataFrame, choice: Choice) -> Answers:  # noqa: ARG002
        with TemporaryDirectory() as folder:
            path = Path(folder) / "stimuli.csv"
            work.write_csv(path)
            stage = OwnSentences(data=path, target=work.columns[1:], group="").stage(self._exported)
            found: dict[int, EncodedPart] = {}
            opened = PartWorker(changed(stage, open=lambda _: self._model), Opening())
            opened.run(range(len(stage.sizes)), Choices(), found.__setitem__, lambda *_: None)
        rows = [pl.read_parquet(BytesIO(found[number].content)) for number in sorted(found)]
        logprobs = pl.concat(rows)[LOGPROB].to_numpy()
        scores: Answers = logprobs.reshape(len(work), -1).astype(np.float64)
        return scores


def _measurements(measured: Measured, *_: object) -> Iterator[Measurement]:
    """One for each number of targets; these are the verbs of the bundled lexicon that are one token of the model."""
    verbs = load_lexicon().verbs
    tokens = measured.exported.tokenizer.word_tokens([("Anna likes to ", ".")] * len(verbs), verbs)
    words = [verb for verb, token in zip(verbs, tokens.tolist(), strict=True) if token >= 0]

    def known(work: pl.DataFrame) -> dict[str, Any]:
        tokens = measured.exported.tokenizer.encode(work["sentence"].to_list())
        return {"targets": work.width - 1, "tokens": float(np.mean([len(ids) for ids in tokens]))}

    for count in range(1, len(TARGETS) + 1):
        make = partial(stimuli, words=words, targets=TARGETS[:count])
        yield Measurement([TargetLoop(), TargetLoop(row_alone=True), Own()], make, known)


SUBJECT = Subject(
    "probe",
    "sentences",
    _measurements,
    Effort(most=50_000),
    times={"times loop": LOOP},
    described=lambda found: f"of {found['tokens']:.1f} tokens, {counted(found['targets'], 'target')} each, fp32",
)
