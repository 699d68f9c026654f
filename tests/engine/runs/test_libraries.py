"""Libraries that are imported while a model is opened."""

import sys

from negengine.engine.runs.libraries import import_ahead


def test_a_module_is_imported_and_one_that_does_not_exist_is_not_an_error(tmp_path, monkeypatch):
    (tmp_path / "imported_ahead.py").write_text("there = True")
    monkeypatch.syspath_prepend(tmp_path)
    import_ahead(["no_such_module_at_all", "imported_ahead"]).join()
    assert sys.modules.pop("imported_ahead").there
