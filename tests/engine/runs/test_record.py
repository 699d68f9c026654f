"""run.json is checked when it is read: each wrong one is one line. A session tells machine, versions, time and work."""

import hashlib
import platform
import re
from datetime import UTC, datetime, timedelta

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.limits import cpu_threads
from negengine.engine.basics.sealed import seal
from negengine.engine.basics.versions import DECIDING, source_commit, versions
from negengine.engine.inference import tally
from negengine.engine.inference.device import threads_each
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.runs import record as own
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.merge import merge
from negengine.engine.runs.processes import Processes
from negengine.engine.runs.record import FORMAT, RUN_FILE, Recorded, Session, differences, read_record, read_run
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import Choices
from small_stages import Counted, hold, part, record, run, work


def document(name="select", **stage) -> bytes:
    return seal({"format": FORMAT, "negengine": "1", "stages": {name: {"identity": {"seed": 0}, "parts": 3, **stage}}})


DEEP = b'{"format": 6, "negengine": "1", "stages": {"a": {"parts": 1, "identity": {"x": ' + b"[" * 100_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"format": ' + b"1" * 10_000 + b"}",
        DEEP + b',\n  "content_sha256": "%b"\n}\n' % hashlib.sha256(DEEP).hexdigest().encode(),
        document(parts=-1),
        document(shard="x" * 5_000),
        document("../a"),
    ],
)
def test_a_run_json_of_something_else_is_one_line_and_nothing_changes(tmp_path, content):
    (tmp_path / RUN_FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"run\.json: not as negengine writes it") as caught:
        work(tmp_path)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [RUN_FILE]
    assert (tmp_path / RUN_FILE).read_bytes() == content


OTHER_PURPOSE = [".lock", "Run.JSON", "PARTS", "sessions", "score.done.json", "." + "x" * 60]


@pytest.mark.parametrize("name", ["../x", *OTHER_PURPOSE])  # basics/test_paths has all names that lead elsewhere
def test_a_final_file_is_a_plain_name_in_the_folder(tmp_path, name):
    (tmp_path / RUN_FILE).write_bytes(document())
    files = dict.fromkeys(["triplets.parquet", name, "parts"], "0" * 64)
    (tmp_path / "select.done.json").write_bytes(seal({"files": files, "format": FORMAT}))
    with pytest.raises(InputError, match=rf"\({re.escape(repr(name[:40]))} is not the name of a final file"):
        read_run(tmp_path)


CUT = f"word {'w' * 60}, now {'w' * 60}…; digest abababababab…, now abababababab…; short {'ab' * 19}a, now {'0' * 12}"
LONG = {"word": "w" * 61, "digest": "ab" * 21, "short": "0" * 12}


def test_differences_are_told_key_by_key_and_a_value_is_cut_only_where_it_is_too_long():
    for old, new, told in (
        ({"seed": 0, "gone": 1}, {"seed": 1, "new": [1]}, "seed 0, now 1; gone 1, now none; new none, now [1]"),
        (LONG, LONG, ""),
        ({"a": ["ü", None]}, {"a": True}, 'a ["ü", null], now true'),
        ({"word": "w" * 60, "digest": "ab" * 20, "short": "ab" * 19 + "a"}, LONG, CUT),
    ):
        assert differences(old, new) == told
        assert differences(old, new, "there") == told.replace("now", "there")


def test_a_folder_in_which_a_run_only_began_is_not_foreign_and_what_a_run_from_elsewhere_lacks_is_told(tmp_path):
    for name in (".lock", ".run.json.0f1e.negengine-tmp"):
        (tmp_path / name).touch()
        assert read_record(tmp_path) is None
    for name in ("mine.txt", "other.txt"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"holds 'mine\.txt' but no run\.json"):
        read_record(tmp_path)
    recorded = Recorded({"seed": 0})
    assert (recorded["seed"], recorded.get("pairs")) == (0, None)
    with pytest.raises(InputError, match=r"run\.json does not say 'pairs' of a stage"):
        recorded["pairs"]
    assert own.mask_token({"mask token": "[MASK]"}, tmp_path) == "[MASK]"
    with pytest.raises(InputError, match=r"run\.json does not name the mask token"):
        own.mask_token({"mask token": 5}, tmp_path)


