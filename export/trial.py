"""Whether the graph of a family that no test exports can be made: its exporter traces a few layers without weights."""

import copy
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import PretrainedConfig
from transformers.initialization import no_init_weights

from .checkpoint import Head, Source
from .families import FAMILIES
from .trace import exporter_of

_FEW = 2  # layers
_TOKENS = 500  # of its vocabulary


def try_to_trace(source: Source, head: Head, config: PretrainedConfig) -> int:
    """Trace a few layers; returns their number: 0 for a family that tests export, or without such a model.

    Raises InputError, in the words of an export, if it cannot be traced.
    """
    if config.model_type in FAMILIES:
        return 0
    own = _of_few_layers(config)
    try:
        with no_init_weights():
            model = head.families[type(own)]._from_config(own, dtype=torch.float32, attn_implementation="eager").eval()  # noqa: SLF001
    except Exception:  # noqa: BLE001 - its sizes depend on the number of layers in a way of its own
        return 0
    with TemporaryDirectory() as folder:
        place = Path(folder)
        exporter = exporter_of(source.name, own, head.task)
        exporter.trace(model, ["input_ids"], place / "weights", place, source.name)
    return int(own.num_hidden_layers)


def _of_few_layers(config: PretrainedConfig) -> PretrainedConfig:
    """The same model with a layer of each kind, and with the tokens that its configuration names."""
    own, layers = copy.deepcopy(config), int(config.num_hidden_layers)
    kinds = [*(getattr(config, "layer_types", None) or [])]
    few = next((n for n in range(_FEW, layers) if {*kinds[:n]} == {*kinds}), layers)
    for key, value in vars(config).items():
        if isinstance(value, list) and len(value) == layers:
            setattr(own, key, value[:few])
    own.num_hidden_layers = few
    named = [value for key, value in vars(config).items() if key.endswith("_token_id") and isinstance(value, int)]
    own.vocab_size = min(config.vocab_size, max([*named, _TOKENS]) + 1)
    return own
