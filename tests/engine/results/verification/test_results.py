"""A run or a model against what it should hold: damage of every kind is found, with its repair."""

import shutil

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, lie, remove_parts, rewrite
from negengine.engine.basics.reading import file_sha256
from negengine.engine.inference.exported import read_manifest, write_manifest
from negengine.engine.results.verification.model import verify_model
from negengine.engine.runs.lock import locked
from negengine.engine.runs.record import read_run

from .conftest import damage

AS_WRITTEN = "final files are as they were written"
PARTS = "parts are as they were written"
SESSIONS = "records of processes are as they were written"
FROM_PARTS = "tables are those of the parts"
FROM_SCORES = "tables follow from scores.parquet"


def verify(folder, **options):
    return ng.verify(folder, **{"sample": 0, **options})


def outcomes(verification, stage):
    return {check.what: str(check.outcome) for check in verification.checks if check.of == stage}


def flip(path):
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


def state(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_a_finished_run_is_not_changed_and_flipped_bits_and_files_of_others_are_told(scored, tmp_path):
    before, found = state(scored), verify(scored)
    assert not found.damage
    assert {outcome for stage in ("select", "score") for outcome in outcomes(found, stage).values()} == {"ok"}
    assert state(scored) == before
    with locked(scored), pytest.raises(ng.InputError, match=r"in use by process \d+"):
        verify(scored)
    with pytest.raises(ng.InputError):
        verify(scored.parent)
    # A flipped bit is found in parts and in final files.
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
    # Files of other programs and removed parts are not damage.
    (scored / "notes.txt").write_text("mine")
    (scored / "parts" / "score" / "part-00077.parquet").write_bytes(b"")
    (scored / "parts" / "other").mkdir()
    found = verify(scored)
    assert not found.damage
    names = "notes.txt, parts/other, parts/score/part-00077.parquet"
    assert list(found.notes) == [f"{scored}: not looked at, as nothing here has their digest: {names}"]
    remove_parts(scored)
    found = verify(scored)
    assert not found.damage
    score = outcomes(found, "score")
    assert (score[PARTS], score[FROM_PARTS], score[FROM_SCORES]) == ("not kept", "not kept", "ok")


def test_an_unfinished_run_and_a_shard_are_verified_as_far_as_possible(scored, model, small_lexicon, tmp_path):
    (scored / "score.done.json").unlink()
    found = verify(scored)
    assert not found.damage
    told = {AS_WRITTEN: "not checked", PARTS: "not finished", SESSIONS: "ok", FROM_PARTS: "not checked"}
    assert outcomes(found, "score") == told
    assert not any("no damage found" in line for line in found.remarks())
    assert found.remarks()[-1].startswith(f"{scored}: score is not finished; to repair it, run: ")
    assert "report" not in found.closing()
    folder = tmp_path / "shard"
    ng.select(model, lexicon=small_lexicon, shard="1/2", output=folder, progress=False)
    found = verify(folder)
    assert not found.damage
    assert outcomes(found, "select") == {PARTS: "ok", SESSIONS: "ok", FROM_PARTS: "not checked"}
    flip(folder / "parts" / "select" / "part-00000.parquet")
    assert damage(verify(folder)) == [("select", PARTS)]
    shutil.rmtree(folder / "parts")
    assert verify(folder).damage[0].detail == "1 of 1 are missing"


def test_another_cell_of_a_table_is_found_though_its_digest_is_right(scored, tmp_path):
    rates = pl.read_parquet(scored / "rates.parquet")
    lie(scored, "score", "rates.parquet", changed(rates, 1, drop_low=rates["drop_low"][1] + 1))
    for folder, what in ((scored, FROM_PARTS), (copy_without_parts(scored, tmp_path / "copy"), FROM_SCORES)):
        found = verify(folder)
        assert ("score", what) in damage(found)
        assert "rates.parquet: drop_low differs in 1 of 5 rows" in found.damage[0].detail
        assert f"remove {folder / 'scores.parquet'} {folder / 'rates.parquet'}, then run" in found.damage[0].repair
        lie(folder, "select", "triplets.parquet", pl.read_parquet(folder / "triplets.parquet"), tested=1)
        told = {check.what: check.detail for check in verify(folder).damage if check.of == "select"}
        assert "counts" in told[FROM_PARTS] if what == FROM_PARTS else told


def test_tables_that_do_not_follow_from_the_items_are_found_without_parts(several_tokens_run, tmp_path):
    folder = copy_without_parts(several_tokens_run, tmp_path / "run")
    for name in ("scores", "rates"):
        told = pl.read_parquet(folder / f"{name}.parquet")
        column = "repetitions" if name == "rates" else "repeated"
        lie(folder, "score", f"{name}.parquet", changed(told, 0, **{column: 1 - int(told[column][0])}))
        assert ("score", FROM_SCORES) in damage(verify(folder)), name
        lie(folder, "score", f"{name}.parquet", told)
    summary = ng.open(folder).selection.summary
    lie(folder, "select", "selection.json", {**summary, "selected": summary["selected"] - 1})
    assert ("select", "tables follow from triplets.parquet") in damage(verify(folder))


def test_records_of_processes_that_are_damaged_or_foreign_are_told(scored):
    [path] = (scored / "sessions" / "score").glob("*.json")
    flip(path)
    for name in ("sessions/notes.txt", "sessions/score/notes.txt", "sessions/score/sub/a.json"):
        (scored / name).parent.mkdir(exist_ok=True)
        (scored / name).write_text("{}")
    found = verify(scored)
    assert damage(found) == [("score", SESSIONS)]
    assert found.damage[0].repair.endswith(f"remove {path}")
    assert found.notes[0].endswith("sessions/notes.txt, sessions/score/notes.txt, sessions/score/sub/a.json")


def test_every_file_of_an_export_is_looked_at_or_named_with_the_command_that_repairs_it(exported):
    (exported / "notes.txt").write_text("mine")
    for path in sorted(exported.iterdir()):
        if path.name in {"export.json", "tokenizer.json", "notes.txt"}:  # the first two cannot even be opened
            continue
        flip(path)
        found = verify(exported)
        assert damage(found) == [(path.name, "the file is as it was written")]
        flip(path)
    with pytest.raises(ng.InputError, match=f"negengine export mini --output {exported} --force$"):
        found.refuse_faults()
    (exported / "config.json").unlink()
    assert ("config.json", "the file is as it was written") in damage(verify(exported))
    assert "not looked at, as export.json has no digest of them: notes.txt" in verify(exported).notes[0]
    path = exported / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ng.InputError, match=r"tokenizer\.json is damaged .* export it again with --force$"):
        verify(exported)


