"""transformers' own fill-mask pipeline."""

from collections.abc import Sequence

import numpy as np
from transformers import AutoModelForMaskedLM, pipeline

from ....export.quiet import quiet
from ...workload import Sentences
from ..system import Answers, Choice, Place, System, batch_sizes
from ..torch_models import load, tokenizer_of


class Pipeline(System[Sentences]):
    """The pipeline, given all texts at once."""

    name = "pipeline"

    def about(self, choice: Choice) -> str:
        return f"transformers' fill-mask pipeline, batches of {choice['batch']}"

    def choices(self, place: Place) -> Sequence[Choice]:
        return batch_sizes(place)

    def open(self, place: Place) -> None:
        model, tokenizer = load(AutoModelForMaskedLM, place), tokenizer_of(place)
        with quiet():
            self._fill = pipeline("fill-mask", model=model, tokenizer=tokenizer, device=place.torch_device, top_k=1)

    def run(self, work: Sentences, choice: Choice) -> Answers:
        with quiet():
            answers = self._fill(list(work.texts), batch_size=choice["batch"])
        one = len(work) == 1  # of one text the pipeline gives the answers, of several a list of them each
        return np.array([answer[0]["token"] for answer in ([answers] if one else answers)], np.int32)
