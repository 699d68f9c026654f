"""Which sentences of texts hold a negation cue? Hossain et al. (2020), section 4, `negengine cues`.

The detector and the list of words judge every sentence, so a share has no interval. Split: a kind of cue (Table 1).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import polars as pl

from ...basics.choices import Task
from ...basics.errors import InputError
from ...basics.numerals import percent
from ...basics.option import Opening
from ...inference.exported import ExportedModel
from ...library.sentences import CORRECT
from ...library.shown import Shown
from ...requests.items import ALL, ITEMS_FILE, SUMMARY_FILE, model_identity
from ...requests.summary import Row, frame
from ...runs.masked_stages import ExportedStage, description, fp32_session
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult, changed
from ...text.text_lines import stream_lines
from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ...views.labels import numbered
from ..experiment import Experiment, Option
from ..finished_run import SummaryRun, published
from .cue_detector import CueDetector, Window, WordEncoder, encoder_of
from .cue_texts import TextFile, split_sentences, split_words
from .cue_words import Kind, find_cues

TEXTS = "texts"  # key of the metadata
WORDS, MODEL = DETECTORS = ("words", "model")
SHARE = "share"
ITEMS: dict[str, Any] = {
    **dict.fromkeys(("dataset", "condition", "item"), pl.String),
    "line": pl.Int64,
    "sentence": pl.String,
    **dict.fromkeys(("cues", "kinds"), pl.List(pl.String)),
}
_KINDS = tuple(map(str, Kind))
_SHARES = [Column(f"{name}, %", name, decimals=2, scale=100, unit="%") for name in (SHARE, *_KINDS)]
_TITLE = "Sentences with a negation cue"
_SENTENCES = "sentences of text {}"  # the name of a count, by the text's number
_SHOWN = 20  # cues of a detector in the table


Prepared = tuple[list[tuple[int, int, str]], list[list[str]], list[list[Window]]]
"""A part's sentences, each with its line and its number in that line, both from 1; their words, and their windows."""


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
            "parts": [len(text.sizes) for text in self.texts],
        }

    @property
    def row_columns(self) -> dict[str, Any]:
        return dict(ITEMS)

    @property
    def metadata(self) -> dict[str, Any]:
        return {**model_metadata(self.exported), TEXTS: [text.name for text in self.texts]}

    def files(self) -> Mapping[str, Path]:
        return {**super().files(), **{f"text {t}": text.folder for t, text in enumerate(self.texts)}}

    def with_files(self, places: Mapping[str, Path]) -> Self:
        texts = tuple(text.at(places[f"text {t}"]) for t, text in enumerate(self.texts))
        return changed(super().with_files(places), texts=texts)

    @cached_property
    def parts(self) -> tuple[tuple[int, int], ...]:
        return tuple((t, number) for t, text in enumerate(self.texts) for number in range(len(text.sizes)))

    @property
    def sizes(self) -> Sequence[int]:
        return [self.texts[t].sizes[number] for t, number in self.parts]

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
        lines = self.texts[t].read(own)
        sentences = [(line, *one) for text, line in lines for one in enumerate(split_sentences(text), 1)]
        words = [split_words(sentence) for *_, sentence in sentences]
        return sentences, words, self.encoder.encode(words)

    def decide(self, model: CueDetector, number: int, prepared: Prepared | None, advance: Advance) -> PartResult:
        """The rows of items.parquet; the counts say how many sentences each text has."""
        sentences, every, encoded = prepared or self.prepare(number)
        t, own = self.parts[number]
        found = model.find_in(every, encoded, lambda windows: advance(0, windows))
        advance(self.texts[t].sizes[own], 0)
        rows = []
        for (line, place, sentence), words, cues in zip(sentences, every, found, strict=True):
            listed = [(cue.word, cue.kind) for cue in find_cues(sentence)]
            marked = [(cue.name(words), cue.kind) for cue in cues]
            for detector, named in ((WORDS, listed), (MODEL, marked)):
                if named:
                    names, kinds = map(list, zip(*named, strict=True))
                    rows.append((self.texts[t].name, detector, f"{line}.{place}", line, sentence, names, kinds))
        items = pl.DataFrame(rows, schema=ITEMS, orient="row")
        return PartResult(items, {_SENTENCES.format(t + 1): len(sentences)})

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        has = {kind: pl.col("kinds").list.contains(kind) for kind in _KINDS}
        found = parts.rows.select("dataset", "condition", pl.lit(1).alias(ALL), **has).group_by("dataset", "condition")
        by_cell = found.agg(pl.col(ALL, *_KINDS).sum()).collect(engine="streaming")
        known = {(row["dataset"], row["condition"]): row for row in by_cell.to_dicts()}
        rows = []
        for number, text in enumerate(parts.metadata[TEXTS]):
            n = int(parts.counts[_SENTENCES.format(number + 1)])
            for detector in DETECTORS:
                own = known.get((text, detector), {})
                shares = {split: own.get(split, 0) / n for split in (ALL, *_KINDS)}
                rows += [Row(text, detector, split, SHARE, share, None, None, n) for split, share in shares.items()]
        return {ITEMS_FILE: parts.rows, SUMMARY_FILE: frame(rows)}