@pytest.mark.parametrize("executor", [ThisProcess(CPU), Processes((CPU, CPU))])
def test_a_session_tells_versions_machine_and_workers_and_what_the_models_ran(tmp_path, executor):
    tally.count(1_000, 1_000)  # of something else in this process
    run(Counted(parts=4), tmp_path, executor, session=Session(command="negengine squares"))
    (session,) = record(tmp_path, Counted).sessions
    assert (session.parts, session.sentences, session.tokens) == (4, 1 + 2 + 3 + 4, 7 * (1 + 2 + 3 + 4))
    told = (session.command, session.python, session.source, session.machine["cores"])
    assert told == ("negengine squares", platform.python_version(), source_commit(), cpu_threads())
    assert session.packages == versions(DECIDING)
    assert {"numpy", "polars", "tokenizers", "scipy"} < set(session.packages)
    hardware = {"hardware": session.machine["processor"]} if "processor" in session.machine else {}
    threads = threads_each((CPU,) * len(getattr(executor, "devices", "1")))
    assert session.workers == [{"device": "cpu", "threads": own, **hardware} for own in threads]


def test_a_merged_run_has_the_sessions_of_its_shards_which_name_neither_host_nor_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shards = [run(Counted(), tmp_path / f"shard {i}", shard=Shard(i, 2)) for i in (1, 2)]
    merge(shards, tmp_path / "merged", {Counted.name: Counted.publish})
    first, second, merging = record(tmp_path / "merged", Counted).sessions
    assert first.workers == record(shards[0], Counted).sessions[0].workers
    assert (first.sentences + second.sentences, merging.merged) == (10, ["~/shard 1", "~/shard 2"])
    text = "".join(path.read_text() for path in (tmp_path / "merged").rglob("*.json"))
    assert platform.node() not in re.sub(r'"(host|source)": ".*"', "", text)
    assert str(tmp_path) not in text
    own.ended_early(first, InputError(f"{tmp_path}/x: no space left"))
    assert first.failed == "~/x: no space left"


def test_a_killed_session_lasted_until_its_last_part_and_any_other_until_its_process_ends(tmp_path, monkeypatch):
    clock, seen, before = [1_000.0], [], datetime.now(UTC).replace(microsecond=0)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with hold(tmp_path / "run", started=400.0) as held:
        for number in range(2):
            clock[0] += 60
            held.write_part(number, part(number))
            (session,) = read_run(tmp_path / "run").stages["select"].sessions
            seen.append((session.parts, session.seconds))
        clock[0] += 1_000.0016
    assert seen == [(1, 660.0), (2, 720.0)]
    (session,) = read_run(tmp_path / "run").stages["select"].sessions
    assert session.seconds == 1_720.002
    assert before <= datetime.fromisoformat(session.started) + timedelta(seconds=660) <= datetime.now(UTC)


def test_the_precision_is_that_of_the_patterns_or_the_workers():
    for calibration, workers, told in (
        ({"Cp": {"precision": "mixed"}, "Cn": {"precision": "mixed"}, "Cv": {}}, [], "mixed"),
        ({"Cp": {"precision": "mixed"}, "Cn": {"precision": "fp32"}}, [], {"Cp": "mixed", "Cn": "fp32"}),
        ({}, [{"precision": "fp32"}, {"device": "cpu"}], "fp32"),
        ({}, [{"device": "webgpu:0", "precision": "webgpu"}] * 2, "webgpu"),
        ({"Cp": {"precision": "mixed"}}, [{"precision": "fp32"}], "mixed"),
        ({}, [], None),
    ):
        own.used_models(session := Session(), workers, Choices(calibration))
        assert session.precision == told
