"""Published figures: whose they are, and their unit."""

import pytest
from negengine.engine.views.published import fraction, published_name, read_published


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "published.toml").write_text(
        '[hub]\nlarge = ["model-large", "Org/model-large"]\n[rates]\nlarge = 27.3\n'
    )
    return tmp_path


def test_a_model_is_known_by_its_hub_id_or_bare_name(folder):
    assert published_name(folder, "Org/model-large") == published_name(folder, "model-large") == "large"
    assert published_name(folder, "large") is None


def test_percentages_become_the_nearest_fractions(folder):
    assert fraction(read_published(folder)["rates"]["large"]) == 0.273
    assert [fraction(percent) for percent in (99.6, 0.7, 58.3)] == [0.996, 0.007, 0.583]
