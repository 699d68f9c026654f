"""How probable are whole sentences? `negengine likelihood`: options and results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar

import polars as pl

from ...basics.errors import InputError, choice
from ...basics.printable import counted
from ...inference.exported import ExportedModel
from ...inference.spans import NO_WORD, Encoder, Method
from ...library.again import Draw, Sample
from ...library.recount import Recount
from ...requests.items import ALL
from ...text.table import FILE_NAME, TableLike, find_column, needed_column
from ...text.table import Table as UserTable
from ...views import Column, Section, Table
from ..data_sets.sources import named_place, sources
from ..experiment import BOS, Option
from ..own_table import COLUMNS, TableExperiment, TableRun, find_columns, is_off
from ..view import Chart, Values, View
from .likelihood_items import (
    BAD,
    GOOD,
    MEANS,
    RATES,
    RESULTS,
    ROUNDING,
    SIDE,
    SIDES,
    TOKENS_FILE,
    WORDS_FILE,
    Columns,
    Faults,
)
from .likelihood_stage import BOW_CORRECTION, LOG_LIKELIHOOD, NAME, UNSCORED, Likelihoods
from .likelihood_summary import FEWER, PERPLEXITY, Scored, item_name, own_texts, recounts, sentence_rows

_column = partial(Option, metavar="COLUMN")
_ACCURACY, _MEAN = "accuracy", MEANS[1]
_SPLIT = Column("split", "split")
_PAIRS = View(
    "Minimal pairs: {model} (%)",
    ("split",),
    [
        _SPLIT,
        Column("pairs", "n"),
        Values("accuracy", _ACCURACY, interval=True),
        Values("per token", "accuracy_per_token"),
        Values("ties", "ties"),
    ],
    notes=[
        "accuracy: share of pairs whose good sentence is the more probable one, with 95 % interval",
        "per token: the same for the log-likelihood divided by the number of tokens",
        f"ties: pairs with a difference of at most {ROUNDING:g}; they count as not correct",
    ],
)
_RIGHT = Chart(
    "likelihood",
    _ACCURACY,
    "accuracy (%)",
    "Accuracy in each group.",
    where=pl.col("split") != ALL,
    label=pl.col("split"),
    panel=None,
    keys=("split",),
)
_PROBABLE = replace(
    _RIGHT,
    metric=_MEAN,
    title="log-probability per token (natural logarithm)",
    caption="Log-probability per token in each group.",
    zero=False,
    scale=1,
)
_SENTENCE = ("sentence", "text")
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
class LikelihoodRun(TableRun):
    """A finished run; `items` has one row for each sentence."""

    stage: ClassVar[str] = Likelihoods.name
    metrics: ClassVar[Sequence[str]] = (*RATES, *MEANS)
    condition_keys: ClassVar[Sequence[str]] = ("data sha256", "scores", "method")

    @cached_property
    def columns(self) -> Columns:
        return Columns.from_json(self.record.metadata[COLUMNS])

    @property
    def conditions(self) -> dict[str, Any]:
        """Accuracies on the same pairs can be compared, whatever the scores are; scores only with the same ones."""
        own = super().conditions
        scores = {"data sha256": own["data sha256"]} if self.columns.has_pairs else own
        return {**scores, "prefix": self.columns.prefix, "joiner": self.columns.joiner}

    @property
    def score(self) -> str:
        """What decides which sentence of a pair is the more probable one."""
        if not self.columns.has_pairs:
            return ""
        return str(self.record.identity["scores"]) + ("" if self.method is None else f" ({self.method})")

    @property
    def is_causal(self) -> bool:
        return bool(self.record.identity["scores"] == LOG_LIKELIHOOD)

    def tables(self) -> list[Table]:
        """How often the good sentence is the more probable one; or means over sentences."""
        if self.columns.has_pairs:
            return [_PAIRS.table(self)]
        pseudo = "" if self.is_causal else "pseudo-"
        headings = (f"{pseudo}log-likelihood", "per token", "per word", "per character")
        named = zip(headings, MEANS, strict=True)
        view = View(
            "Sentences: {model}",
            ("split",),
            [
                _SPLIT,
                Column("sentences", "n"),
                *(Values(heading, metric, interval=True, style={"decimals": 2}) for heading, metric in named),
                Values(f"{pseudo}perplexity", PERPLEXITY, style={"significant": 4}),
            ],
            notes=["means over sentences with 95 % intervals, natural logarithms"],
        )
        return [view.table(self)]

    def methods(self, test: str) -> str:
        n = int(self.record.counts["sentences"])
        cited = f" ({test})" if test else ""
        if self.is_causal:
            scored = f"We computed the log-likelihoods of {counted(n, 'sentence')} from left to right"
            scored += ", with the BOS token before each" * ("bos" in self.record.identity)
        else:
            together = ", each masked with the later tokens of its word" if self.method is Method.WITHIN_WORD else ""
            scored = (
                f"We computed the pseudo-log-likelihoods of {counted(n, 'sentence')}, token by token{together}{cited}"
            )
        named = self.columns.condition
        if not self.columns.has_pairs:
            return (
                f"{scored}. Mean per token, natural logarithm, with 95 % interval: {self.told(named, ALL, MEANS[1])}."
                f"{self.columns.told}"
            )
        rate = next(iter(RATES))
        return (
            f"{scored}. A pair counts as correct where its good sentence is the more probable one. Accuracy, as a "
            f"fraction with 95 % interval: {self.told(named, ALL, rate, digits=3)}.{self.columns.told}"
        )

    @property
    def method(self) -> Method | None:
        name = self.record.identity["method"]
        return None if name is None else Method(name)

    def remarks(self) -> list[str]:
        counts, said = self.record.counts, super().remarks()
        if counts["with unknown tokens"]:
            what = "sentences hold a word that the vocabulary cannot express; its token is the unknown one"
            said.append(f"{counts['with unknown tokens']:,} {what}")
        if counts["skipped"]:
            said.append(f"{counted(int(counts['skipped']), 'row was', 'rows were')} skipped: skipped.parquet says why")
        if differ := counts[UNSCORED]:
            pairs = counted(int(differ), "pair")
            said.append(f"in {pairs} the first token differs, which has no score: nothing stands before it; give --bos")
        if self.columns.pair is not None:
            incomplete = self.items.filter((pl.col(SIDE) == GOOD) & pl.col(RATES["accuracy"]).is_null())
            said += [f"{len(incomplete):,} pairs are not complete and do not count"] * (not incomplete.is_empty())
        return said

    def outcomes(self) -> pl.DataFrame:
        items, columns = self.items.filter(self.columns.counts), self.columns
        keys = {**self._keys, "item": item_name(items.columns)}
        return self.in_splits(items, columns, columns.metrics, keys)

    @property
    def _keys(self) -> dict[str, pl.Expr]:
        return {"dataset": pl.lit(self.record.metadata[NAME]), "condition": pl.lit(self.columns.condition)}

    def sentence_rows(self) -> pl.LazyFrame:
        return sentence_rows(self.items.lazy(), self.columns)

    def again(self, draw: Draw) -> Iterator[Sample]:
        own = own_texts(self.items.lazy(), self.columns)
        every = pl.concat([self.sentence_rows(), own], how="horizontal")
        some = replace(draw, size=max(1, draw.size // FEWER)).rows(every)
        known = (self.columns.joiner, self.method, draw.exported.max_length, "bos" in self.record.identity)
        yield Sample("sentences", [Scored(row, *known) for row in some])

    def recounts(self) -> Iterator[Recount]:
        details = [TOKENS_FILE] if BOW_CORRECTION in self.record.identity else [TOKENS_FILE, WORDS_FILE]
        yield from recounts(self.folder, self.items, self.columns, details)
        items = self.items.filter(self.columns.counts)
        yield self.means_again(items, self.columns, self.columns.metrics, self._keys)


@dataclass(frozen=True, eq=False)
class Likelihood(TableExperiment):
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
    stages = (Likelihoods,)

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
    method: Annotated[str | None, Option("How a masked model scores a sentence (default: original).", kind=Method)] = (
        None
    )
    sentence: Annotated[str | None, _column("The column with the sentences (default: sentence or text).")] = None
    good: Annotated[
        str | None, _column("The column with the good sentence of each pair (default: sentence_good or good).")
    ] = None
    bad: Annotated[
        str | None, _column("The column with the bad sentence of each pair (default: sentence_bad or bad).")
    ] = None
    pair: Annotated[
        str | None, _column("If a pair is two rows: the column with the name of the pair (default: none).")
    ] = None
    acceptable: Annotated[
        str | None,
        _column(
            "If a pair is two rows: the column that says which is good, by true and false or 1 and 0 (default: none)."
        ),
    ] = None
    group: Annotated[
        str | Sequence[str],
        _column("A column with conditions: each gets a mean (default: group); may be repeated.", kind=list[str]),
    ] = ()
    cluster: Annotated[
        str | None, _column("A column with the same value in rows that depend on each other (default: cluster).")
    ] = None
    prefix: Annotated[
        str | None,
        _column("A column with what stands before the sentence, which is not scored (default: prefix; '' for none)."),
    ] = None
    joiner: Annotated[
        str | None,
        Option(
            "What stands between prefix and sentence (default: a space; nothing between scripts without spaces).",
            metavar="TEXT",
        ),
    ] = None
    bos: Annotated[bool, BOS] = False
    windows: Annotated[bool, Option("Score sentences that are too long for the model in parts (windows).")] = False
    per_token: Annotated[bool, Option("Write tokens.parquet: the score of each token.")] = False
    per_word: Annotated[bool, Option("Write words.parquet: the score of each word.")] = False
    bow_correction: Annotated[
        bool, Option("With --per-word: a word has the probability of its own end (the space behind), causal models.")
    ] = False
    skip_bad: Annotated[bool, Option("Skip rows that cannot be scored, and write them to skipped.parquet.")] = False

    def stage(self, exported: ExportedModel) -> Likelihoods:
        if exported.is_causal and self.method is not None:
            raise InputError(
                f"--method {self.method}: {exported.name} is a causal model, whose log-likelihoods are exact; "
                "leave --method out"
            )
        kind = None if exported.is_causal else choice(Method, "--method", self.method or Method.ORIGINAL)
        if self.bow_correction and (not exported.is_causal or not self.per_word or self.windows):
            raise InputError("--bow-correction: give it for a causal model, with --per-word and without --windows")
        if kind is Method.WITHIN_WORD:  # without a pre-tokenizer a whole text is one word
            (sentence,) = Encoder(exported.tokenizer).encode(["a b"])
            if len(set(sentence.word.tolist()) - {NO_WORD}) < 2:
                raise InputError(
                    f"--method {kind}: the tokenizer of {exported.name} does not divide a text into words; give "
                    f"--method {Method.ORIGINAL}"
                )
        table = self.open(named_place(self.data, self.name) or self.data, RESULTS)
        columns = self.columns(table)
        longest = None if self.windows else exported.max_length
        faults = Faults(columns, Encoder.of(exported, bos=self.bos), longest)
        known, labels = self.scan(table, columns, faults)
        details = {name: getattr(self, name) for name in ("windows", "per_token", "per_word", "bos", "bow_correction")}
        stage = Likelihoods(exported, known, columns, kind, skip_bad=self.skip_bad, told=labels.told(), **details)
        if not self.skip_bad:
            stage.refuse_incomplete()
        if self.bow_correction:
            stage.begins  # noqa: B018 - refuses a vocabulary without the space before a word
        return stage

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
        prefix = find_column(table, "--prefix", self.prefix, ["prefix"])
        if self.joiner is not None and prefix is None:
            raise InputError("--joiner: there is no column that stands before the sentences: give --prefix COLUMN")
        groups = find_columns(table, "--group", self.group, ["group"])
        clusters = find_column(table, "--cluster", self.cluster, ["cluster"])
        names: dict[str, Sequence[str]] = dict(_OBVIOUS)
        known = {*table.columns, FILE_NAME} if table.is_file_name(FILE_NAME) else {*table.columns}
        for its_good, its_bad, its_groups, its_cluster in _PUBLISHED:
            if not in_rows and {its_good, its_bad, *its_groups} - {FILE_NAME} <= known:
                names = {GOOD: [its_good], BAD: [its_bad]}
                own = tuple(name for name in its_groups if name in known)  # one file alone is not a group
                groups = groups or (() if is_off(self.group) else own)
                cluster = own[-1] if its_cluster == FILE_NAME not in known else its_cluster
                clusters = clusters or (None if self.cluster == "" else cluster)
                break
        two = [find_column(table, f"--{side}", None, names[side]) for side in SIDES]
        if not in_rows and (in_one_row or all(two)):
            return Columns(
                good=needed_column(table, "--good", good, names[GOOD]),
                bad=needed_column(table, "--bad", bad, names[BAD]),
                groups=groups,
                cluster=clusters,
                prefix=prefix,
                joiner=self.joiner,
            )
        return Columns(
            sentence=needed_column(table, "--sentence", sentence, _SENTENCE),
            pair=None if pair is None else needed_column(table, "--pair", pair, [pair]),
            acceptable=None if acceptable is None else needed_column(table, "--acceptable", acceptable, [acceptable]),
            groups=groups,
            cluster=clusters,
            prefix=prefix,
            joiner=self.joiner,
        )

    def spellings(self, table: UserTable) -> Mapping[str, Mapping[str, str]]:
        return _SPELLED if {*_PUBLISHED[0][2]} <= set(table.columns) else {}

    @staticmethod
    def sections(run: LikelihoodRun) -> list[Section]:
        metric = _ACCURACY if run.columns.has_pairs else _MEAN
        row = run.summary.row(by_predicate=(pl.col("split") == ALL) & (pl.col("metric") == metric), named=True)
        if run.columns.has_pairs:
            title, chart = "Is the good sentence the more probable one?", _RIGHT
            said = [
                f"The good sentence is the more probable one in {100 * row['value']:.1f} % of {row['n']:,} pairs.",
                "A model that guesses is right in 50 %.",
            ]
        else:
            title, chart = "How probable are the sentences?", _PROBABLE
            mean, n = f"{row['value']:.2f}", f"{row['n']:,}"
            said = [f"The mean log-probability of a token is {mean} in {n} sentences (natural logarithm)."]
        groups = run.summary["split"].n_unique() - 1
        figures = [replace(chart.figure(run), wide=groups > 12)] if groups else []
        return [Section(title, said, figures=figures, tables=run.tables(), notes=run.remarks())]


likelihood = Likelihood.function()
