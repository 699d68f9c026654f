"""The steps of `make gpu`, in their order. Another step is another function `Setting → Found`, and a line here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step."""

    name: str  # what it is called in the JSON file
    function: str  # `module:function`, from `Setting` to JSON values
    about: str  # what it shows, in a line
    minutes: float  # when it is stopped
    needs_models: bool = True  # whether it needs exported models


EXPORT = "export"
_HERE = "negengine.bench.gpu"
STEPS = (
    Step("environment", f"{_HERE}.environment:environment", "device, driver, versions", 1, needs_models=False),
    Step(EXPORT, f"{_HERE}.exporting:export", "the models, exported", 6, needs_models=False),
    Step("placement", f"{_HERE}.placement:placement", "where each operator runs, and which kernel attention takes", 2),
    Step("parity", f"{_HERE}.parity:parity", "decisions in fp32, fp16 and mixed beside fp32 on the CPU", 3),
    Step("selection", f"{_HERE}.selection:selection", "a million candidates, selected", 4),
    Step("lazy", f"{_HERE}.selection:lazy", "the whole lazy test set", 3),
    Step("sweep", f"{_HERE}.sweep:sweep", "sizes of batches and streams", 3),
    Step("graphs", f"{_HERE}.graphs:graphs", "captured CUDA graphs beside plain runs", 2),
    Step("attention", f"{_HERE}.attention:attention", "kernels of attention", 2),
    Step("baselines", f"{_HERE}.baselines:baselines", "PyTorch, torch.compile, Optimum, TensorRT", 6),
)
"""The limits exceed 25 minutes together; `run` stops each step at the end of the whole time, too."""
