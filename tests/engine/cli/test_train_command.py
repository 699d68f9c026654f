"""The commands that train."""

import sys

from negengine.engine.cli import main


def test_a_missing_extra_is_named_with_the_command(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    for name in [name for name in sys.modules if name.startswith("negengine.export.training")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "argv", ["negengine", "cues", "train", "-o", "out"])
    assert main.run() == 2
    assert "cues train needs accelerate: pip install 'negengine[train]'" in capsys.readouterr().err
