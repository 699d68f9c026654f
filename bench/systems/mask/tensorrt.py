"""Optimum's own export of the checkpoint in ONNX Runtime's provider for TensorRT."""

from ..system import Place
from .optimum import Optimum

_PROVIDER = "TensorrtExecutionProvider"


class TensorRt(Optimum):
    """ORTModelForMaskedLM on TensorRT, in fp16."""

    name = "TensorRT"
    arithmetic = "fp16"

    def missing(self, place: Place) -> str | None:
        if place.device.kind != "cuda":
            return "TensorRT is for CUDA"
        import onnxruntime as ort  # noqa: PLC0415 - slow

        if _PROVIDER not in ort.get_available_providers():
            return "this onnxruntime has no provider for TensorRT"
        return super().missing(place)

    def _provider(self, place: Place) -> tuple[str, dict[str, object]]:
        engines = place.cache / "systems" / "tensorrt"
        engines.mkdir(parents=True, exist_ok=True)
        return _PROVIDER, {
            "device_id": place.device.index,
            "trt_fp16_enable": True,
            "trt_engine_cache_enable": True,
            "trt_engine_cache_path": str(engines),
        }
