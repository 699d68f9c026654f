"""`negengine export --check`: whether a checkpoint can be exported, from all but its weights; all reasons at once."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import PretrainedConfig
from transformers.initialization import no_init_weights

from ..engine.basics.errors import InputError
from ..engine.basics.printable import counted
from ..engine.inference.exported import models_folder
from ..engine.library.model import Finding, Verdict
from . import needs
from .checkpoint import (
    Checkpoint,
    Head,
    about_own_code,
    check_architecture,
    check_sizes,
    load_config,
    load_tokenizer,
)
from .families import FAMILIES, first_position, has_standard_attention, longest_of
from .inventory import refuse_unsound, take, without_weights
from .quiet import quiet
from .source import Source, locate
from .tasks import Task, task_named, task_of
from .trace import exporter_of
from .weight_files import ONLY_PICKLED, SAFE, tensors_of, tensors_on_hub, weight_files, weights_of


def check(
    reference: str,
    output: Path | None = None,
    *,
    task: str | None = None,
    base: str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
) -> Verdict:
    """Say whether a checkpoint can be exported. Of a model of the hub, only small files are fetched.

    Raises InputError if there is no such checkpoint, or its configuration is not readable.
    """
    named = task_named(task) if task else None
    told: list[str] = []
    source = locate(reference, revision, told.append, base)
    with quiet(told.append):
        config = load_config(source)
        looked = _Looks(source, config, named or task_of(config), output or models_folder() / source.name, allow_pickle)
        shape = [looked.at("family"), looked.at("input")]
        files = [looked.at("tokenizer"), looked.at("weights")]
        if files[-1].possible:
            files.append(looked.at("needs"))
        if all(finding.possible for finding in shape):  # else there is no model whose weights could be named
            shape.append(looked.at("head"))
        if all(finding.possible for finding in (*shape, *files)) and (traced := looked.at("graph")).said:
            shape.append(traced)
    warned = [Finding("warning", line) for line in told if not line.startswith("asking ")]
    return Verdict(source.name, looked.task.head.task, (*shape, *files, *warned))


@dataclass(frozen=True)
class _Looks:
    """What is looked at, method by method; each says what it finds, or raises an InputError."""

    source: Source
    config: PretrainedConfig
    task: Task
    folder: Path
    allow_pickle: bool

    def at(self, what: str) -> Finding:
        name = self.source.name
        try:
            return Finding(what, getattr(self, what)())
        except InputError as error:
            return Finding(what, str(error).removeprefix(f"{name}: ").removeprefix(f"{name} "), possible=False)

    def family(self) -> str:
        check_architecture(self.source, self.config, self.task.head)
        exporter_of(self.source.name, self.config, self.task.head.task)
        fused = has_standard_attention(self.config)
        attention = "one fused operator computes its attention" if fused else "its attention may keep plain operators"
        return "; ".join(filter(None, [self.config.model_type, attention, about_own_code(self.config)]))

    def input(self) -> str:
        check_sizes(self.source.name, self.config)
        first = first_position(self.config)
        shifted = f", as positions count from {first}" if first else ""
        return f"at most {longest_of(self.config, is_causal=self.task.head.is_decoder):,} tokens{shifted}"

    def head(self) -> str:
        """What is known of its weights: their names in the files, or the class that saved them."""
        kind, files, tensors = self.task.head.families[type(self.config)], None, None
        wanted = kind.__name__
        if self.at("weights").possible:  # else that is said there
            files = weight_files(self.source)
            tensors = tensors_on_hub(self.source) if files is None else tensors_of(files)
        if tensors:
            inventory = take(self.source, self.task.head, self.config, tensors, files or ())
            name = self.source.name
            refuse_unsound(name, without_weights(name, kind, self.config), files or (), inventory)
            return "; ".join([f"{wanted}, whose weights are all there", *inventory.lines()])
        saved = [name for name in self.config.architectures or [] if name != wanted]
        doubt = f"; {', '.join(saved)} saved the weights, so a part may be missing" if saved else ""
        return f"{wanted} (the weights are not here to look at{doubt})"

    def graph(self) -> str:
        layers = _try_to_trace(self.source, self.task.head, self.config)
        return f"{counted(layers, 'layer')} of it can be traced" if layers else ""

    def tokenizer(self) -> str:
        head = self.task.head
        tokenizer = load_tokenizer(self.source, self.config, head)
        if self.at("family").possible:  # else there is no model that its tokens could fit
            checkpoint = Checkpoint(self.source, self.config, tokenizer, is_causal=head.is_decoder)
            checkpoint.refuse_unsuitable_tokens()
            self.task.check(checkpoint)
        mask = f", mask {tokenizer.mask_token} ({tokenizer.mask_token_id})" if head.fills_masks else ""
        content = json.loads(tokenizer.backend_tokenizer.to_str())
        kind = str(content["model"]["type"])  # WordPiece, BPE or Unigram
        levels = json.dumps([content["pre_tokenizer"], content["decoder"]])
        kind = "byte-level BPE" if kind == "BPE" and "ByteLevel" in levels else kind
        return f"{kind}, {len(tokenizer):,} tokens{mask}"

    def weights(self) -> str:
        files = weights_of(self.source)
        if files is None:
            return "not known, as the hub did not list its files"
        size = f"{sum(files.values()) / 1e9:.2f} GB"
        if any(name.endswith(SAFE) for name in files):
            return f"safetensors, {size}"
        if not self.allow_pickle:
            raise InputError(f"{self.source.name} {ONLY_PICKLED}")
        return f"pickled, {size}"

    def needs(self) -> str:
        needed = needs.estimate(self.source, 1 + sum(variant.size for variant in self.task.variants))
        if needed is None:
            return "not known, as the size of the weights is not"
        free = needed.check(f"{self.source.name}: exporting it", self.folder.parent)
        return f"{str(needed).removeprefix('needs ')}; {free}"


_FEW = 2  # layers of a model that is tried
_TOKENS = 500  # of its vocabulary


def _try_to_trace(source: Source, head: Head, config: PretrainedConfig) -> int:
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
