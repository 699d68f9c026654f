"""The checkpoint that a training starts from: an encoder with its tokenizer, and a new layer for the labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ...engine.basics.errors import InputError
from ..checkpoint import Head, Source, load, locate, read_weights
from ..checkpoint_files import tensors_of
from ..families import longest_input
from ..quiet import quiet

_POOLER = ".pooler."  # in the names of its weights


@dataclass(frozen=True, eq=False)
class Base:
    """A checkpoint before its weights are read; layers that it lacks are random, the pooler only on request."""

    source: Source
    head: Head
    config: PretrainedConfig
    tokenizer: PreTrainedTokenizerFast
    allow_pickle: bool = False
    new_pooler: bool = False

    @classmethod
    def find(
        cls, reference: str, head: Head, labels: Sequence[str], *, revision: str | None = None,
        allow_pickle: bool = False, new_pooler: bool = False,
    ) -> "Base":  # fmt: skip
        """The labels are in the order of the logits.

        Raises InputError if there is no such checkpoint, or it has no such head, no fast tokenizer or no padding token.
        """
        source = locate(reference, revision)
        with quiet():
            loaded = load(source, head)
            config, tokenizer = loaded.config, loaded.tokenizer
            config.id2label = dict(enumerate(labels))
            config.label2id = {label: number for number, label in enumerate(labels)}
            config.problem_type = None
            if tokenizer.pad_token_id is None:
                raise InputError(f"{source.name}: its tokenizer has no padding token, which batches of a training need")
            found = cls(source, head, config, tokenizer, allow_pickle, new_pooler)
            names = tensors_of(source)  # None where they are not known before the weights are read
            if not new_pooler and names is not None and not any(_POOLER in f".{name}" for name in names):
                with torch.device("meta"):  # no weights are made
                    needed = head.loader.from_config(config, trust_remote_code=False).state_dict()
                if pooler := sorted(name for name in needed if _POOLER in name):
                    raise found._lacks_pooler(pooler[0])
            return found

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def identity(self) -> dict[str, Any]:
        return {"model": self.name, "model revision": self.source.revision, "new pooler": self.new_pooler}

    @property
    def longest(self) -> int:  # in tokens
        return longest_input(self.config)

    def open(self) -> PreTrainedModel:
        """Read the weights, and draw those of the new layer.

        Raises InputError if there are no safetensors, the encoder lacks weights, or files are damaged.
        """
        # A layer for other labels has another size and is replaced; the encoder is checked below.
        given = {"allow_pickle": self.allow_pickle, "config": self.config, "ignore_mismatched_sizes": True}
        model, report = read_weights(self.source, self.head, **given)
        of_encoder = f"{model.base_model_prefix}."
        lacking = [key for key in report["missing_keys"] if key.startswith(of_encoder)]
        wrong = [key for key, *_ in report["mismatched_keys"] if key.startswith(of_encoder)]
        if wrong:
            raise InputError(f"{self.name}: {wrong[0]} has another size than config.json says")
        if (pooler := sorted(key for key in lacking if _POOLER in key)) and not self.new_pooler:
            raise self._lacks_pooler(pooler[0])
        if others := sorted(set(lacking) - set(pooler)):
            raise InputError(f"{self.name}: its weights lack {others[0]}: give the checkpoint of a whole encoder")
        return model

    def _lacks_pooler(self, weight: str) -> InputError:
        said = f"its weights lack the pooler ({weight}), which the classifier reads: give a checkpoint that has it"
        return InputError(f"{self.name}: {said}, or --new-pooler to begin with random weights")
