"""`negengine verify`: the table on stdout, the damage in the last line, and the exit status."""

import json
import shutil


def test_a_run_without_damage(command, scored_run):
    done = command("verify", scored_run, "--sample", "3")
    assert done.status == 0
    assert "3 agree, 0 near-ties, 0 wrong" in " ".join(done.out.replace("│", " ").split())
    assert f"{scored_run}: no damage found" in done.out


def test_damage_is_named_in_the_last_line_with_its_repair(command, scored_run, tmp_path):
    run = shutil.copytree(scored_run, tmp_path / "run")
    (run / "rates.parquet").write_bytes(b"")
    done = command("verify", run, "--sample", "0")
    assert done.status == 2
    assert "damaged: rates.parquet changed" in " ".join(done.out.replace("│", " ").split())
    assert done.said.startswith(f"negengine: {run}: score: final files are as they were written: rates.parquet changed")
    assert "to repair it, run: the same call or command again" in done.said


def test_json_is_one_document(command, scored_run):
    done = command("verify", scored_run, "--sample", "0", "--json")
    found = json.loads(done.out)
    assert found["damaged"] is False
    assert {"of", "what", "n", "outcome", "detail", "repair"} <= set(found["checks"][0])


def test_what_is_not_there_is_one_line(command):
    done = command("verify", "nothing")
    assert done.status == 2
    assert done.said.startswith("negengine: no exported model nothing")
