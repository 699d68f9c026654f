"""Files, parts, tables and items of a run against each other: damage of every kind is found, with its repair."""

import shutil

import negengine as ng
import polars as pl
import pytest
from lies import changed, lie, remove_parts, rewrite
from negengine.engine.runs.lock import locked
from negengine.engine.runs.record import read_run

AS_WRITTEN = "final files are as they were written"
PARTS = "parts are as they were written"
FROM_PARTS = "tables are those of the parts"
FROM_SCORES = "tables follow from scores.parquet"


def verify(folder, **options):
    return ng.verify(folder, **{"sample": 0, **options})


def outcomes(verification, stage):
    return {check.what: str(check.outcome) for check in verification.checks if check.of == stage}


def damage(verification):
    return [(check.of, check.what) for check in verification.damage]


def flip(path, position=-20):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def state(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_finished_run_has_no_damage_and_is_not_changed(scored):
    before = state(scored)
    found = verify(scored)
    assert not found.damage
    assert set(outcomes(found, "select").values()) == {"ok"}
    assert set(outcomes(found, "score").values()) == {"ok"}
    assert state(scored) == before


@pytest.mark.parametrize(("name", "stage"), [("triplets.parquet", "select"), ("rates.parquet", "score")])
def test_a_flipped_bit_of_a_final_file_is_found(scored, name, stage):
    flip(scored / name)
    found = verify(scored)
    assert damage(found)[0] == (stage, AS_WRITTEN)
    assert found.damage[0].detail == f"{name} changed"


def test_a_missing_file_is_named_with_the_command_that_makes_it_again(scored):
    record = read_run(scored)
    record.stages["score"].sessions[-1].command = f"negengine score {scored}"
    rewrite(scored, record)
    (scored / "rates.parquet").unlink()
    found = verify(scored)
    assert damage(found) == [("score", AS_WRITTEN)]
    with pytest.raises(ng.InputError, match=f"rates.parquet missing; to repair it, run: negengine score {scored}$"):
        found.refuse_damage()


@pytest.mark.parametrize("name", ["part-00000.parquet", "part-00000.json"])
def test_a_flipped_bit_of_a_part_is_found(scored, name):
    flip(scored / "parts" / "score" / name)
    found = verify(scored)
    assert damage(found) == [("score", PARTS)]
    assert outcomes(found, "score")[FROM_PARTS] == "not checked"
    assert outcomes(found, "score")[FROM_SCORES] == "ok"


def test_removed_parts_are_no_damage(scored):
    remove_parts(scored)
    found = verify(scored)
    assert not found.damage
    assert outcomes(found, "select")[PARTS] == "not kept"
    assert outcomes(found, "score")[FROM_PARTS] == "not kept"
    assert outcomes(found, "score")[FROM_SCORES] == "ok"


def test_files_of_others_are_named(scored):
    (scored / "notes.txt").write_text("mine")
    (scored / "parts" / "score" / "part-00077.parquet").write_bytes(b"")
    (scored / "parts" / "other").mkdir()
    found = verify(scored)
    assert not found.damage
    names = "notes.txt, parts/other, parts/score/part-00077.parquet"
    assert found.notes == (f"{scored}: not written by this run: {names}",)


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


def test_other_counts_than_those_of_the_parts_are_found(scored):
    record = read_run(scored)
    record.stages["select"].done.counts["tested"] += 1
    rewrite(scored, record)
    found = verify(scored)
    assert ("select", FROM_PARTS) in damage(found)
    assert "counts" in found.damage[0].detail


LIES = {
    "a repetition that has another rank": ("repeated", "the verb is repeated where its rank is 1, and nowhere else"),
    "a probability above 1": (
        "top1_logprob",
        "log-probabilities are at most 0, and the verb's at most that of the first choice",
    ),
    "another word": ("top1", "the first choice is the verb where the verb is repeated"),
}


@pytest.mark.parametrize(("column", "what"), LIES.values(), ids=LIES)
def test_scores_that_contradict_themselves_are_found(scored, column, what):
    remove_parts(scored)
    scores = pl.read_parquet(scored / "scores.parquet")
    row = int(scores["repeated"].arg_max())
    value = {"repeated": False, "top1_logprob": 0.5, "top1": "walked"}[column]
    lied = changed(scores, row, **{column: value})
    if column == "repeated":
        lied = changed(lied, row, expected_logprob=scores["expected_logprob"][row] - 1)
    lie(scored, "score", "scores.parquet", lied)
    assert ("score", what) in damage(verify(scored))


def test_rates_that_are_not_those_of_the_scores_are_counted_again(scored):
    remove_parts(scored)
    rates = pl.read_parquet(scored / "rates.parquet")
    lie(scored, "score", "rates.parquet", changed(rates, 1, repetitions=rates["repetitions"][1] + 1))
    found = verify(scored)
    assert ("score", "repetitions and rates are those of the scores") in damage(found)


def test_a_triplet_that_is_scored_twice_is_found(scored):
    remove_parts(scored)
    scores = pl.read_parquet(scored / "scores.parquet")
    lie(scored, "score", "scores.parquet", pl.concat([scores[1:], scores[-1:]]))
    assert ("score", "each triplet is scored once in each pattern") in damage(verify(scored))


def test_triplets_in_another_order_than_their_keys_are_found(selected):
    """Keys are those of the bundled words: where a lexicon has forms by gender, triplets do not have the key's word."""
    remove_parts(selected)
    triplets = pl.read_parquet(selected / "triplets.parquet")
    swapped = pl.concat([triplets[1:2], triplets[:1], triplets[2:]]).with_columns(triplet=triplets["triplet"])
    lie(selected, "select", "triplets.parquet", swapped)
    assert not verify(selected).damage


def test_a_summary_that_is_not_that_of_the_triplets_is_found(selected):
    remove_parts(selected)
    found = ng.open(selected).summary
    lie(selected, "select", "selection.json", {**found, "selected": found["selected"] - 1})
    said = damage(verify(selected))
    assert ("select", "tables follow from triplets.parquet") in said
    assert ("select", "selection.json agrees with the triplets and with itself") in said


def test_a_shard_is_verified_as_far_as_possible(mini, small_lexicon, tmp_path):
    model = ng.load(mini.folder, device="cpu", precision="fp32")
    ng.select(model, lexicon=small_lexicon, shard="1/2", output=tmp_path / "shard", progress=False)
    found = verify(tmp_path / "shard")
    assert not found.damage
    assert outcomes(found, "select") == {PARTS: "ok", FROM_PARTS: "not checked"}
    flip(tmp_path / "shard" / "parts" / "select" / "part-00000.parquet")
    assert damage(verify(tmp_path / "shard")) == [("select", PARTS)]
    shutil.rmtree(tmp_path / "shard" / "parts")
    assert verify(tmp_path / "shard").damage[0].detail == "1 of 1 are missing"


def test_an_unfinished_run_is_no_damage(scored):
    record = read_run(scored)
    record.stages["score"].done = None
    rewrite(scored, record)
    found = verify(scored)
    assert not found.damage
    assert outcomes(found, "score") == {AS_WRITTEN: "not checked", PARTS: "ok", FROM_PARTS: "not checked"}


def test_a_run_at_work_is_refused_in_one_line(scored):
    with locked(scored), pytest.raises(ng.InputError, match=r"in use by process \d+"):
        verify(scored)


def test_what_is_neither_a_run_nor_a_model_is_refused(tmp_path):
    with pytest.raises(ng.InputError):
        verify(tmp_path)
