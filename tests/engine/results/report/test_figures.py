"""Figures as files: of a size that a paper takes, and never in the place of other files."""

import json
import re
import struct

import negengine as ng
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError

NAMES = {"drops", "differences", "replacements", "ranks", "log-probabilities"}
NAMES |= {"by-gender", "by-verb", "by-profession", "by-name"}


@pytest.fixture(scope="module")
def written(scores, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    return folder, ng.figures(scores, folder)


def test_every_figure_is_written_in_every_form(written):
    folder, paths = written
    wanted = {f"{stem}.{end}" for stem in NAMES for end in ("svg", "pdf", "png", "csv")}
    assert {path.name for path in paths if path.stat().st_size} == wanted
    assert {path.name for path in folder.iterdir()} == wanted | {"figures.json"}


def test_a_figure_fits_a_column_or_a_page_and_is_readable_in_print(written):
    folder, _ = written
    for name, millimetres in {"drops": 77, "ranks": 77, "by-verb": 160}.items():
        svg = (folder / f"{name}.svg").read_text("utf-8")
        width, pixels = (float(re.search(key, svg)[1]) for key in (r'width="([\d.]+)mm"', r'viewBox="0 0 ([\d.]+)'))
        assert 0.6 * millimetres < width <= millimetres
        box = re.search(rb"MediaBox \[0 0 ([\d.]+)", (folder / f"{name}.pdf").read_bytes())
        assert float(box[1]) == pytest.approx(width / 25.4 * 72, abs=1)
        png = (folder / f"{name}.png").read_bytes()
        assert struct.unpack(">I", png[16:20])[0] == pytest.approx(width / 25.4 * 300, abs=5)
        sizes = [float(size) * width / 25.4 * 72 / pixels for size in re.findall(r'font-size="([\d.]+)px"', svg)]
        assert min(sizes) >= 5.5, name


def test_the_figures_show_the_content_of_rates_parquet(written, scores):
    folder, _ = written
    drops = pl.read_csv(folder / "drops.csv")
    columns = ("pattern", "n", "repetitions", "repetition_rate", "drop", "drop_low", "drop_high")
    for row, found in zip(scores.rates.to_dicts(), drops.to_dicts(), strict=True):
        assert {key: found[key] for key in columns} == pytest.approx({key: row[key] for key in columns})
    ranks = pl.read_csv(folder / "ranks.csv").filter(pl.col("rank") == "1")
    assert ranks.select("pattern", repetitions="n").rows() == scores.rates.select("pattern", "repetitions").rows()


def test_a_call_replaces_its_own_files_and_no_others(written, scores, other_scores, tmp_path):
    folder, paths = written
    before = (folder / "drops.svg").read_bytes()
    assert ng.figures(scores, folder) == paths
    assert (folder / "drops.svg").read_bytes() == before
    (tmp_path / "drops.pdf").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"drops.pdf exists and was not written by"):
        ng.figures(scores, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["drops.pdf"]
    for content in ("", "[1]", '{"figures": 3}', '{"files": []}'):
        (tmp_path / "figures.json").write_text(content)
        with pytest.raises(InputError, match=r"figures\.json: not as negengine writes it"):
            ng.figures(scores, tmp_path)
    with pytest.raises(InputError, match="not a folder"):
        ng.figures(scores, tmp_path / "figures.json")
    names = [path.name for path in ng.figures([scores, other_scores], tmp_path / "both")]
    assert len(names) == len(set(names))
    assert "all-drops.pdf" in names
    assert json.loads((tmp_path / "both" / "figures.json").read_text())["figures"] == sorted(names)
