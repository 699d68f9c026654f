"""The checkpoint that a training starts from: an encoder with its tokenizer, and a layer for the labels.

A checkpoint may be a classifier already. Its layer and its names of labels belong together: where the names are those
of the data, the rows of the layer are put into the order of the data; else the layer is replaced by a new one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ...engine.basics.errors import InputError
from ..checkpoint import Head, load
from ..families import longest_input
from ..inventory import read_weights
from ..quiet import quiet
from ..source import Source, locate
from ..weight_files import readable_files

_POOLER = ".pooler."  # in the names of its weights


@dataclass(frozen=True, eq=False)
class Base:
    """A checkpoint before its weights are read; layers that it lacks are random, the pooler only on request."""

    source: Source
    head: Head
    config: PretrainedConfig
    tokenizer: PreTrainedTokenizerFast
    names: tuple[str, ...]  # what the checkpoint calls its labels; transformers' LABEL_0 and so on where it does not
    order: tuple[int, ...] | None  # of each label of the data the number in the checkpoint; None for other labels
    allow_pickle: bool = False
    new_pooler: bool = False

    @classmethod
    def find(
        cls, reference: str, head: Head, labels: Sequence[str],
        parse: Callable[[Sequence[str]], Sequence[str] | None] = lambda names: names, *,
        revision: str | None = None, allow_pickle: bool = False, new_pooler: bool = False,
    ) -> "Base":  # fmt: skip
        """The labels are in the order of the logits; `parse` translates a checkpoint's names to such labels, or None.

        Raises InputError if there is no such checkpoint, or it has no such head, no fast tokenizer or no padding token.
        """
        source = locate(reference, revision)
        with quiet():
            loaded = load(source, head)
            config, tokenizer = loaded.config, loaded.tokenizer
            names = tuple(str(config.id2label[number]) for number in sorted(config.id2label))
            known = list(parse(names) or ())
            order = tuple(map(known.index, labels)) if sorted(known) == sorted(labels) else None
            config.id2label = dict(enumerate(labels))
            config.label2id = {label: number for number, label in enumerate(labels)}
            config.problem_type = None
            if tokenizer.pad_token_id is None:
                raise InputError(f"{source.name}: its tokenizer has no padding token, which batches of a training need")
            return cls(source, head, config, tokenizer, names, order, allow_pickle, new_pooler)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def identity(self) -> dict[str, Any]:
        return {"model": self.name, "model revision": self.source.revision, "new pooler": self.new_pooler}

    @property
    def longest(self) -> int:  # in tokens
        return longest_input(self.config)

    def open(self, say: Callable[[str], None] = lambda _: None) -> PreTrainedModel:
        """Read the weights, and draw those of a new layer; `say` is told what becomes of a trained layer for labels.

        Raises InputError if there are no safetensors, the encoder lacks weights, or files are damaged.
        """
        # A layer for other labels has another size and is replaced; the encoder is checked below.
        files = readable_files(self.source, allow_pickle=self.allow_pickle)
        given = {"config": self.config, "ignore_mismatched_sizes": True}
        model, report = read_weights(self.source, self.head, files, **given)
        of_encoder = f"{model.base_model_prefix}."
        lacking = [key for key in report["missing_keys"] if key.startswith(of_encoder)]
        wrong = [key for key in report["mismatched_keys"] if key.startswith(of_encoder)]
        if wrong:
            raise InputError(f"{self.name}: {wrong[0]} has another size than config.json says")
        if (pooler := sorted(key for key in lacking if _POOLER in key)) and not self.new_pooler:
            said = f"its weights lack the pooler ({pooler[0]}), which the classifier reads"
            remedy = "give a checkpoint that has it, or --new-pooler to begin with random weights"
            raise InputError(f"{self.name}: {said}: {remedy}")
        if others := sorted(set(lacking) - set(pooler)):
            raise InputError(f"{self.name}: its weights lack {others[0]}: give the checkpoint of a whole encoder")
        self._fit_labels(model, {*report["missing_keys"]}, {*report["mismatched_keys"]}, say)
        return model

    def _fit_labels(
        self, model: PreTrainedModel, missing: set[str], resized: set[str], say: Callable[[str], None]
    ) -> None:
        """Put the rows of a trained layer for labels into the order of the data, or draw them anew.

        The weights that are `missing` in the checkpoint, or `resized`, are drawn already.
        """
        wanted, own = list(self.config.id2label.values()), ", ".join(self.names)
        name, layer = next(
            (name, layer)
            for name, layer in reversed(list(model.named_modules()))
            if isinstance(layer, torch.nn.Linear)
            and layer.out_features == len(wanted)
            and not name.startswith(f"{model.base_model_prefix}.")
        )
        told = f"{self.name} is a classifier with the labels {own}: "
        of_layer = {f"{name}.{own}" for own, _ in layer.named_parameters()}
        if of_layer & missing:
            return
        if of_layer & resized or self.order is None:
            say(f"{told}they are not those of the data, so its last layer is replaced by a new one")
            # Drawn here, so that it does not depend on the number of labels that the checkpoint has.
            torch.nn.init.normal_(layer.weight, std=getattr(self.config, "initializer_range", 0.02))
            if layer.bias is not None:
                torch.nn.init.zeros_(layer.bias)
        else:
            say(f"{told}its last layer goes on, in the order of the data ({', '.join(wanted)})")
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.copy_(parameter[list(self.order)].clone())
