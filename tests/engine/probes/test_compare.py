"""Runs against each other: the right items are paired, by the right test, and layouts are the paper's."""

import numpy as np
import polars as pl
import pytest
from negengine.engine.errors import InputError
from negengine.engine.inference.model import MaskedLM
from negengine.engine.negation import score, select
from negengine.engine.negation.grid import Coreference
from negengine.engine.probes.compare import between_models, between_patterns, by_coreference, compare, read_finished
from negengine.engine.sentences.lexicon import load_lexicon
from negengine.engine.sentences.patterns import load_patterns
from rich.console import Console
from scipy import stats


@pytest.fixture(scope="module")
def runs(mini, tmp_path_factory):
    """Coreference → a scored run of two pairs."""
    model, made = MaskedLM(mini), {}
    for subject in (Coreference.PRONOUN, Coreference.OTHER_GENDER, Coreference.SAME_NAME):
        folder = tmp_path_factory.mktemp("runs") / subject
        settings = select.Settings(seed=0, pairs=2, lazy=True, coreference=subject)
        select.select(select.plan(mini, load_lexicon(), load_patterns(), settings), model, folder, session={})
        plan = score.plan(score.read_selected(folder), mini)
        score.score(plan, {pattern.name: model for pattern in load_patterns().all}, folder, session={})
        made[subject] = folder
    return made


def shown(table):
    with (console := Console(width=200)).capture() as captured:
        console.print(table)
    return captured.get()


def test_patterns_of_a_run_are_tested_on_the_same_triplets(runs):
    """Against SciPy on the table of a plain loop: how often one pattern repeats where the other does not."""
    run = runs[Coreference.PRONOUN]
    scores = pl.read_parquet(run / "scores.parquet")
    repeated = {(row["triplet"], row["pattern"]): row["repeated"] for row in scores.iter_rows(named=True)}
    n = scores["triplet"].n_unique()
    found = between_patterns(read_finished(run))
    assert len(found) == 6
    for row in found.iter_rows(named=True):
        only_first = sum(repeated[i, row["first"]] and not repeated[i, row["second"]] for i in range(n))
        only_second = sum(repeated[i, row["second"]] and not repeated[i, row["first"]] for i in range(n))
        assert row["n"] == n
        assert row["difference"] == pytest.approx((only_first - only_second) / n)
        wanted = stats.binomtest(only_first, only_first + only_second).pvalue if only_first + only_second else 1
        assert row["p"] == pytest.approx(wanted)
    assert (found["p_holm"] >= found["p"]).all()


def test_targets_are_the_papers_columns(runs):
    finished = [read_finished(folder) for folder in runs.values()]
    rows = by_coreference(finished)
    assert rows["coreference"].unique(maintain_order=True).to_list() == ["same-name", "other-gender", "pronoun"]
    for folder in runs.values():
        drops = pl.read_parquet(folder / "rates.parquet")["drop"].to_list()
        subject = read_finished(folder).coreference
        assert rows.filter(pl.col("coreference") == subject)["drop"].to_list() == drops
    text = shown(compare(finished)[1])
    assert "selected triplets" in text
    assert text.index("same name") < text.index("other name, other gender")
    assert "CpTp" not in text


def test_the_papers_figures_stand_in_brackets(runs, monkeypatch):
    finished = [read_finished(folder) for folder in runs.values()]
    for run in finished:
        object.__setattr__(run, "model", "roberta-large")
    text = shown(compare(finished)[1])
    assert "(60,800)" in text
    assert "(64.1)" in text
    assert "Table 8" in text


def test_two_models_are_compared_on_what_both_have(runs, tmp_path):
    """The second model is the first one with all repetitions of CpTn turned round, on all but 5 of the triplets."""
    first = read_finished(runs[Coreference.PRONOUN])
    own = first.outcomes()
    turned = own.with_columns(
        value=pl.when(pl.col("split") == "CpTn").then(1 - pl.col("value")).otherwise(pl.col("value"))
    ).filter(~pl.col("item").is_in(own["item"].unique().sort()[:5].implode()))
    second = read_finished(runs[Coreference.PRONOUN])
    object.__setattr__(second, "outcomes", lambda: turned)
    found = {row["split"]: row for row in between_models(first, second).iter_rows(named=True)}
    n = own["item"].n_unique() - 5
    assert {row["n"] for row in found.values()} == {n}
    values = own.filter(pl.col("split") == "CpTn", pl.col("item").is_in(turned["item"].implode()))["value"].to_numpy()
    assert found["CpTn"]["difference"] == pytest.approx(np.mean(values - (1 - values)))
    wanted = stats.binomtest(int(values.sum()), n).pvalue
    assert found["CpTn"]["p"] == pytest.approx(wanted)
    assert found["CpTn"]["p_holm"] == pytest.approx(min(1, 5 * wanted))
    assert found["CpTp"]["p"] == 1


def test_what_cannot_be_compared_is_told(runs, mini, tmp_path):
    select.select(
        select.plan(mini, load_lexicon(), load_patterns(), select.Settings(seed=0, pairs=1, lazy=True)),
        MaskedLM(mini),
        tmp_path / "selected",
        session={},
    )
    with pytest.raises(InputError, match=r"selected is selected, not scored: run `negengine score"):
        read_finished(tmp_path / "selected")
    with pytest.raises(InputError, match="nowhere"):
        read_finished(tmp_path / "nowhere")
    finished = [read_finished(runs[Coreference.PRONOUN])] * 3
    with pytest.raises(InputError, match="give two runs of two models"):
        compare(finished)
