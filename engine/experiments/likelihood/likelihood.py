"""How probable are whole sentences? `negengine likelihood`: options and results.

A minimal pair is a choice between two sentences. The perplexity is exp(-sum of log-likelihoods / sum of tokens), of all
sentences of a split; for a masked model the pseudo-perplexity of Salazar et al. (2020), section 2.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from sys import float_info
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import polars as pl

from ...basics.errors import InputError
from ...basics.frames import scan_frame
from ...basics.numerals import fixed, percent
from ...basics.printable import counted
from ...inference.again import Draw, Sample
from ...inference.exported import ExportedModel
from ...inference.spans import beginnings
from ...requests.items import ALL, ITEMS_FILE, by_split
from ...requests.metrics import RATES, SUMS
from ...requests.span import TOKENS, WORDS, Scored, Span
from ...requests.stage import RequestStage
from ...requests.summary import Cell, Row
from ...runs.stage import Files, FinishedParts, changed
from ...text.table import FILE_NAME, TableLike
from ...text.table import Table as UserTable
from ...views import Column, Section, Table
from ..data_sets.sources import published_accuracies, sources
from ..experiment import BOS, Option
from ..own_table import COLUMNS, FILE, ROW, find_column, is_off, needed_columns
from ..span_runs import ACCURACIES, CHANCE, GROUPS_SHOWN, JOINER, METHOD, WINDOWS, SpanRun, method_of
from ..table_requests import CLUSTERS, GROUPS, SKIP_BAD, TableRequested, column
from ..view import PERCENT, Values, View
from .likelihood_columns import BAD, GOOD, SIDES, Columns, read_published

TOKENS_FILE, WORDS_FILE = "tokens.parquet", "words.parquet"
LISTS = {TOKENS: TOKENS_FILE, WORDS: WORDS_FILE}
_LOGPROB = pl.col("logprob")
MEANS = {
    "log_likelihood": _LOGPROB,
    "per_token": _LOGPROB / pl.col("tokens"),
    "per_word": pl.when(pl.col("words") > 0).then(pl.col("word_logprob") / pl.col("words")),
    "per_character": _LOGPROB / pl.col("characters"),
}
PERPLEXITY = "perplexity"
PUBLISHED = "published accuracies"  # a key of the metadata: see `read_published`
_LARGEST = log(float_info.max)  # a perplexity beyond exp of that is not a number
_CHANCE = 0.5  # of a model that guesses
_DRAWN = "\0drawn"  # no column has this name
_ACCURACY, _MEAN = "accuracy", "per_token"
_RIGHT = replace(
    ACCURACIES,
    caption=f"Accuracy in each group; the dashed line is chance, {100 * _CHANCE:.0f} %.",
    guide=100 * _CHANCE,
)
_LOGARITHM: Mapping[str, Any] = {"decimals": 2, "unit": "natural logarithm"}
_PROBABLE = replace(
    ACCURACIES,
    metric=_MEAN,
    title="log-probability per token",
    caption="Log-probability per token in each group.",
    zero=False,
    scale=1,
    unit=_LOGARITHM["unit"],
)
_SENTENCE = ("sentence", "text")
_BLIMP = "blimp"  # whose tables are also read from a user's own folder
_OBVIOUS = {GOOD: ("sentence_good", "good"), BAD: ("sentence_bad", "bad")}
# The columns of published minimal pairs: the good and the bad sentence, the groups, the cluster (what comes from one
# template). A table that has them all is read so, without any option.
_PUBLISHED = (
    ("sentence_good", "sentence_bad", ("field", "linguistics_term", "UID"), "UID"),  # BLiMP
    ("sentence_good", "sentence_bad", ("phenomenon", "UID"), "UID"),  # ZhoBLiMP
    ("sentence_good", "sentence_bad", ("phenomenon", "paradigm", FILE_NAME), FILE_NAME),  # SLING: 12 files are “Plural”
    ("good_sentence", "bad_sentence", ("phenomenon", "paradigm"), "paradigm"),  # JBLiMP
    ("good_sentence", "bad_sentence", ("phenomenon", FILE_NAME), FILE_NAME),  # TurBLiMP: 16 files of 15 phenomena
    ("source_sentence", "target_sentence", ("level", "phenomenon", "PID"), None),  # RuBLiMP, from corpora
    ("sen", "wrong_sen", ("grammatical_feature",), None),  # MultiBLiMP, from corpora
)
# BLiMP's files have both spellings of a field, and a 13th term that its paper and results count as one of the 12.
_SPELLED = {
    "field": {"syntax/semantics": "syntax_semantics"},
    "linguistics_term": {"s-selection": "argument_structure"},
}


@dataclass(frozen=True, eq=False)
class LikelihoodRun(SpanRun):
    """A finished run; `items` has one row for each sentence."""

    @property
    def metrics(self) -> Sequence[str]:  # type: ignore[override]  # those of other runs are always the same
        return list(Likelihood.metrics_of(self.record.metadata))

    @property
    def conditions(self) -> dict[str, Any]:
        """Accuracies on the same pairs can be compared, whatever the scores are; scores only with the same ones."""
        keys = ("data sha256",) if self.columns.has_pairs else ("data sha256", "scores", "method")
        scores = {key: self.record.identity.get(key) for key in keys}
        return {**scores, "prefix": self.columns.prefix, "joiner": self.columns.joiner}

    @property
    def used(self) -> Collection[str]:
        blimp = [_BLIMP] if {*_PUBLISHED[0][2]} <= {*self.columns.groups} else []
        return [*super().used, *blimp]

    @property
    def score(self) -> str:
        return super().score if self.columns.has_pairs else ""

    def again(self, draw: Draw) -> Iterator[Sample]:
        for sample in super().again(draw):
            scored = cast("Sequence[Scored]", sample.items)
            lists = {name: self._recorded(name, [own.row for own in scored]) for name in self.span.each}
            each = ({name: own[i] for name, own in lists.items()} for i in range(len(scored)))
            yield replace(sample, items=[replace(own, lists=its) for own, its in zip(scored, each, strict=True)])

    def _recorded(self, name: str, sentences: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
        """The rows of a list of tokens or words for each of some sentences."""
        rows = scan_frame(self.folder / LISTS[name])
        kinds = {key: kind for key, kind in rows.collect_schema().items() if key in {FILE, ROW, "role"}}
        columns = {key: [own[key] for own in sentences] for key in kinds}
        asked = pl.LazyFrame(columns, kinds).with_row_index(_DRAWN)
        found = rows.join(asked, on=[*kinds], nulls_equal=True, maintain_order="left").collect()
        by_sentence = found.partition_by(_DRAWN, as_dict=True, include_key=False)
        return [by_sentence[i,].to_dicts() if (i,) in by_sentence else [] for i in range(len(sentences))]

    def tables(self) -> list[Table]:
        """How often the good sentence is the more probable one; or means over sentences."""
        if self.columns.has_pairs:
            views = self.rates("Minimal pairs: {model}", "pairs", "good sentence")
            return [self._beside_others(view).table(self) for view in views]
        pseudo = "" if self.is_causal else "pseudo-"
        headings = (f"{pseudo}log-likelihood", "per token", "per word", "per character")
        named = zip(headings, MEANS, strict=True)
        view = View(
            "Sentences: {model}",
            ("split",),
            [
                GROUPS_SHOWN,
                Column("sentences", "n"),
                *(Values(heading, metric, interval=True, style=_LOGARITHM) for heading, metric in named),
                Values(f"{pseudo}perplexity", PERPLEXITY, style={"significant": 4}),
            ],
            notes=["means over sentences"],
        )
        return [view.table(self)]

    def remarks(self) -> list[str]:
        rows = {name: len(self.summary.filter(metric=name)) for name in (_MEAN, PERPLEXITY)}
        lost = f"{rows[_MEAN] - rows[PERPLEXITY]:,} of {rows[_MEAN]:,} perplexities are larger than a number can be"
        return [*super().remarks(), *[f"{lost} (1.8e308)"] * (rows[PERPLEXITY] < rows[_MEAN])]

    def _beside_others(self, pairs: View) -> View:
        """The accuracies beside chance, and beside those that others publish for the same pairs."""
        published: Mapping[str, Sequence[Sequence[Any]]] = self.record.metadata.get(PUBLISHED, {})
        group, rows = ("column", "split"), self.summary.filter(metric=_ACCURACY).select("column", "split")
        for model, own in published.items():
            theirs = pl.DataFrame(
                own, {**dict.fromkeys(group, pl.String), f"published {model}": pl.Float64}, orient="row"
            )
            rows = rows.join(theirs, on=group, how="left", nulls_equal=True, maintain_order="left")
        others = {CHANCE: CHANCE, **{f"published {model}": model for model in published}}
        columns = [*pairs.columns, *(Column(heading, name, **PERCENT) for name, heading in others.items())]
        notes = [f"{', '.join(published)}: published accuracies"] if published else []
        rows = rows.with_columns(pl.lit(_CHANCE).alias(CHANCE))
        return replace(pairs, rows=rows, columns=columns, notes=[*pairs.notes, *notes])

    def methods(self, test: str) -> str:
        n, how, named = int(self.items["logprob"].count()), self.told_score, self.columns.condition
        how, _, further = how.partition(",")
        scored = f"We computed the {how} of {counted(n, 'sentence')}"
        scored += " from left to right" * self.is_causal + f",{further}" * bool(further)
        scored += f" ({test})" * bool(test and not self.is_causal)
        if not self.columns.has_pairs:
            return f"{scored}. Mean per token, natural logarithm: {self.told(named, ALL, _MEAN)}.{self.columns.told}"
        return (
            f"{scored}. A pair counts as correct where its good sentence is the more probable one. Accuracy, as a "
            f"fraction: {self.told(named, ALL, _ACCURACY, digits=3)}.{self.columns.told}"
        )


@dataclass(frozen=True, eq=False)
class Likelihood(TableRequested):
    """Compute likelihoods of whole sentences, and accuracies on minimal pairs such as BLiMP and its kin.

    Masked models: --method original (Salazar and others 2020) or within-word-l2r (Kauf and Ivanova 2023).
    Causal models need no method: their log-likelihoods are exact.
    """

    name = "likelihood"
    title = "Likelihoods of sentences"
    asks = "How probable is each sentence? Of a minimal pair, is the good sentence more probable than the bad one?"
    references = "negengine.engine.experiments.likelihood:references.toml"
    example = "negengine likelihood mini sentences.csv --per-word"
    results = LikelihoodRun
    of_columns = Columns
    of_kind = Span
    unit = "sentences"
    scores: ClassVar[Mapping[str, pl.Expr]] = SUMS
    metrics: ClassVar[Mapping[str, pl.Expr]] = {**RATES, **MEANS}
    written = ("comparable",)
    figures: ClassVar[Mapping[str, Sequence[Any]]] = {}  # that others publish, once the table is read
    beside: ClassVar[Mapping[str, pl.Expr]] = MEANS

    data: Annotated[
        TableLike,
        Option(
            "CSV, TSV, JSON, Parquet or a spreadsheet; a folder of such files; or a data set, such as blimp.",
            metavar="FILE",
            kind=str,
            is_file=True,
            words=tuple(name for name, source in sources().items() if source.probe == "likelihood"),
        ),
    ]
    method: METHOD = None
    sentence: Annotated[str | None, column("The column with the sentences (default: sentence or text).")] = None
    good: Annotated[
        str | None, column("The column with the good sentence of each pair (default: sentence_good or good).")
    ] = None
    bad: Annotated[
        str | None, column("The column with the bad sentence of each pair (default: sentence_bad or bad).")
    ] = None
    pair: Annotated[
        str | None, column("If a pair is two rows: the column with the name of the pair (default: none).")
    ] = None
    acceptable: Annotated[
        str | None,
        column(
            "If a pair is two rows: the column that says which is good, by true and false or 1 and 0 (default: none)."
        ),
    ] = None
    group: GROUPS = ()
    cluster: CLUSTERS = None
    published: Annotated[
        str | Path | None,
        Option(
            "Accuracies to show beside yours: a table with a column of groups, then one for each model (default: those "
            "that come with the data set).",
            metavar="FILE",
            kind=Path,
            is_file=True,
        ),
    ] = None
    prefix: Annotated[
        str | None,
        column("A column with what stands before the sentence, which is not scored (default: prefix; '' for none)."),
    ] = None
    joiner: JOINER = None
    bos: Annotated[bool, BOS] = False
    windows: WINDOWS = False
    per_token: Annotated[bool, Option("Write tokens.parquet: the score of each token.")] = False
    per_word: Annotated[bool, Option("Write words.parquet: the score of each word.")] = False
    bow_correction: Annotated[
        bool, Option("With --per-word: a word has the probability of its own end (the space behind), causal models.")
    ] = False
    skip_bad: SKIP_BAD = False

    def kind(self, exported: ExportedModel) -> Span:
        if self.bow_correction:
            if not exported.is_causal or not self.per_word or self.windows:
                raise InputError("--bow-correction: give it for a causal model, with --per-word and without --windows")
            beginnings(exported)  # refuses a vocabulary without the space before a word
        each = tuple(name for name, wanted in ((TOKENS, self.per_token), (WORDS, self.per_word)) if wanted)
        method = method_of(exported, self.method)
        return Span(method, self.windows, self.bos, self.joiner, each, self.bow_correction)

    def stage(self, exported: ExportedModel) -> RequestStage:
        stage = super().stage(exported)
        asking = cast("Likelihood", stage.experiment)
        given = published_accuracies(self.data, self.name) if self.published is None else Path(self.published)
        columns = cast("Columns", asking.found)
        figures = read_published(given, columns.groups, asking.told) if given and columns.has_pairs else {}
        if self.published is not None and not any(figures.values()):
            raise InputError(f"--published {given}: it says nothing of the groups of {asking.data}; give one that does")
        return changed(stage, experiment=changed(asking, figures=figures))

    def metadata(self, exported: ExportedModel) -> dict[str, Any]:
        return {**super().metadata(exported), **({PUBLISHED: self.figures} if any(self.figures.values()) else {})}

    @classmethod
    def metrics_of(cls, told: Mapping[str, Any]) -> Mapping[str, pl.Expr]:
        return RATES if Columns.from_json(told[COLUMNS]).has_pairs else MEANS

    @classmethod
    def further(cls, rows: pl.DataFrame) -> Iterator[Row]:
        if rows["role"].null_count() < len(rows):
            return
        keys = ("dataset", "condition", "splits", "columns")
        own = by_split(rows.select(*keys, "logprob", "tokens").drop_nulls(["logprob", "tokens"]))
        sums = own.group_by(Cell._fields, maintain_order=True).agg(pl.all().sum(), n=pl.len())
        for *cell, logprob, tokens, n in sums.iter_rows():
            if -logprob / tokens <= _LARGEST:
                yield Row.of(Cell(*cell), PERPLEXITY, exp(-logprob / tokens), None, None, n)

    @classmethod
    def publish(cls, parts: FinishedParts) -> Files:
        files, there = dict(super().publish(parts)), parts.rows.collect_schema().names()
        side = ["role"] * Columns.from_json(parts.metadata[COLUMNS]).has_pairs
        kept = [name for name in (FILE, ROW, *side) if name in there]
        for name, file in LISTS.items():
            if name in there:
                own = parts.rows.select(*kept, name).explode(name).drop_nulls(name).unnest(name)
                files[file] = own.with_columns(surprisal=-pl.col("logprob") / np.log(2))
            elif (parts.folder / file).exists():
                files[file] = scan_frame(parts.folder / file)
        files[ITEMS_FILE] = cast("pl.LazyFrame", files[ITEMS_FILE]).drop(*LISTS, strict=False)
        return files

    def columns(self, table: UserTable) -> Columns:
        """The columns that are named, else those with the obvious names; `InputError`: options contradict."""
        good, bad, sentence, pair, acceptable = self.good, self.bad, self.sentence, self.pair, self.acceptable
        if (pair is None) != (acceptable is None):
            missing = "--pair COLUMN" if pair is None else "--acceptable COLUMN (which sentence is the good one)"
            raise InputError(f"pairs in two rows need both --pair and --acceptable: give {missing}")
        in_one_row = good is not None or bad is not None
        in_rows = sentence is not None or pair is not None
        if in_one_row and in_rows:
            raise InputError("--good and --bad are for pairs in one row: remove --sentence, --pair and --acceptable")
        names: dict[str, Sequence[str]] = dict(_OBVIOUS)
        published: tuple[Sequence[str], str | None] = ((), None)
        known = {*table.columns, FILE_NAME} if table.is_file_name(FILE_NAME) else {*table.columns}
        for its_good, its_bad, its_groups, its_cluster in _PUBLISHED:
            if not in_rows and {its_good, its_bad, *its_groups} - {FILE_NAME} <= known:
                names = {GOOD: [its_good], BAD: [its_bad]}
                own = tuple(name for name in its_groups if name in known)  # one file alone is not a group
                published = own, own[-1] if its_cluster == FILE_NAME not in known else its_cluster
                break
        two = [find_column(table, f"--{side}", None, names[side]) for side in SIDES]
        if not in_rows and (in_one_row or all(two)):
            asked = [("--good", good, names[GOOD]), ("--bad", bad, names[BAD])]
        else:
            keys = {"--pair": pair, "--acceptable": acceptable}
            asked = [("--sentence", sentence, _SENTENCE), *((own, name, [name]) for own, name in keys.items() if name)]
        texts = {option[2:]: name for (option, _, _), name in zip(asked, needed_columns(table, *asked), strict=True)}
        labels = self.labels(table)
        prefix = find_column(table, "--prefix", self.prefix, ["prefix"])
        if self.joiner is not None and prefix is None:
            raise InputError("--joiner: there is no column that stands before the sentences: give --prefix COLUMN")
        return Columns(
            **texts,
            groups=labels["groups"] or (() if is_off(self.group) else tuple(published[0])),
            cluster=labels["cluster"] or (None if self.cluster == "" else published[1]),
            prefix=prefix,
            joiner=self.joiner,
        )

    def spellings(self, table: UserTable) -> Mapping[str, Mapping[str, str]]:
        return _SPELLED if {*_PUBLISHED[0][2]} <= set(table.columns) else {}

    @staticmethod
    def sections(run: LikelihoodRun) -> list[Section]:
        metric = _ACCURACY if run.columns.has_pairs else _MEAN
        row = next(iter(run.summary.filter(pl.col("column").is_null(), metric=metric).to_dicts()), None)
        if row is None:
            return [Section("Results", ["No pair can be judged."], tables=run.tables(), notes=run.remarks())]
        if run.columns.has_pairs:
            title, chart = "Is the good sentence the more probable one?", _RIGHT
            said = [
                f"The good sentence is the more probable one in {percent(row['value'])} % of {row['n']:,} pairs.",
                "A model that guesses is right in 50 %.",
            ]
        else:
            title, chart = "How probable are the sentences?", _PROBABLE
            mean, n = fixed(row["value"], 2), counted(row["n"], "sentence")
            said = [f"The mean log-probability of a token is {mean} in {n} (natural logarithm)."]
        return [run.section(title, said, chart)]


likelihood = Likelihood.function()
