"""The test of Gubelmann and Handschuh (2022), `negengine gh22`, in two rounds of requests.

Section 2.2 of the Self-Contained Negation Test Set: the ACTs are the tokens at ranks 1, 50, 100 and 200 for "NAME is
PROF and PRON likes to [MASK]", verbs or not. Is the ACT of the context repeated at the mask of the target, in both
polarities? The first round is small, so every shard does all of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl

from ...basics.choices import Coreference
from ...basics.errors import InputError, check_number
from ...basics.numerals import percent
from ...inference.again import Draw, Sample
from ...inference.exported import ExportedModel
from ...inference.free_text import MASK
from ...library.sentences import CORRECT, FAILED, REPEATED
from ...requests.composed import Composed, FirstWord
from ...requests.contrast import Contrast
from ...requests.items import WHY
from ...requests.ranks import AtRank
from ...requests.stage import Kind, RequestStage
from ...requests.summary import Cell, Row, means
from ...runs.results import finished_stage, read_frame
from ...runs.stage import Files, FinishedParts
from ...text.bundled import lexicon_path
from ...text.lexicon import Lexicon, load_lexicon
from ...text.pattern import (
    ACT_SLOTS,
    NAME,
    PROFESSION,
    PRONOUN,
    SLOTS,
    Pattern,
    PatternSet,
    Role,
    column,
    sentence_texts,
)
from ...text.pattern_files import load_patterns
from ...views import Column, Figure, Section, Table
from ..experiment import LEXICON, PAIRS, SEED, Option
from ..finished_run import published
from ..negation.grid import PAIR_NAME, pair_fillers, sample_pairs
from ..requested import Requested, RequestedRun
from ..view import POINTS, Chart, Values, View

ACTS_FILE, DATASET = "acts.parquet", "GH22"
RATE, NO_VERB, NO_TEXT = "repetition_rate", "act_not_a_verb", "act_not_a_text"
RANKS, _MOST_RANKS = (1, 50, 100, 200), 100
PATTERNS_KEY = "{} patterns sha256"  # of a variant's patterns in the identity
_WORDS = {slot: column(slot) for slot in (NAME, PROFESSION, PRONOUN)}
_ACTS = dict(zip(ACT_SLOTS, ("act", "act1", "act2"), strict=True))  # the token at a rank, and those at the next two
_COLUMNS = {**_WORDS, **_ACTS}
_SPLIT, _ACT = "{}@{}", "ACT"  # the name of a pattern and a rank in the summary, and of ACTs themselves
_PARTS = rf"^(?:{_ACT}|(?<pattern>(?<number>\d+)(?<polarity>[PN])))@(?<rank>\d+)$"
OF_SPLIT = {
    name: pl.col("split").str.extract_groups(_PARTS).struct[name] for name in ("pattern", "number", "polarity", "rank")
}
"""What a split such as 3N@50 is of, over rows of the summary or of the paper's figures; of ACTs themselves the rank."""

_DROPS = Chart(
    "drops",
    RATE,
    "drop",
    "repetition rate of the affirmative sentence minus that of its negation",
    label=pl.format("{}P − {}N, rank {}", "number", "number", "rank"),
    panel=None,
    unit=POINTS["unit"],
    compares=True,
)
_RATES = Chart(
    "rates",
    RATE,
    "repetition",
    "repetition rate by the rank of the ACT",
    label=pl.format("{}{}, rank {}", "number", "polarity", "rank"),
    panel=None,
    joint=False,
    domain=(0, 100),
)


class Variant(StrEnum):
    """A set of patterns in pairs: an affirmative one, 1P, then its negation, 1N. The value is the condition."""

    ORIGINAL = "original"  # Table 2 of the paper
    CONNECTIVE = "connective"  # a connective begins the target (Table 1)
    COORDINATED = "coordinated"  # the context has three verbs (footnote 2)


def load_variant(variant: Variant) -> PatternSet:
    """The bundled patterns of a variant."""
    return load_patterns("gh22" if variant is Variant.ORIGINAL else f"gh22-{variant}", (*SLOTS, *ACT_SLOTS))


