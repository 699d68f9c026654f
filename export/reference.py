"""The outsider of `verify --torch`: it computes with transformers alone, from texts as a user has written them.

The checkpoint of an exported model is loaded as any program loads it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex
import torch
from tokenizers import normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import cached_file

from ..engine.basics.choices import LANGUAGE_MODELS
from ..engine.basics.errors import InputError
from ..engine.basics.printable import some
from ..engine.inference.exported import TOKENIZER, ExportedModel
from .checkpoint import load_tokenizer
from .observe import told_in_one_line
from .quiet import quiet
from .source import Source, locate
from .tasks import TASKS

# Scripts without spaces between words: those of China and Japan, Thai, Lao, Burmese, Khmer.
_UNSPACED = "[\u2e80-\u312f\u31a0-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"


@dataclass(frozen=True)
class Outsider:
    """A `Reference` that knows nothing of how the program encodes, composes and joins texts."""

    model: Any  # in fp32, with eager attention
    tokenizer: Any
    longest: int  # tokens that the model takes
    is_causal: bool = False
    begins_with_bos: bool = False
    # The tokens that begin a word: those that hold the space before it, and all others; both with those that end a text
    openings: tuple[Sequence[int], Sequence[int]] = ((), ())
    name, at_once = "PyTorch", 1  # PyTorch divides each operator between the cores itself

    def masked(self, text: str, filled: Any = (), masks: int = 1, query: int = 0, *, bos: bool = False) -> Any:
        ids, behind, *_ = self._around_mask(text, bos)
        return self._at([*ids, *filled, *[self.tokenizer.mask_token_id] * masks, *behind], len(ids) + query).numpy()

    def words(self, text: str, words: Sequence[str], *, bos: bool = False) -> Iterator[tuple[int, ...]]:
        (ids, _, before, after), special = self._around_mask(text, bos), {*self.tokenizer.all_special_ids}
        for word in words:
            (read, spans, added, _), end = zip(*self._read(before + word + after, bos), strict=True), len(before + word)
            own = [i for i in range(len(ids), len(read)) if spans[i][0] < end and not added[i]]
            is_whole = [*read[: len(ids)]] == ids and all(spans[i][1] <= end and read[i] not in special for i in own)
            yield tuple(read[i] for i in own) if is_whole else ()

    def span(self, before: str | None, text: str, joiner: str | None, how: Any) -> Any:
        start, text = (before or "").strip(), text.strip() + " a" * how.ends  # a word could begin behind the text
        usual = "" if regex.search(rf"{_UNSPACED}[\W\d_]*\0[\W\d_]*{_UNSPACED}", f"{start}\0{text}") else " "
        start = start and start + (usual if joiner is None else joiner)
        given, read = len(start.rstrip()), self._read(start + text, how.bos)
        ids, spans, special, word = zip(*(t for t in read if not how.alone or t[2] or t[1][1] > given), strict=True)
        own, room = [i for i in range(len(ids)) if not special[i]], self.longest - sum(special) + how.ends  # a window
        for number, place in enumerate(own):
            if not given or spans[place][1] > given:
                first, step = min(number - room // 2, len(own) - room), max(1, room // 2)
                first = -((room - number - 1) // step) * step if self.is_causal else first
                kept = [i for i in range(len(ids)) if special[i] or i in own[max(0, first) :][:room]]
                hidden = {i for i in own if how.by_word and i > place and word[i] == word[place] is not None} | {place}
                asked = [self.tokenizer.mask_token_id if i in hidden else ids[i] for i in kept]
                logprobs = self._at(asked, kept.index(place)).double().log_softmax(-1)
                yield logprobs.numpy(), ids[place], spans[place][0] - len(start)

    def pair(self, first: str, second: str, max_length: int) -> Any:
        read = self.tokenizer(first, second, truncation=True, max_length=max_length, return_tensors="pt")
        return self.model(**read).logits[0].detach().numpy()

    def _at(self, ids: Sequence[int], place: int) -> Any:
        row = torch.tensor([ids[:place] if self.is_causal else ids])  # a causal model reads what stands before
        logits = self.model(input_ids=row).logits if row.numel() else torch.full([1, 1, len(self.tokenizer)], torch.nan)
        return logits[0, place - self.is_causal].detach()

    def _around_mask(self, text: str, bos: bool) -> tuple[list[int], list[int], str, str]:
        """The ids before a mask and those behind it; the texts before and behind it."""
        mask = "" if self.is_causal else self.tokenizer.mask_token
        before, after = text.strip().split(mask or "[MASK]")
        before, after = regex.sub(r"\s+\Z", " ", before), after if mask else ""  # a causal model reads nothing behind
        # A mask stands for a word's own token, which holds the space before it, if a token is a space and letters.
        takes = not mask or any(len(token) > 1 and token[0] in " Ġ▁" for token in self.tokenizer.get_vocab())
        read = enumerate(self._read((before.rstrip() if takes else before) + mask + after, bos))
        ids = [token for i, (token, _, added, _) in read if mask or not (i and added)]  # without EOS: the text goes on
        place = ids.index(self.tokenizer.mask_token_id) if mask else len(ids)
        return ids[:place], ids[place + 1 :], before, after

    def _read(self, text: str, bos: bool) -> list[tuple[int, tuple[int, int], int, int | None]]:
        """Each token of a text: its id, the characters it covers, whether it is special, and its word."""
        read = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        own = zip(read["input_ids"], read["offset_mapping"], read["special_tokens_mask"], read.word_ids(), strict=True)
        begins = not (bos or self.begins_with_bos) or read["input_ids"][:1] == [self.tokenizer.bos_token_id]
        return [*own] if begins else [(self.tokenizer.bos_token_id, (0, 0), 1, None), *own]


def torch_reference(checkpoint: str, exported: ExportedModel) -> Outsider:
    """Load the checkpoint that a model was exported from; an InputError if it is not there, or is another one."""
    is_local = checkpoint == "mini" or Path(checkpoint).exists()
    source = locate(checkpoint) if is_local else locate(checkpoint.partition("@")[0], exported.revision)
    if source.identity != exported.revision:
        raise InputError(
            f"--torch {checkpoint}: {exported.folder} was exported from another checkpoint "
            f"({source.identity[:19]}…, in export.json {exported.revision[:19]}…)"
        )
    with quiet(), told_in_one_line(checkpoint, "loading it with transformers alone"):
        model = _weights(exported.task, source.place)
        alone = _tokenizer(source.of_tokenizer) if exported.task in LANGUAGE_MODELS else None
        tokenizer = alone or load_tokenizer(source, model.config, TASKS[exported.task].head)
    own = exported.max_length, exported.is_causal, exported.begins_with_added_bos
    vocabulary, end = tokenizer.get_vocab(), model.config.eos_token_id
    ends = {*(end if isinstance(end, list) else [end])} - {None}
    spaced = {token for text, token in vocabulary.items() if text.startswith((" ", "Ġ", "▁"))}
    others = {*vocabulary.values()} - spaced
    return Outsider(model.eval(), tokenizer, *own, ([*spaced | ends], [*others | ends]))


def _tokenizer(source: Source) -> PreTrainedTokenizerFast | None:
    """tokenizer.json as transformers' general class reads it; None where a checkpoint has no such file.

    Of the family's own class, which may build another tokenizer, are what goes before tokenizer.json in both
    generations of transformers, and roles that no file names.
    """
    path = cached_file(
        source.location, TOKENIZER, revision=source.revision, _raise_exceptions_for_missing_entries=False
    )
    if path is None:
        return None
    found: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(**source.place)
    with suppress(Exception):  # transformers 5 cannot build each family's own; then the files have to tell all
        _complete(found, AutoTokenizer.from_pretrained(**source.place))
    return found


def _complete(tokenizer: Any, of_family: Any) -> None:
    read, built = tokenizer.backend_tokenizer, of_family.backend_tokenizer
    if type(read.normalizer) is type(built.normalizer) is normalizers.BertNormalizer:
        read.normalizer = built.normalizer
    if type(read.pre_tokenizer) is type(built.pre_tokenizer) is pre_tokenizers.ByteLevel:
        read.pre_tokenizer = built.pre_tokenizer
    for role, token in of_family.special_tokens_map.items():
        if getattr(tokenizer, role, "") is None and token in tokenizer.get_vocab():
            setattr(tokenizer, role, token)


def _weights(task: str, place: Mapping[str, Any]) -> PreTrainedModel:
    """A model in fp32; a head of its own in the files is not replaced by the embeddings, whatever config.json says."""
    given = {"dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True}
    for tied in ({"tie_word_embeddings": False}, {}) if task in LANGUAGE_MODELS else ({},):
        model, report = TASKS[task].head.loader.from_pretrained(**place, **given, **tied, output_loading_info=True)
        missing = sorted(name for name in report["missing_keys"] if name.endswith("weight"))
        if not missing:
            return model
    raise InputError(f"--torch: transformers alone finds no numbers for {some(missing)}")
