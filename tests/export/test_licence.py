"""The licence of a checkpoint is what its model card says, or not known."""

from pathlib import Path

import pytest
from negengine.export.checkpoint import locate
from negengine.export.checkpoint_files import licence_in, licence_of


def test_the_bundled_model_names_its_licence():
    assert licence_of(locate("mini", None)) == "apache-2.0"


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: mit\ntags: [x]\n---\n# A model\n", "mit"),
        ("---\nlicense:\n- mit\n- cc-by-4.0\n---\n", "mit, cc-by-4.0"),
        ("---\ntags: [x]\n---\n", None),
        ("# A model\nlicense: mit\n", None),
        ("---\nlicense: [\n---\n", None),
        ("---\n- license\n---\n", None),
        ("", None),
    ],
)
def test_the_head_of_a_card_names_the_licence(card, licence):
    assert licence_in(card) == licence


def test_a_checkpoint_without_a_card_has_no_known_licence(tmp_path):
    mini = Path(locate("mini", None).location)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((mini / name).read_bytes())
    assert licence_of(locate(str(tmp_path), None)) is None