@dataclass(frozen=True, eq=False)
class Gh22Run(RequestedRun):
    """A finished run: `items` has one row for each ACT and pattern, `acts` has the ACTs."""

    short_names: ClassVar[Sequence[str]] = ("pattern",)

    @cached_property
    def acts(self) -> pl.DataFrame:
        return read_frame(self.folder, finished_stage(self.folder, Acts.name), ACTS_FILE)

    @cached_property
    def patterns(self) -> dict[Variant, PatternSet]:
        sets = self.record.metadata["pattern sets"]
        return {Variant(variant): PatternSet.from_json(content) for variant, content in sets.items()}

    @property
    def conditions(self) -> dict[str, Any]:
        """The sentence for the ACTs and the patterns, as pairs are joined by words. A variant not run is ours."""
        identity = self.record.identity
        bundled = {PATTERNS_KEY.format(variant): load_variant(variant).sha256 for variant in Variant}
        return {"sentence": identity["sentence"], **{key: identity.get(key, sha) for key, sha in bundled.items()}}

    @property
    def minimal_pairs(self) -> tuple[str, Sequence[str]]:
        return "item", ("condition", "pattern")

    def again(self, draw: Draw) -> Iterator[Sample]:
        yield from super().again(draw)
        yield AtRank(tuple(_ACTS.values())).again(draw, self.acts.lazy())

    def methods(self, test: str) -> str:
        identity = self.record.identity
        first, (variant, patterns) = min(identity["ranks"]), next(iter(self.patterns.items()))
        numbers = [own.name[:-1] for own in patterns.scored if own.role is Role.CONTROL]
        told = (self.told(variant, f"{n}P@{first}", RATE, f"{n}N@{first}", digits=3) for n in numbers)
        drops = "; ".join(f"pattern {n}: {drop}" for n, drop in zip(numbers, told, strict=True))
        return (
            f"We replicated the test of {test} with {identity['pairs']:,} pairs of a name and a profession. The ACTs "
            f"are the model's own predictions at ranks {', '.join(map(str, identity['ranks']))}. Variants: "
            f"{', '.join(self.patterns)}. The drop of the repetition rate from the affirmative to the negative "
            f"pattern, {variant}, at rank {first}: {drops}."
        )

    def remarks(self) -> list[str]:
        rows = self.summary.filter(metric=NO_VERB).select("value", "n", OF_SPLIT["rank"]).iter_rows()
        shares = [f"{percent(value)} % of {n:,} at rank {rank}" for value, n, rank in rows]
        told = [f"ACTs that are not verbs of the lexicon: {', '.join(shares)}."] if shares else []
        return [*told, *super().remarks()]

    def tables(self) -> list[Table]:
        """Two of each variant: rates in the layout of Table 2 of the paper, and drops."""
        words, made = published("gh22")["columns"], list[View]()
        ranks, rank = self.record.identity["ranks"], OF_SPLIT["rank"]
        named = [Column("n°", "number"), Column("pol.", "polarity"), *(Column(word, word) for word in words)]
        for variant, patterns in self.patterns.items():
            own = pl.col("condition") == str(variant)
            rows = [  # aux and adv: whether the target has that word
                {"pattern": one.name, "number": one.name[:-1], "polarity": one.name[-1]}
                | {key: word in one.target.split() for key, word in words.items()}
                for one in patterns.scored
            ]
            rates = [
                Values(f"rank {i}", f"{RATE}@{i}", beside=f"ungrammatical@{i}", paper=f"paper, rank {i}") for i in ranks
            ]
            drops = [Values(f"rank {i}", f"difference@{i}", interval=True, tested=True, style=POINTS) for i in ranks]
            made += [
                View(
                    f"GH22, {variant}: {{model}}. Repetition of the ACT (in brackets: top-1 is not a verb)",
                    ("pattern",),
                    [*named, *rates],
                    where=own,
                    also={"pattern": OF_SPLIT["pattern"], "metric": pl.format("{}@{}", "metric", rank)},
                    rows=pl.DataFrame(rows),
                    section="number",
                ),
                View(
                    f"GH22, {variant}: drop P − N, and p (Holm)",
                    ("pattern",),
                    [Column("n°", "pattern"), *drops],
                    where=own,
                    also={"metric": pl.format("difference@{}", rank), "pattern": OF_SPLIT["number"]},
                    compares=True,
                    test="McNemar's exact test; name–profession pairs are independent",
                ),
            ]
        return [view.table(self) for view in made]


def _numbers(text: str) -> list[int]:
    try:
        return [int(rank) for rank in text.split(",")]
    except ValueError:
        raise InputError(f"--ranks {text}: give numbers with commas between, such as 1,50,100,200") from None


