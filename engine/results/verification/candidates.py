"""Candidates of a selection that were not selected: does the model really not repeat them?

A selection keeps, of each pair, the repeating verbs with the smallest keys, at most `--max-verbs`. So a verb that was
not selected must not be repeated, except where the pair is full and the verb's key comes after those that are kept.
Such verbs say nothing and are not drawn.
"""

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...choices import Coreference, VerbConvention
from ...errors import InputError
from ...experiments.negation.runs import SelectionRun
from ...experiments.negation.select import Selection, Settings
from ...experiments.negation.whole_words import WholeWordSelection, plan_selection
from ...inference.exported import ExportedModel
from ...runs.record import StageRecord, differences
from ...text.lexicon import Lexicon
from ...text.patterns import PatternSet
from ...text.slots import NAME, PROFESSION, VERB
from .agreement import Recorded
from .asked import Vocabularies, was_exact


def plan_again(record: StageRecord, exported: ExportedModel, lexicon: Lexicon) -> Selection:
    """The selection as its run has recorded it; of one with verbs of several tokens, that among mono-token verbs.

    Args:
        record: The stage's entry in run.json.
        exported: The model.
        lexicon: The words.

    Raises:
        InputError: It is not the run's model, or run.json contradicts itself.
    """
    identity = record.identity
    settings = Settings(
        seed=identity["seed"],
        pairs=identity["pairs"],
        max_verbs=identity["max verbs"],
        coreference=Coreference(identity["coreference"]),
        verbs=VerbConvention(identity["verbs"]),
        lazy=identity["lazy"],
    )
    stage = plan_selection(exported, lexicon, PatternSet.from_json(record.metadata["pattern set"]), settings)
    known, planned = (
        {key: value for key, value in own.items() if not key.startswith("pairs per part")}
        for own in (identity, stage.identity)
    )
    if other := differences(known, planned):
        raise InputError(f"the selection that run.json describes has {other}")
    return stage.single if isinstance(stage, WholeWordSelection) else stage


@dataclass(frozen=True, eq=False)
class Unselected:
    """The candidates that were not selected though they would have been if their verb were repeated.

    Attributes:
        stage: The selection.
        kept: Words of name and profession → the verbs that are kept.
        is_exact: Whether the reference model made all decisions.
    """

    stage: Selection
    kept: dict[tuple[str, str], list[str]]
    is_exact: bool

    @classmethod
    def of(cls, stage: Selection, run: SelectionRun) -> "Unselected":
        """Those of a finished selection."""
        kept: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name, profession, verb in run.triplets.select("name", "profession", "verb").iter_rows():
            kept[name, profession].append(verb)
        return cls(stage, dict(kept), was_exact(run))

    def drawn(self, sample: int, seed: int) -> list[Recorded]:
        """A random sample: a random verb of each random pair in turn, so that few pairs are looked at twice."""
        random, words = np.random.default_rng(seed), Vocabularies.of(self.stage.exported)
        waiting: deque[tuple[int, list[int] | None]] = deque(
            (pair, None) for pair in random.permutation(self.stage.grid.pairs).tolist()
        )
        found: list[Recorded] = []
        while waiting and len(found) < sample:
            pair, left = waiting.popleft()
            verbs = random.permutation(self._telling(pair)).tolist() if left is None else left
            if verbs:
                found.append(self._recorded(pair, verbs.pop(), words))
                waiting.append((pair, verbs))
        return found

    def _words(self, pair: int) -> dict[str, str]:
        """Slot → the pair's filler."""
        name, profession = divmod(pair, self.stage.grid.professions)
        return {slot: filler.word(name, profession) for slot, filler in self.stage.fillers.items()}

    def _telling(self, pair: int) -> NDArray[np.int64]:
        """The verbs of a pair that were not selected and would have been if they were repeated; in the grid."""
        words, stage = self._words(pair), self.stage
        kept = self.kept.get((words[NAME], words[PROFESSION]), [])
        name, profession = np.divmod(np.array([pair]), stage.grid.professions)
        [order] = stage.verb_order(name, profession)
        is_kept = np.isin(np.array(stage.lexicon.verbs, object)[stage.verb[order]].astype(str), kept)
        last = len(order)
        if len(kept) >= stage.settings.max_verbs:
            last = int(np.flatnonzero(is_kept).max(initial=-1)) + 1
        telling: NDArray[np.int64] = order[:last][~is_kept[:last]]
        return telling

    def _recorded(self, pair: int, verb: int, vocabularies: Vocabularies) -> Recorded:
        stage, words = self.stage, self._words(pair)
        text, pattern = stage.lexicon.verbs[int(stage.verb[verb])], stage.patterns.selecting
        sentence = pattern.text({**words, VERB: text}, stage.exported.mask_token)
        return Recorded(
            name=f"{words[NAME]}, {words[PROFESSION]}, {text}",
            text=sentence,
            tokens=vocabularies.tokens(sentence, [pattern.mask.spell(form) for form in stage.lexicon.accepted(text)]),
            is_first=False,
            is_exact=self.is_exact,
        )
