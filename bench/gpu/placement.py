"""Where each operator of each graph runs, and which kernel computes attention."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ...engine.inference.cuda import attention_options
from ...engine.inference.device import CPU
from ...engine.inference.session import open_session, placed
from ..workload import candidates, main_job
from .deciding import OnRunner, decide_all, graphs_of
from .runners import plain
from .setting import Found, Setting

_SAYS_KERNEL = "ORT_ENABLE_ATTENTION_KERNEL_DEBUG_INFO"
_KERNEL = re.compile(rb"Operator=\w+.*SdpaKernel=\w+.*")


def placement(setting: Setting) -> Found:
    """Model → graph → operators by provider, and what ONNX Runtime says of its kernels for attention."""
    found: Found = {}
    for model in setting.models:
        few = candidates(main_job(model.exported), 8).encoded
        for precision, graph in graphs_of(model, setting).items():
            options = {} if setting.device == CPU else attention_options(half=precision == "fp16")
            session = open_session(graph, setting.device, cuda_options=options)
            with _kernels() as kernels:
                opened = OnRunner(model.exported, setting, graph, 512, plain(setting, options=options))
                decide_all(opened, few)
            by_provider = {provider: dict(sorted(own.items())) for provider, own in placed(session).items()}
            found.setdefault(model.name, {})[graph.name] = {"operators": by_provider, "attention": dict(kernels)}
    return found


@contextmanager
def _kernels() -> Iterator[Counter[str]]:
    """What the libraries print of their kernels while the block runs, and how often; it is there after the block."""
    said: Counter[str] = Counter()
    os.environ[_SAYS_KERNEL] = "1"
    with TemporaryDirectory() as folder:
        path, before = Path(folder) / "printed", [os.dup(1), os.dup(2)]
        sys.stdout.flush()
        with path.open("wb") as stream:
            for number in (1, 2):
                os.dup2(stream.fileno(), number)
        try:
            yield said
        finally:
            for number, kept in zip((1, 2), before, strict=True):
                os.dup2(kept, number)
                os.close(kept)
            del os.environ[_SAYS_KERNEL]
            said.update(line.decode(errors="replace") for line in _KERNEL.findall(path.read_bytes()))