@dataclass(frozen=True, eq=False)
class Gh22(Requested):
    """Replicate the test of Gubelmann & Handschuh (2022), with ACTs that the model chooses itself."""

    name = "gh22"
    title = "Gubelmann and Handschuh (2022), replicated"
    asks = (
        "The model fills a sentence with words of its own, and is asked for them again. Does it repeat them "
        "less often once a sentence is negated?"
    )
    references = "negengine.engine.experiments.gh22:references.toml"
    example = "negengine gh22 mini --pairs 100"
    unit = "ACTs"
    clusters = "name–profession pairs"
    of_kind: ClassVar[type[Kind[Any]]] = FirstWord
    requests_per_part = 1024  # ACTs, each in all patterns
    other_rounds: ClassVar[Sequence[str]] = ("acts",)
    compared = (RATE,)
    grouped: ClassVar[Mapping[str, str]] = {**{name: name for name in ("name", "gender", "profession")}, "verb": "act"}
    also_read = ("pattern", "role", "at_rank", "act_is_verb", WHY)
    metrics: ClassVar[Mapping[str, pl.Expr]] = {
        RATE: pl.col("first"),
        f"{RATE}:any": pl.when(condition=str(Variant.COORDINATED)).then(
            pl.any_horizontal(pl.col("top1_id") == pl.col(f"{act}_id") for act in _ACTS.values())
        ),
    }
    # One fails if the model repeats the ACT after a negative context, or does not after an affirmative one.
    shown: ClassVar[Mapping[str, pl.Expr | None]] = {
        CORRECT: None,
        REPEATED: pl.col("first"),
        FAILED: pl.col("first") == (pl.col("role") == str(Role.FORBIDDEN)),
    }
    results = Gh22Run
    reads = "words"

    pairs: Annotated[int | None, PAIRS] = None
    ranks: Annotated[
        Sequence[int],
        Option(
            "Ranks of the ACTs among the model's own predictions.",
            metavar="N,N,...",
            kind=str,
            shown=",".join(map(str, RANKS)),
            read=_numbers,
        ),
    ] = RANKS
    variant: Annotated[
        str | Sequence[str], Option("Pattern set to run (default: all); may be repeated.", kind=list[Variant])
    ] = ()
    lexicon: Annotated[str | Path | None, LEXICON] = None
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < len(self.ranks) <= _MOST_RANKS:
            raise InputError(f"--ranks: {len(self.ranks):,} ranks; give 1 to {_MOST_RANKS}, such as 1,50,100,200")
        check_number("--ranks", min(self.ranks), 1, 10**6)

    @cached_property
    def variants(self) -> dict[Variant, PatternSet]:
        return {Variant(word): load_variant(Variant(word)) for word in self.variant or Variant}

    @cached_property
    def words(self) -> Lexicon:
        return load_lexicon(lexicon_path(self.lexicon))

    @property
    def sentence(self) -> Pattern:
        """The sentence whose mask the model fills with ACTs."""
        return load_variant(Variant.ORIGINAL).selecting

    @property
    def identity(self) -> dict[str, Any]:
        """What the ACTs depend on, not the ACTs: so shards of machines that rank a token otherwise can be merged."""
        return {
            "lexicon sha256": self.words.sha256,
            "sentence": self.sentence.sentence,
            "ranks": sorted(set(self.ranks)),
            "pairs": len(sample_pairs(self.words, self.pairs, self.seed)),
            "seed": self.seed,
            **{PATTERNS_KEY.format(variant): own.sha256 for variant, own in self.variants.items()},
        }

    def metadata(self, exported: ExportedModel) -> dict[str, Any]:  # noqa: ARG002 - part of the interface
        sets = {str(variant): own.to_json() for variant, own in self.variants.items()}
        return {"pattern sets": sets, "verbs": sorted(self.words.mask_forms)}

    def kind(self, exported: ExportedModel) -> Kind[Any]:  # noqa: ARG002 - part of the interface
        return FirstWord()

    def stage_after(self, exported: ExportedModel, acts: pl.DataFrame) -> RequestStage:
        """The second round; an ACT that is not a text of its own cannot be written."""
        ids = {token for act in _ACTS.values() for token in acts[f"{act}_id"].unique().to_list()}
        texts = [token for token in ids if exported.tokenizer.is_text(token)]
        written = (pl.when(pl.col(f"{act}_id").is_in(texts)).then(act) for act in _ACTS.values())
        kept = ["item", "pair", *_WORDS.values(), "gender", "at_rank", *_ACTS.values()]
        kept += [*(f"{act}_id" for act in _ACTS.values()), "act_logprob", "act_is_verb"]
        patterns = [(str(variant), own) for variant, set_ in self.variants.items() for own in set_.scored]
        keys = {"splits": pl.concat_list(pl.format(_SPLIT, "pattern", "at_rank")), "token": pl.col("act_id")}
        words, kind = acts.with_columns(written).select(kept), self.kind(exported)
        asked = Composed(words, _COLUMNS, patterns, keys, kind, DATASET, self.requests_per_part, self.seed)
        return kind.stage(exported, self, kind, asked)

    @classmethod
    def metrics_of(cls, told: Mapping[str, Any]) -> dict[str, pl.Expr]:
        """`ungrammatical`: a low rate can also come from ungrammatical predictions (section 2.1)."""
        return {**cls.metrics, "ungrammatical": ~pl.col("top1").is_in(told["verbs"])}

    @classmethod
    def contrasts(cls, rows: pl.DataFrame) -> Iterator[Contrast]:
        """The drop is the rate of 1P − that of 1N (section 2.4), with McNemar's exact test; pairs are independent."""
        keys = pl.col("condition", "role").cast(pl.String), "pattern", "at_rank"
        known = rows.select(*keys).unique(maintain_order=True).with_columns(split=pl.format(_SPLIT, *keys[1:]))
        for (condition,), own in known.group_by("condition", maintain_order=True):
            sides = (own.filter(role=str(role))["split"] for role in (Role.CONTROL, Role.FORBIDDEN))
            for first, second in zip(*sides, strict=True):
                yield Contrast(RATE, Cell(DATASET, str(condition), first), Cell(DATASET, str(condition), second))

    @classmethod
    def further(cls, rows: pl.DataFrame) -> Iterator[Row]:
        """About ACTs, in the first pattern: how many are not verbs, and how many could not be asked, if any."""
        lost, is_original = pl.col(WHY).is_not_null(), pl.col("condition") == str(Variant.ORIGINAL)
        figures = {
            NO_VERB: pl.when(~lost & is_original).then(~pl.col("act_is_verb")),
            NO_TEXT: pl.when(lost.any().over("condition", "at_rank")).then(lost),
        }
        acts = rows.filter(pl.col("pattern") == rows["pattern"][0]).with_columns(**figures)
        splits = pl.concat_list(pl.format(_SPLIT, pl.lit(_ACT), "at_rank"))
        yield from means(acts.with_columns(splits=splits), [*figures])

    @classmethod
    def sections(cls, run: Any) -> list[Section]:
        adjusted = run.summary["p_holm"].drop_nulls()
        n, clear = run.items["pair"].n_unique(), (adjusted < 0.05).sum()
        asked = f"{run.model_name} was asked for its own words (ACTs) again, in {n:,} pairs of a name and a profession."
        said = f"The affirmative and the negated sentence differ in {clear} of {len(adjusted)} comparisons"
        shown = run.tables()

        def drawn(chart: Chart, tables: Sequence[Table]) -> list[Figure]:
            return [
                replace(
                    chart,
                    name=f"{chart.name}-{variant}",
                    caption=f"Patterns “{variant}”: {chart.caption}.",
                    where=pl.col("condition") == str(variant),
                    also=OF_SPLIT,
                ).figure(run, table)
                for variant, table in zip(run.patterns, tables, strict=True)
            ]

        note = (
            "An ACT is the verb, or another word for what somebody does, that a model may repeat. "
            "Rank is that of the ACT among the model's own predictions for the first sentence."
        )
        first = [f"{said} (p < 0.05, adjusted with Holm's method).", asked]
        return [
            Section("Does a negation lower the repetition?", first, drawn(_DROPS, shown[1::2])),
            Section("How often is the ACT repeated?", run.remarks(), drawn(_RATES, shown[::2]), notes=[note]),
        ]


