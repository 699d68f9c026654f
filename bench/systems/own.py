"""Our engine in fp32: what the systems of all kinds of work share."""

from ...engine.inference.causal import open_language_model
from ...engine.inference.exported import load_exported
from . import OURS
from .system import Choice, Place, System, W


class Fp32(System[W]):
    """Our reference model, which is open before the clock starts; a subclass says what it does."""

    name = OURS
    ours = True

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return "batches of a fixed number of tokens on each core"

    def open(self, place: Place) -> None:
        self._exported = load_exported(place.exported)
        self._model = open_language_model(self._exported, place.device, threads=place.threads)
