"""`negengine diagnostics`: what a model predicts where people's predictions are known (Ettinger 2020).

`files` says what is in the data sets, `items` how contexts are perturbed, `judged` which metrics there are, and
`summary` which rows summary.parquet has. A part is a range of items.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ...errors import check_number
from ...inference.exported import ExportedModel
from ...inference.free_text import encode_texts
from ...inference.model import LanguageModel
from ...runs.masked_stages import ReferenceStage
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult
from ...statistics import LIBRARIES
from ...text.keys import checked_seed
from ...text.token_ids import Bucket
from ...text.tokenizer import MaskTokenizer
from ..items import ITEMS_FILE, SUMMARY_FILE, model_identity
from ..targets import target_ids
from .files import Diagnostics
from .items import Completion, Item, build_items
from .judged import item_rows, predict, texts_of
from .summary import summarise

DRAWS = 3
ITEMS_PER_PART = 128


@dataclass(frozen=True, eq=False)
class DiagnosticsStage(ReferenceStage[list[Bucket]]):
    """A run of the probe.

    Attributes:
        exported: The model.
        items: The items to predict.
        data_sha256: Digest of the files' rows.
        draws: How many times the words of a sentence are shuffled.
        seed: Seed of the shuffles.
        items_per_part: How many items make a part.
    """

    name: ClassVar[str] = "diagnostics"
    rows_file: ClassVar[str | None] = ITEMS_FILE
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES

    exported: ExportedModel
    items: tuple[Item, ...]
    data_sha256: str
    draws: int
    seed: int
    items_per_part: int = ITEMS_PER_PART

    @classmethod
    def plan(
        cls,
        exported: ExportedModel,
        diagnostics: Diagnostics,
        *,
        draws: int = DRAWS,
        seed: int = 0,
        items_per_part: int = ITEMS_PER_PART,
    ) -> "DiagnosticsStage":
        """Plan a run; neither the model nor its tokenizer is needed yet.

        Args:
            exported: The model.
            diagnostics: From `files.read_diagnostics`.
            draws: How many times the words of a sentence are shuffled.
            seed: Seed of the shuffles.
            items_per_part: Size of a part.

        Raises:
            InputError: `draws` is less than 1 or very large, or the seed is wrong.
        """
        check_number("--draws", draws, 1, 1_000)
        checked_seed(seed)
        items = build_items(diagnostics, draws=draws, seed=seed)
        return cls(exported, items, diagnostics.sha256, draws, seed, items_per_part)

    @cached_property
    def parts(self) -> tuple[tuple[Item, ...], ...]:
        """The items of each part."""
        step = self.items_per_part
        return tuple(self.items[start : start + step] for start in range(0, len(self.items), step))

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Texts of each part."""
        return [len(texts_of(part)) for part in self.parts]

    @property
    def identity(self) -> dict[str, Any]:
        """What the items depend on."""
        return {
            **model_identity(self.exported),
            "data sha256": self.data_sha256,
            "draws": self.draws,
            "seed": self.seed,
            "items per part": self.items_per_part,
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """The model: where it is, and its mask token."""
        return model_metadata(self.exported)

    @cached_property
    def tokenizer(self) -> MaskTokenizer:
        """The model's tokenizer."""
        return self.exported.tokenizer

    @cached_property
    def ids(self) -> Mapping[Completion, int]:
        """Completion → the token of its word, or `NOT_ONE_TOKEN`."""
        completions = list(dict.fromkeys(completion for item in self.items for completion in item.completions))
        texts, words = [one.text for one in completions], [one.word for one in completions]
        return dict(zip(completions, target_ids(self.tokenizer, texts, words).tolist(), strict=True))

    def check(self, say: Callable[[str], None]) -> None:
        """Refuse a text that the model cannot take; see `Stage`."""
        locations = {completion.text: item.location for item in self.items for completion in item.completions}
        encode_texts(self.exported, self.tokenizer, list(locations), list(locations.values()))
        say(f"{len(self.items):,} items, {len(locations):,} texts")

    def prepare(self, number: int) -> list[Bucket]:
        """The token ids of a part's texts."""
        return encode_texts(self.exported, self.tokenizer, list(texts_of(self.parts[number])))

    def decide(self, model: LanguageModel, number: int, prepared: list[Bucket] | None, advance: Advance) -> PartResult:
        """See `Stage`.

        Returns:
            One row for each item, with the columns of `judged.SCHEMA`.
        """
        items = self.parts[number]
        own = {completion: self.ids[completion] for item in items for completion in item.completions}
        sentences = self.prepare(number) if prepared is None else prepared
        predictions = predict(model, self.tokenizer, sentences, own, texts_of(items), advance)
        return PartResult(item_rows(items, predictions))

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """items.parquet and summary.parquet."""
        items = parts.rows.collect()
        return {ITEMS_FILE: items, SUMMARY_FILE: summarise(items)}
