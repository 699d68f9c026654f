"""A session runs on its device, or the error says why not."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.device import CPU
from negengine.engine.inference.session import open_session


def test_a_damaged_graph_is_one_line(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(InputError, match=r"model\.onnx: ONNX Runtime cannot open it") as caught:
        open_session(tmp_path / "model.onnx", CPU)
    assert "\n" not in str(caught.value)
