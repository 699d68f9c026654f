"""What runs of requests of the kind `Span` have in common: `likelihood` and `choice`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import polars as pl

from ..basics.errors import InputError, choice
from ..basics.frames import scan_frame
from ..basics.printable import counted
from ..inference.exported import ExportedModel
from ..inference.spans import NO_WORD, Encoder, Method
from ..library.sentences import COLUMNS, CORRECT, FAILED
from ..requests.items import ITEMS_FILE
from ..requests.metrics import ROUNDING
from ..requests.span import ALONE, LOG_LIKELIHOOD, Span
from ..views import Column, Section
from .experiment import Option
from .finished_run import GROUP
from .table_requests import TableRun
from .view import Chart, Values, View

METHOD = Annotated[str | None, Option("How a masked model scores a text (default: original).", kind=Method)]
JOINER = Annotated[
    str | None,
    Option(
        "What stands between a text and what stands before it (default: a space; nothing between scripts without "
        "spaces).",
        metavar="TEXT",
    ),
]
WINDOWS = Annotated[bool, Option("Score texts that are too long for the model in parts (windows).")]
GROUPS_SHOWN = Column("group", "split")
ACCURACIES = Chart(
    "likelihood",
    "accuracy",
    "accuracy",
    "Accuracy in each group.",
    where=pl.col("column").is_not_null(),
    label=pl.col(GROUP),
    panel=None,
    keys=("split",),
)
CHANCE = "chance"
_RATES = {  # metric → heading, and what a note says of it
    "accuracy": ("accuracy", "share of {items} whose {right} has the largest log-likelihood"),
    "accuracy_per_token": ("per token", "the same for the log-likelihood divided by the number of tokens"),
    "accuracy_per_byte": ("per byte", "the same for the log-likelihood divided by the number of bytes"),
    "accuracy_pmi": ("pmi", "the same for the log-likelihood less that of the candidate without its context"),
    "ties": ("ties", "{items} whose {right} and best other one differ by at most {limit:g}; they count as wrong"),
    CHANCE: (CHANCE, "the share that a guess gets right, the mean of 1 / number of candidates"),
}
_MOST = 12  # groups in a chart of usual width
UNFAIR = "the first token differs, which has no score: nothing stands before it; give --bos"


def method_of(exported: ExportedModel, method: str | None) -> Method | None:
    """How a model scores texts; None for a causal one. Raises InputError if it cannot do so."""
    if exported.is_causal:
        if method is not None:
            raise InputError(
                f"--method {method}: {exported.name} is a causal model, whose log-likelihoods are exact; leave "
                "--method out"
            )
        return None
    kind = choice(Method, "--method", method or Method.ORIGINAL)
    if kind is Method.WITHIN_WORD:  # without a pre-tokenizer a whole text is one word
        (sentence,) = Encoder(exported.tokenizer).encode(["a b"])
        if len(set(sentence.word.tolist()) - {NO_WORD}) < 2:
            raise InputError(
                f"--method {kind}: the tokenizer of {exported.name} does not divide a text into words; give --method "
                f"{Method.ORIGINAL}"
            )
    return kind


@dataclass(frozen=True, eq=False)
class SpanRun(TableRun):
    """A finished run of texts behind contexts."""

    @property
    def span(self) -> Span:
        kind: Span = self.kind  # type: ignore[assignment]  # of `SpanRun`
        return kind

    @property
    def is_causal(self) -> bool:
        return bool(self.record.identity["scores"] == LOG_LIKELIHOOD)

    @property
    def score(self) -> str:
        """What decides which text is the more probable one."""
        method = self.span.method
        return str(self.record.identity["scores"]) + ("" if method is None else f" ({method})")

    @property
    def used(self) -> Collection[str]:
        return str(self.record.identity["scores"]), str(self.span.method)

    @property
    def told_score(self) -> str:
        """How texts were scored, for the methods."""
        if self.is_causal:
            return "log-likelihoods" + ", with the BOS token before each text" * self.span.bos
        together = ", each masked with the later tokens of its word" * (self.span.method is Method.WITHIN_WORD)
        return f"pseudo-log-likelihoods, token by token{together}"

    def remarks(self) -> list[str]:
        said = super().remarks()
        if unknown := int(self.items["unknown"].sum()):
            what = "text holds a word that the vocabulary cannot express; its token is the unknown one"
            said.append(f"{counted(unknown, what, what.replace('text holds', 'texts hold'))}")
        if "comparable" in self.items.columns:
            own = self.items.filter(~pl.col("comparable")).select("dataset", "condition", "item").n_unique()
            what = "pair" if self.items["role"].eq("good").any() else self.declared.unit[:-1]
            said += [f"in {counted(own, what)} {UNFAIR}"] * bool(own)
        return said

    @property
    def shown(self) -> Mapping[str, pl.Expr | None]:
        """Beside `accuracy` itself."""
        known = "accuracy" in scan_frame(self.folder / ITEMS_FILE).collect_schema()
        return {CORRECT: pl.col("accuracy").alias(CORRECT) if known else pl.lit(None, pl.Boolean)}

    def rates(self, title: str, items: str, right: str) -> list[View]:
        """How often the right text is the most probable one; nothing where no item is judged."""
        known = set(self.summary["metric"])
        shown = {metric: own for metric, own in _RATES.items() if metric in known}
        values = [Values(heading, metric, interval=metric == "accuracy") for metric, (heading, _) in shown.items()]
        words = {"items": items, "right": right, "limit": ROUNDING}
        notes = [f"{heading}: {said.format(**words)}" for heading, said in shown.values()]
        return [View(title, ("split",), [GROUPS_SHOWN, Column(items, "n"), *values], notes=notes)] if values else []

    def section(self, title: str, said: Sequence[str], chart: Chart) -> Section:
        groups = self.summary.drop_nulls("column").select("column", "split").n_unique()
        figures = [replace(chart.figure(self), wide=groups > _MOST)] if groups else []
        return Section(title, said, figures, self.tables(), notes=self.remarks())

    def pair_rows(self) -> pl.LazyFrame | None:
        if self.items["right"].null_count() == len(self.items):
            return None
        rows = self.sentence_rows().filter(pl.col("role").ne_missing(ALONE))
        keys = ["dataset", "item"]
        worse = rows.filter(~pl.col("right")).sort("logprob", descending=True, nulls_last=True, maintain_order=True)
        best = worse.unique(keys, keep="first", maintain_order=True)
        best = best.select(*keys, bad="sentence", bad_logprob="logprob")
        both = rows.filter("right").join(best, on=keys, how="left", maintain_order="left")
        told = {
            "good": pl.col("sentence"),
            "bad": pl.col("bad"),
            "difference": pl.col("logprob") - pl.col("bad_logprob"),
            FAILED: pl.col(FAILED),
            "good_logprob": pl.col("logprob"),
            "bad_logprob": pl.col("bad_logprob"),
        }
        single = {*COLUMNS, "role", "right", *told}
        names = both.collect_schema().names()
        others = [pl.col(name) for name in names if name not in single]
        others += [pl.col(name).alias(f"table_{name}") for name in self.own_columns if name in told and name in names]
        return both.select("item", *(own.alias(name) for name, own in told.items()), *others)