@dataclass(frozen=True, eq=False)
class CuesRun(SummaryRun):
    """The cues of texts."""

    stage: ClassVar[str] = CueStage.name
    clusters: ClassVar[str] = "texts"

    @property
    def conditions(self) -> dict[str, Any]:
        return {"data sha256": self.record.identity["data sha256"]}

    def tables(self) -> list[Table]:
        """Of each text the shares of its sentences, by either detector; the most frequent cues of all texts."""
        detector = pl.col("condition").replace(DETECTORS, numbered(["list of words", self.model_name]))
        index = ["dataset", "condition", "n"]
        shares = self.summary.pivot(on="split", index=index, values="value", aggregate_function="first").select(
            text="dataset", detector=detector, sentences="n", share=ALL, **{kind: kind for kind in _KINDS}
        )
        each = self.items.lazy().select("condition", cue="cues").explode("cue")
        counts = each.group_by("condition", "cue").agg(count=pl.len().cast(pl.Int64)).collect()
        counts = counts.sort(pl.col("condition").cast(pl.Enum(DETECTORS)), -pl.col("count"), "cue")
        first = counts.group_by("condition", maintain_order=True).head(_SHOWN).with_columns(detector=detector)
        names = [Column(name, name) for name in ("text", "detector", "sentences", "cue", "count")]
        return [
            Table(_TITLE, shares, [*names[:3], *_SHARES]),
            Table("The most frequent cues", first.select("detector", "cue", "count"), [names[1], *names[3:]]),
        ]

    def main_tables(self) -> list[Table]:
        return self.tables()[:1]

    def remarks(self) -> list[str]:
        shares = ", ".join(f"{name} {value:.2f} %" for name, value in published("cues")["shares"].items())
        return [f"sentences with a cue in the paper's Table 1: {shares}"]

    def methods(self, test: str) -> str:
        shares = {
            detector: ", ".join(
                f"{row['dataset']} {percent(row['value'], 2)} % (n = {row['n']:,})"
                for row in self.summary.filter(condition=detector, split=ALL, metric=SHARE).to_dicts()
            )
            for detector in (MODEL, WORDS)
        }
        return (
            f"We counted the sentences that contain a negation cue{f' (as in {test})' if test else ''} with the "
            f"detector {self.model_name}: {shares[MODEL]}. By a list of words: {shares[WORDS]}."
        )

    def sentence_rows(self) -> pl.LazyFrame:
        """One row for each sentence with a cue and each detector (`condition`) that finds one; `answer` has its cues.

        A row fails if the other detector finds no cue here, so `show RUN --failed` shows where the detectors disagree.
        """
        return self.items.lazy().select(
            "item",
            "condition",
            "sentence",
            expected=pl.lit(None, pl.String),
            answer=pl.col("cues").list.join(", "),
            **{CORRECT: pl.lit(None, pl.Boolean)},
            failed=pl.len().over("dataset", "item") == 1,
            rank=pl.lit(None, pl.Int32),
            logprob=pl.lit(None, pl.Float32),
            **{name: name for name in ("dataset", "line", "cues", "kinds")},
        )


@dataclass(frozen=True, eq=False)
class CueShares(Shown):
    """How common negation is in several text files, by the list of words; `shares` are those of `cue_share`."""

    shares: Sequence[dict[str, Any]]

    def tables(self) -> list[Table]:
        names = ("file", "sentences", "negated", "share")
        rows = [(*map(own.get, names), *(k / own["sentences"] for k in own["by_kind"].values())) for own in self.shares]
        schema = {"text": pl.String, "sentences": pl.Int64, "negated": pl.Int64}
        schema |= dict.fromkeys((SHARE, *_KINDS), pl.Float64)
        heads = {"text": "text", "sentences": "sentences", "with a cue": "negated"}
        columns = [*(Column(heading, name) for heading, name in heads.items()), *_SHARES]
        return [Table(_TITLE, pl.DataFrame(rows, schema=schema, orient="row"), columns)]

    def document(self) -> Sequence[dict[str, Any]]:
        return self.shares


def cue_share(path: Path) -> dict[str, Any]:
    """How common negation is in a UTF-8 text file (also `.gz`); a line break ends a sentence. Shares are fractions."""
    sentences = negated = 0
    kinds: Counter[Kind] = Counter()
    words: Counter[str] = Counter()
    for line, _ in stream_lines(path, "give a text file"):
        for sentence in split_sentences(line):
            cues = find_cues(sentence)
            sentences += 1
            negated += bool(cues)
            kinds.update({cue.kind for cue in cues})
            words.update(cue.word for cue in cues)
    if not sentences:
        raise InputError(f"{path}:1: no sentence in this file; give a text with one sentence or paragraph per line")
    return {
        "file": str(path),
        "share": negated / sentences,
        "sentences": sentences,
        "negated": negated,
        "by_kind": {str(kind): kinds[kind] for kind in Kind},
        "cues": dict(sorted(words.items(), key=lambda item: (-item[1], item[0]))),
    }


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
    reads = "texts"
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

    @cached_property
    def texts(self) -> tuple[TextFile, ...]:
        return tuple(TextFile.scan(path) for path in self.paths)

    def stage(self, exported: ExportedModel) -> CueStage:
        encoder_of(exported)  # refuses another model
        return CueStage(exported, self.texts)

    def without_model(self) -> CueShares:
        return CueShares([cue_share(path) for path in self.paths])

    @staticmethod
    def sections(run: CuesRun) -> list[Section]:
        shares, cues = run.tables()
        data = shares.frame.select("text", "detector", n="sentences", value=pl.col("share") * 100)
        figure = Figure(
            "shares",
            Points(
                data, x="value", y="text", series="detector", title="sentences with a negation cue", unit="%", n="n"
            ),
            shares,
            "Points for the share of sentences with a negation cue, for each text and each detector.",
            "Sentences with a negation cue, of all sentences of a text.",
        )
        said = ["The list of words and the trained detector read the same sentences."]
        return [
            Section("How many sentences have a negation cue?", said, [figure], notes=run.remarks()),
            Section("Which cues are frequent?", tables=[cues]),
        ]


cues = Cues.function()
