"""Which sentences of texts hold a negation cue? Hossain et al. (2020), section 4, `negengine cues`.

A part is a range of lines of one text, read where it lies. The detector and the list of words judge every sentence.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import polars as pl

from ...basics.choices import Task
from ...basics.errors import InputError
from ...basics.option import Opening
from ...inference.exported import ExportedModel
from ...library.again import Draw, Sample
from ...library.recount import Recount
from ...library.run import Run
from ...library.sentences import CORRECT
from ...runs.masked_stages import ExportedStage, description, fp32_session
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult, changed
from ...views import Table
from ..experiment import Experiment, Option
from ..finished_run import SummaryRun
from ..items import ALL, ITEMS_FILE, SEPARATOR, SUMMARY_FILE, joined, model_identity
from .cue_detector import CueDetector, Window, WordEncoder, encoder_of
from .cue_texts import TextFile, split_sentences, split_words
from .cue_views import (
    ITEMS,
    MODEL,
    SHARE,
    WORDS,
    CueShares,
    cue_share,
    cue_table,
    paper_shares,
    recounts,
    sentences_of,
    share_table,
    summarise,
)
from .cue_views import sections as report_sections
from .cue_words import find_cues

TEXTS = "texts"  # key of the metadata


@dataclass(frozen=True, eq=False)
class Prepared:
    """A part that is ready for the detector."""

    places: Sequence[tuple[int, int]]  # line of each sentence, and its number in that line; both from 1
    sentences: Sequence[str]  # as they stand in the text
    words: Sequence[Sequence[str]]
    encoded: Sequence[Sequence[Window]]


@dataclass(frozen=True, eq=False)
class CueStage(ExportedStage[CueDetector, Prepared]):
    """A detector and the texts that it reads."""

    name: ClassVar[str] = "cues"
    rows_file: ClassVar[str | None] = ITEMS_FILE

    exported: ExportedModel
    texts: tuple[TextFile, ...]

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **model_identity(self.exported),
            "data sha256": [text.sha256 for text in self.texts],
            "parts": [len(text.parts) for text in self.texts],
        }

    @property
    def metadata(self) -> dict[str, Any]:
        return {**model_metadata(self.exported), TEXTS: [text.name for text in self.texts]}

    def files(self) -> Mapping[str, Path]:
        return {**super().files(), **{f"text {t}": text.path for t, text in enumerate(self.texts)}}

    def with_files(self, places: Mapping[str, Path]) -> Self:
        texts = tuple(text.at(places[f"text {t}"]) for t, text in enumerate(self.texts))
        return changed(super().with_files(places), texts=texts)

    @cached_property
    def parts(self) -> tuple[tuple[int, int], ...]:
        return tuple((t, number) for t, text in enumerate(self.texts) for number in range(len(text.parts)))

    @property
    def sizes(self) -> Sequence[int]:
        return [self.texts[t].parts[number].lines for t, number in self.parts]

    @property
    def unit(self) -> str:
        return "lines"

    @cached_property
    def encoder(self) -> WordEncoder:
        return encoder_of(self.exported)

    def check(self, say: Callable[[str], None]) -> None:
        say(f"{sum(self.sizes):,} lines in {len(self.parts):,} parts")

    def open(self, options: Opening) -> CueDetector:
        device, session = fp32_session(options)
        return CueDetector(self.exported, device, **session)

    def describe(self, model: CueDetector) -> Mapping[str, Any]:
        return {**description(self.exported, model.model), "precision": model.model.precision}

    def prepare(self, number: int) -> Prepared:
        t, own = self.parts[number]
        places, sentences = [], []
        for line, n in self.texts[t].read(own):
            for place, sentence in enumerate(split_sentences(line), 1):
                places.append((n, place))
                sentences.append(sentence)
        words = [split_words(sentence) for sentence in sentences]
        return Prepared(places, sentences, words, self.encoder.encode(words))

    def decide(self, model: CueDetector, number: int, prepared: Prepared | None, advance: Advance) -> PartResult:
        """The rows of items.parquet; the counts say how many sentences each text has."""
        part = prepared or self.prepare(number)
        t, own = self.parts[number]
        lines, windows = self.texts[t].parts[own].lines, sum(map(len, part.encoded))
        done = said = 0
        alone = threading.Lock()

        def ran(count: int) -> None:
            nonlocal done, said
            with alone:
                done += count
                now = lines * done // windows
                advance(now - said, count)
                said = now

        found = model.find_in(part.words, part.encoded, ran)
        advance(lines - said, 0)
        rows = []
        for (line, place), sentence, words, cues in zip(part.places, part.sentences, part.words, found, strict=True):
            listed = [(cue.word, cue.kind) for cue in find_cues(sentence)]
            marked = [(cue.name(words), cue.kind) for cue in cues]
            for detector, named in ((WORDS, listed), (MODEL, marked)):
                if named:
                    names, kinds = (joined(texts) for texts in zip(*named, strict=True))
                    rows.append((self.texts[t].name, detector, f"{line}.{place}", line, sentence, names, kinds))
        items = pl.DataFrame(rows, schema=ITEMS, orient="row")
        return PartResult(items, {sentences_of(t): len(part.sentences)})

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        return {ITEMS_FILE: parts.rows, SUMMARY_FILE: summarise(parts.rows, parts.metadata[TEXTS], parts.counts)}


@dataclass(frozen=True, eq=False)
class CuesRun(SummaryRun):
    """The cues of texts."""

    stage: ClassVar[str] = CueStage.name
    clusters: ClassVar[str] = "texts"

    def tables(self) -> list[Table]:
        return [share_table(self.summary, self.model_name), cue_table(self.counts(), self.model_name)]

    def main_tables(self) -> list[Table]:
        return self.tables()[:1]

    def remarks(self) -> list[str]:
        return [paper_shares()]

    def counts(self) -> dict[str, Counter[str]]:
        """Detector → how often it found each cue."""
        found = (
            self.items.lazy()
            .select("condition", pl.col("cues").str.split(SEPARATOR))
            .explode("cues")
            .group_by("condition", "cues")
            .len()
            .collect()
        )
        counted: dict[str, Counter[str]] = {WORDS: Counter(), MODEL: Counter()}
        for detector, cue, n in found.iter_rows():
            counted[detector][cue] = n
        return counted

    def methods(self, test: str) -> str:
        shares = {
            detector: ", ".join(
                f"{row['dataset']} {100 * row['value']:.2f} %"
                for row in self.summary.filter(
                    (pl.col("condition") == detector) & (pl.col("split") == ALL) & (pl.col("metric") == SHARE)
                ).to_dicts()
            )
            for detector in (MODEL, WORDS)
        }
        return (
            f"We counted the sentences that contain a negation cue{f' (as in {test})' if test else ''} with the "
            f"detector {self.model_name}: {shares[MODEL]}. By a list of words: {shares[WORDS]}."
        )

    def outcomes(self) -> pl.DataFrame:
        """Always an `InputError`: sentences without a cue are not kept, so runs cannot be compared."""
        return Run.outcomes(self)

    def sentence_rows(self) -> pl.LazyFrame:
        """One row for each sentence with a cue and each detector (`condition`) that finds one; `answer` has its cues.

        A row fails if the other detector finds no cue here, so `show RUN --failed` shows where the detectors disagree.
        """
        return self.items.lazy().select(
            "item",
            "condition",
            "sentence",
            expected=pl.lit(None, pl.String),
            answer="cues",
            **{CORRECT: pl.lit(None, pl.Boolean)},
            failed=pl.len().over("dataset", "item") == 1,
            rank=pl.lit(None, pl.Int32),
            logprob=pl.lit(None, pl.Float32),
            **{name: name for name in ("dataset", "line", "kinds")},
        )

    def again(self, draw: Draw) -> Iterator[Sample]:
        raise InputError(f"the cues that {draw.exported.name} finds are not decided again")

    def recounts(self) -> Iterator[Recount]:
        return recounts(self.items, self.summary)


@dataclass(frozen=True, eq=False)
class Cues(Experiment):
    """Count the sentences of texts that contain a negation cue.

    A list of words finds the cues. With --detector, a trained model finds them too, and the tables show both.
    """

    name = "cues"
    title = "Negation cues in texts"
    asks = "Which sentences of the texts hold a negation cue?"
    references = "negengine.engine.experiments.cues:references.toml"
    task = Task.TOKEN_CLASSIFICATION
    example = "negengine cues corpus.txt --detector detector"
    model_option = "detector"
    model_help = "What finds cues: the list of words alone, or also a model exported with --task token-classification."
    no_model = "words"
    results = CuesRun
    stages = (CueStage,)

    files: Annotated[
        str | Path | Sequence[str | Path],
        Option("Texts in UTF-8; also packed, as .gz.", metavar="FILE...", kind=list[Path], is_file=True),
    ]

    def __post_init__(self) -> None:
        if not self.paths:
            raise InputError("no text is given; give one file or more")
        if twice := next((path for path in self.paths if self.paths.count(path) > 1), None):
            raise InputError(f"{twice}: this text is given twice; give it once")

    @cached_property
    def paths(self) -> list[Path]:
        return [Path(file) for file in ([self.files] if isinstance(self.files, str | Path) else self.files)]

    def stage(self, exported: ExportedModel) -> CueStage:
        encoder_of(exported)  # refuses another model
        return CueStage(exported, tuple(TextFile.scan(path) for path in self.paths))

    def without_model(self) -> CueShares:
        return CueShares([cue_share(path) for path in self.paths])

    sections = staticmethod(report_sections)


cues = Cues.function()
