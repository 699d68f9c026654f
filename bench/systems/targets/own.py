"""`negengine probe` without its files: it reads and checks a table, and makes the rows of results."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from ....engine.experiments.probe.probe_items import LOGPROB
from ....engine.experiments.probe.probe_sentences import Columns
from ....engine.experiments.probe.probe_stage import OwnStimuli
from ....engine.experiments.vocabulary import Ranked
from ....engine.runs.executors import overlap
from ....engine.runs.part import EncodedPart
from ....engine.runs.stage import PartResult
from ....engine.text.user_table import open_table
from ..own import Fp32
from ..system import Answers, Choice
from . import Stimuli


class Own(Fp32[Stimuli]):
    """Our engine, fp32."""

    def run(self, work: Stimuli, choice: Choice) -> Answers:  # noqa: ARG002
        with TemporaryDirectory() as folder:
            path = Path(folder) / "stimuli.csv"
            work.table.write_csv(path)
            return self._ask(path, Columns("sentence", tuple(work.targets)))

    def _ask(self, path: Path, columns: Columns) -> Answers:
        stage = OwnStimuli(self._exported, open_table(path).scan(columns.texts), columns, Ranked())
        found: dict[int, pl.DataFrame] = {}

        def decide(number: int, prepared: Any) -> pl.DataFrame:
            return stage.decide(self._model, number, prepared, lambda *_: None).rows

        def finish(number: int, rows: pl.DataFrame) -> None:
            EncodedPart.of(PartResult(rows))
            found[number] = rows

        overlap(range(len(stage.sizes)), stage.prepare, decide, finish)
        logprobs = pl.concat([found[number] for number in sorted(found)])[LOGPROB].to_numpy()
        scores: Answers = logprobs.reshape(-1, len(columns.targets)).astype(np.float64)
        return scores