def rewrite_manifest(folder, **values):
    """Write another export.json, with its digest."""
    _, info = read_manifest(folder)
    write_manifest(folder, {key: value for key, value in {**info, **values}.items() if key != "content_sha256"})


def test_an_export_has_no_damage_and_is_not_changed(exported):
    before, found = state(exported), verify(exported, sample=4, torch="mini")
    assert not found.damage
    with pytest.raises(ng.InputError, match="model and lexicon are for runs"):
        verify(exported, model="mini")
    assert state(exported) == before
    compared = [(check.of, check.what) for check in found.checks if check.what.startswith(("close", "equal"))]
    assert compared == [
        ("model.onnx", "equal to PyTorch within rounding"),
        ("model.cpu.onnx", "equal to model.onnx within rounding"),
        ("model.int8.onnx", "close to model.onnx"),
        ("model.fp16.onnx", "close to model.onnx"),
    ]
    assert sum("error of the margin: mean" in check.detail for check in found.checks) == 2


def test_a_graph_that_computes_something_else_is_found_though_its_digest_is_right(exported):
    for name, torch, by in (("model.cpu.onnx", None, "model.onnx"), ("model.onnx", "mini", "PyTorch")):
        shutil.copy(exported / "model.int8.onnx", exported / name)
        _, info = read_manifest(exported)
        rewrite_manifest(exported, files={**info["files"], name: file_sha256(exported / name)})
        assert (name, f"equal to {by} within rounding") in damage(verify(exported, sample=4, torch=torch))


def test_what_cannot_be_compared_with_sentences_is_verified_otherwise(causal, detector):
    assert not verify(causal("gpt2").folder, sample=4).damage
    checks = verify_model(detector, 5, 0, None).checks
    assert not any(check.is_damage for check in checks)
    [skipped] = [check.detail for check in checks if str(check.outcome) == "not checked"]
    assert skipped == "its labels were compared with PyTorch when it was exported"
