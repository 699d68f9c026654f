"""Systems that find the top-1 at the mask: sentences → int32 [n], token ids."""

from ...workload import Sentences
from ..system import System
from .at_mask import AtMask
from .authors import AuthorsScoring, AuthorsSelection
from .openvino import OpenVino
from .optimum import Optimum
from .pipeline import Pipeline


def baselines() -> list[System[Sentences]]:
    """All systems of the main job but ours; the first is the reference of all comparisons."""
    return [
        AuthorsSelection(),
        AuthorsScoring(),
        AtMask("fp32"),
        AtMask("fp32", compiled=True),
        AtMask("bf16"),
        AtMask("bf16", compiled=True),
        AtMask("fp16"),
        AtMask("fp16", compiled=True),
        Pipeline(),
        Optimum(),
        OpenVino("fp32"),
        OpenVino("bf16"),
        OpenVino("int8"),
        OpenVino("int8", "static"),
    ]
