"""`negengine bench gh22`: the model's own verbs for each pair, and whether it repeats them.

The paper's program is not public: here it is one sentence at a time, with the logits at all positions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from ..engine.basics.choices import Coreference
from ..engine.experiments.gh22.acts import ACTS_FILE, RANKS, Acts
from ..engine.experiments.gh22.gh22_patterns import Variant, load_variant
from ..engine.experiments.gh22.repetitions import Repetitions
from ..engine.experiments.items import ITEMS_FILE
from ..engine.experiments.negation.grid import pair_fillers
from ..engine.inference.exported import ExportedModel
from ..engine.inference.free_text import MASK
from ..engine.runs.loop import run_stage
from ..engine.runs.results import finished_stage, read_frame
from ..engine.text.lexicon import load_lexicon
from ..engine.text.pattern import NAME, PROFESSION, PRONOUN, VERB, Pattern
from .ours import OwnRun, with_open_model
from .shapes import Measured
from .subject import OF_PAPERS, Measurement, Subject
from .system import PAPER, Answers, Choice, Items
from .torch_models import Loop

_VARIANT = Variant.ORIGINAL


class Pairs(Items[int]):
    """Pairs of the bundled lexicon, by their numbers."""

    @classmethod
    def drawn(cls, n: int) -> "Pairs":
        """Random pairs, the same first ones for every number."""
        order = np.random.default_rng(0).permutation(load_lexicon().n_pairs)
        return cls(tuple(order[:n].tolist()))

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(sorted(load_variant(_VARIANT).scored, key=lambda pattern: pattern.name))

    def words(self) -> list[dict[str, str]]:
        lexicon = load_lexicon()
        fillers = pair_fillers(lexicon, Coreference.PRONOUN, 0)
        places = [divmod(pair, len(lexicon.professions)) for pair in self.items]
        return [{slot: fillers[slot].word(*place) for slot in (NAME, PROFESSION, PRONOUN)} for place in places]

    def choosing(self) -> list[str]:
        sentence = load_variant(_VARIANT).selecting
        return [sentence.text(words, MASK) for words in self.words()]

    def repeating(self, verbs: Sequence[Sequence[str]]) -> list[str]:
        """The texts of the test: pair after pair, verb after verb, pattern after pattern."""
        return [
            pattern.text({**words, VERB: verb}, MASK)
            for words, own in zip(self.words(), verbs, strict=True)
            for verb in own
            for pattern in self.patterns
        ]


class PairLoop(Loop[Pairs]):
    """Both steps of the test."""

    def run(self, work: Pairs, choice: Choice) -> Answers:
        """Whether each verb is repeated, bool [pairs, ranks × patterns]."""
        verbs = np.empty((len(work), len(RANKS)), np.int64)
        for rows, logits in self.some(work.choosing(), choice):
            words = logits.index_fill(1, self._unranked, -torch.inf)
            best = words.argsort(1, descending=True)[:, [rank - 1 for rank in RANKS]]
            verbs[rows] = best.cpu().numpy()
        texts = [[self._tokenizer.convert_ids_to_tokens(int(verb)) for verb in own] for own in verbs]
        found = np.empty(len(work) * len(RANKS) * len(work.patterns), np.int64)
        for rows, logits in self.some(work.repeating(texts), choice):
            found[rows] = logits.argmax(1).cpu().numpy()
        expected = np.repeat(verbs.reshape(-1), len(work.patterns))
        answers: Answers = (found == expected).reshape(len(work), -1)
        return answers

    @cached_property
    def _unranked(self) -> torch.Tensor:
        """Special tokens, and outputs for which the tokenizer has no token."""
        without = range(len(self._tokenizer), self._model.config.vocab_size)
        return torch.tensor(sorted({*self._tokenizer.all_special_ids, *without}), device=self._device)

    def some(self, texts: Sequence[str], choice: Choice) -> Iterator[tuple[NDArray[np.int64], torch.Tensor]]:
        return self.batches(texts, choice["batch"])


class Paper(PairLoop):
    """One sentence at a time."""

    said, batched = "one sentence at a time, logits at all positions", False
    fewer = 8

    def __init__(self) -> None:
        super().__init__()
        self.name = PAPER

    def some(self, texts: Sequence[str], choice: Choice) -> Iterator[tuple[NDArray[np.int64], torch.Tensor]]:  # noqa: ARG002
        for row, logits in enumerate(self.one_by_one(texts)):
            yield np.array([row]), logits[None]


class Own(OwnRun):
    """Its two stages: the choice of the verbs, and the test."""

    def run(self, work: Items[int], choice: Choice) -> Answers:  # noqa: ARG002
        with TemporaryDirectory() as folder:
            run, acts = Path(folder) / "run", _acts(self.exported, work.items)
            run_stage(with_open_model(acts, self.model.models.reference), run, self.execution)
            chosen = read_frame(run, finished_stage(run, Acts.name), ACTS_FILE)
            run_stage(with_open_model(_repetitions(acts, chosen), self.model), run, self.execution)
            items = pl.read_parquet(run / ITEMS_FILE, columns=["pair", "rank", "pattern", "repeated"])
        answers: Answers = items.sort("pair", "rank", "pattern")["repeated"].to_numpy().reshape(len(work), -1)
        return answers[np.argsort(np.argsort(work.items))]


def _acts(exported: ExportedModel, pairs: Sequence[int]) -> Acts:
    acts = Acts.plan(exported, load_lexicon(), load_variant(_VARIANT).selecting)
    return replace(acts, pairs=np.sort(np.array(pairs, np.int64)))


def _repetitions(acts: Acts, chosen: pl.DataFrame) -> Repetitions:
    return Repetitions(acts.exported, acts, chosen, {_VARIANT: load_variant(_VARIANT)})


def _stage(exported: ExportedModel, pairs: Sequence[int]) -> Repetitions:
    return _repetitions(_acts(exported, pairs), pl.DataFrame())


def _measurements(_measured: Measured, _path: Path | None) -> list[Measurement]:
    own = Own("gh22 --variant original", _stage, ())
    return [Measurement([Paper(), PairLoop(), PairLoop(row_alone=True), own], Pairs.drawn)]


SUBJECT = Subject("gh22", "pairs", _measurements, replace(OF_PAPERS, tried=8, fewest=8))  # a pair is 33 sentences