@dataclass(frozen=True, eq=False)
class Acts(Gh22):
    """The first round: which ACTs the model would put into the contexts itself."""

    name = "acts"
    other_rounds = (Gh22.name,)
    of_kind = AtRank
    rows_file = ACTS_FILE
    requests_per_part = 4096
    together = ("pair",)

    def kind(self, exported: ExportedModel) -> Kind[Any]:
        unranked = exported.tokenizer.unranked_ids(exported.vocab_size)
        check_number("--ranks", max(self.ranks), 1, exported.vocab_size - len(unranked) - len(_ACTS) + 1)
        return AtRank(tuple(_ACTS.values()))

    def requests(self, exported: ExportedModel) -> pl.DataFrame:  # noqa: ARG002 - part of the interface
        own, fillers = self.words, pair_fillers(self.words, Coreference.PRONOUN, self.seed)
        name, profession = np.divmod(sample_pairs(own, self.pairs, self.seed), len(own.professions))
        words = {
            key: pl.Series(fillers[slot].words).gather(fillers[slot].index[name, profession])
            for slot, key in _WORDS.items()
        }
        pairs = pl.DataFrame(words).with_columns(
            gender=pl.Series(own.genders).gather(name), text=sentence_texts(self.sentence, MASK)
        )
        ranks = pl.DataFrame({"at_rank": sorted(set(self.ranks))}, {"at_rank": pl.Int32})
        named = pairs.with_columns(pair=PAIR_NAME).join(ranks, how="cross")
        return named.with_columns(dataset=pl.lit(DATASET), item=pl.format("{}, {}", "pair", "at_rank"))

    @classmethod
    def publish(cls, parts: FinishedParts) -> Files:
        return {ACTS_FILE: parts.rows.with_columns(act_is_verb=pl.col("act").is_in(parts.metadata["verbs"]))}


Gh22.first_round, Gh22.stages = Acts, (Acts, Gh22)  # type: ignore[assignment]  # as all experiments of requests
gh22 = Gh22.function()
