"""Files, parts, tables and items of a run against each other: damage of every kind is found, with its repair."""

import shutil

import negengine as ng
import polars as pl
import pytest
from lies import changed, lie, remove_parts, rewrite
from negengine.engine.runs.lock import locked
from negengine.engine.runs.record import read_run

from .conftest import damage

AS_WRITTEN = "final files are as they were written"
PARTS = "parts are as they were written"
FROM_PARTS = "tables are those of the parts"
FROM_SCORES = "tables follow from scores.parquet"


def verify(folder):
    return ng.verify(folder, sample=0)


def outcomes(verification, stage):
    return {check.what: str(check.outcome) for check in verification.checks if check.of == stage}


def flip(path, position=-20):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_finished_run_has_no_damage_and_is_not_changed(scored):
    def state():
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in scored.rglob("*") if path.is_file()}

    before = state()
    found = verify(scored)
    assert not found.damage
    assert {outcome for stage in ("select", "score") for outcome in outcomes(found, stage).values()} == {"ok"}
    assert state() == before
    with locked(scored), pytest.raises(ng.InputError, match=r"in use by process \d+"):
        verify(scored)
    with pytest.raises(ng.InputError):
        verify(scored.parent)


def test_a_flipped_bit_is_found_in_final_files_and_parts(scored, tmp_path):
    for name in ("part-00000.parquet", "part-00000.json"):
        path = scored / "parts" / "score" / name
        flip(path)
        found = verify(scored)
        assert damage(found) == [("score", PARTS)]
        assert (outcomes(found, "score")[FROM_PARTS], outcomes(found, "score")[FROM_SCORES]) == ("not checked", "ok")
        flip(path)
    for name, stage in {"triplets.parquet": "select", "rates.parquet": "score"}.items():
        flip(scored / name)
        first = verify(scored).damage[0]
        assert (first.of, first.what, first.detail) == (stage, AS_WRITTEN, f"{name} changed")
        flip(scored / name)
    copy = shutil.copytree(scored, tmp_path / "copy")  # the run's own command would repair the other one
    record = read_run(copy)
    record.stages["score"].sessions[-1].again = "negengine score runs/other"
    rewrite(copy, record)
    (copy / "rates.parquet").unlink()
    command = f"negengine score runs/other --output {copy}"
    with pytest.raises(ng.InputError, match=f"rates.parquet missing; to repair it, run: {command}$"):
        verify(copy).refuse_faults()


def test_removed_parts_and_files_of_others_are_no_damage(scored):
    (scored / "notes.txt").write_text("mine")
    (scored / "parts" / "score" / "part-00077.parquet").write_bytes(b"")
    (scored / "parts" / "other").mkdir()
    found = verify(scored)
    assert not found.damage
    names = "notes.txt, parts/other, parts/score/part-00077.parquet"
    assert list(found.notes) == [f"{scored}: not written by this run: {names}"]
    remove_parts(scored)
    found = verify(scored)
    assert not found.damage
    score = outcomes(found, "score")
    assert (score[PARTS], score[FROM_PARTS], score[FROM_SCORES]) == ("not kept", "not kept", "ok")


def test_an_unfinished_run_and_a_shard_are_verified_as_far_as_possible(scored, mini, small_lexicon, tmp_path):
    (scored / "score.done.json").unlink()
    found = verify(scored)
    assert not found.damage
    assert outcomes(found, "score") == {AS_WRITTEN: "not checked", PARTS: "ok", FROM_PARTS: "not checked"}
    model, folder = ng.load(mini.folder, device="cpu", precision="fp32"), tmp_path / "shard"
    ng.select(model, lexicon=small_lexicon, shard="1/2", output=folder, progress=False)
    found = verify(folder)
    assert not found.damage
    assert outcomes(found, "select") == {PARTS: "ok", FROM_PARTS: "not checked"}
    flip(folder / "parts" / "select" / "part-00000.parquet")
    assert damage(verify(folder)) == [("select", PARTS)]
    shutil.rmtree(folder / "parts")
    assert verify(folder).damage[0].detail == "1 of 1 are missing"


@pytest.mark.parametrize(("kept", "what"), [(True, FROM_PARTS), (False, FROM_SCORES)])
def test_another_cell_of_a_table_is_found_though_its_digest_is_right(scored, kept, what):
    if not kept:
        remove_parts(scored)
    rates = pl.read_parquet(scored / "rates.parquet")
    lie(scored, "score", "rates.parquet", changed(rates, 1, drop_low=rates["drop_low"][1] + 1))
    found = verify(scored)
    assert ("score", what) in damage(found)
    assert "rates.parquet: drop_low in row 2 is" in found.damage[0].detail
    assert f"remove {scored / 'scores.parquet'} {scored / 'rates.parquet'}, then run" in found.damage[0].repair
    lie(scored, "select", "triplets.parquet", pl.read_parquet(scored / "triplets.parquet"), tested=1)
    told = {check.what: check.detail for check in verify(scored).damage if check.of == "select"}
    assert ("counts" in told[FROM_PARTS]) if kept else told


def test_results_that_contradict_themselves_are_found(scored):
    """Each lie alone, with the digest that the writer itself would give it."""
    remove_parts(scored)
    scores, rates = (pl.read_parquet(scored / f"{name}.parquet") for name in ("scores", "rates"))
    row = int(scores["repeated"].arg_max())
    lied = {"repeated": False, "expected_logprob": scores["expected_logprob"][row] - 1}
    last = {name: scores[name][-1] for name in ("triplet", "pattern")}
    for what, values in {
        "the verb is repeated where its rank is 1, and nowhere else": lied,
        "log-probabilities are at most 0, and the verb's at most that of the first choice": {"top1_logprob": 0.5},
        "the first choice is the verb where the verb is repeated": {"top1": "walked"},
        "each triplet is scored once in each pattern": last,
    }.items():
        lie(scored, "score", "scores.parquet", changed(scores, row, **values))
        assert ("score", what) in damage(verify(scored))
    lie(scored, "score", "scores.parquet", scores)
    lie(scored, "score", "rates.parquet", changed(rates, 1, repetitions=rates["repetitions"][1] + 1))
    assert ("score", "repetitions and rates are those of the scores") in damage(verify(scored))
    summary = ng.open(scored).selection.summary
    lie(scored, "select", "selection.json", {**summary, "selected": summary["selected"] - 1})
    found = damage(verify(scored))
    assert ("select", "tables follow from triplets.parquet") in found
    assert ("select", "selection.json agrees with the triplets and with itself") in found


def test_lies_about_verbs_of_several_tokens_are_found_without_parts(whole_words_run, tmp_path):
    folder = shutil.copytree(whole_words_run, tmp_path / "run")
    remove_parts(folder)
    name = "scores_several_tokens.parquet"
    scores = pl.read_parquet(folder / name)
    row = int(scores.with_row_index().filter("repeated").item(0, "index"))
    lies = ({"expected_rank": 5}, {"expected_logprob": 1.0}, {"top1": "walk"}, {"repeated": False, "expected_rank": 2})
    for values in lies:
        lie(folder, "score", name, changed(scores, row, **values))
        assert damage(verify(folder)), values
    lie(folder, "score", name, scores)
    name = "triplets_several_tokens.parquet"
    lie(folder, "select", name, changed(pl.read_parquet(folder / name), 0, tokens=9))
    what = "verbs of several tokens: each has a number of tokens that the selection knows"
    assert ("select", what) in damage(verify(folder))
