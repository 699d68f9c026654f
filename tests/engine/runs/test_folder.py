"""A run folder keeps what is finished, whatever kills the process, fails on the disk or damages a file."""

import contextlib
import functools
import json
import os
from pathlib import Path

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.reading import MOST_JSON
from negengine.engine.runs import lock
from negengine.engine.runs.part import EncodedPart, PartFiles, part_rows
from negengine.engine.runs.record import ANOTHER_FOLDER, read_run
from negengine.engine.runs.results import finished_stage
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import COLUMNS, Choices, PartResult
from small_stages import IDENTITY, PARTS, everything, hold, part, publish, results, rows, work


@pytest.fixture
def place(tmp_path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def whole(tmp_path):
    return results(work(tmp_path / "undisturbed"))


def stage_of(place):
    return read_run(place).stages["select"]


def unfinished(place):
    return work(place, upto=2)


def test_rows_come_in_the_order_of_the_parts_and_counts_are_summed(place, whole):
    with hold(place) as run:
        with pytest.raises(ValueError, match=r"\[0, 1, 2\]"):
            run.finish(publish)
        for number in (2, 0, 1):
            run.write_part(number, part(number))
        run.finish(publish)
        assert finished_stage(place, "select").finished  # on disk at once
    assert results(place) == whole
    parts = [f"parts/select/part-0000{n}.{kind}" for n in range(PARTS) for kind in ("json", "parquet")]
    assert sorted(whole) == [*parts, "select.done.json", "selection.json", "triplets.parquet"]
    assert pl.read_parquet(place / "triplets.parquet").equals(pl.concat(map(rows, range(PARTS))))
    summed = {"tested": 10 + 11 + 12, "rows": 2 + 3 + 4}
    assert json.loads((place / "selection.json").read_text()) == finished_stage(place, "select").counts == summed


def test_a_part_done_otherwise_makes_the_stage_unfinished_before_it_is_written(place, monkeypatch):
    work(place)
    with monkeypatch.context() as patch:
        patch.setattr(PartFiles, "write", None)  # fails at once
        with pytest.raises(TypeError), hold(place) as run:
            run.write_part(1, part(2))
    with pytest.raises(InputError, match="select is not finished"):
        finished_stage(place, "select")
    with hold(place) as run:
        run.write_part(1, EncodedPart.of(PartResult(rows(2), {"tested": 0})))
    work(place)
    assert pl.read_parquet(place / "triplets.parquet").equals(pl.concat([rows(0), rows(2), rows(2)]))


def test_run_json_tells_what_made_it_and_the_newest_metadata_are_kept(place):
    for told, expected in (("there", "there"), ("here", "here"), (None, "here")):
        work(place, **({"metadata": {"model folder": told}, "origin": {"call": told}} if told else {}))
        record = stage_of(place)
        assert (record.identity, record.finished) == (IDENTITY, True)
        assert record.metadata == {"model folder": expected, "call": "there"}  # its origin is recorded once
    (session,) = record.sessions
    assert (session.parts, None in {session.started, session.seconds, session.negengine}) == (3, False)


def test_rows_are_flushed_before_their_marker_run_json_is_written_once_and_a_session_is_not_flushed(
    place, open_files, monkeypatch
):
    flushed, replaced = [], []

    def seen(descriptor):
        number = os.fstat(descriptor).st_ino
        flushed.append(next(path.name for path in place.rglob("*") if path.stat().st_ino == number))

    def renamed(source, target, real=os.replace):
        flushed[:] = [target.name if own == source.name else own for own in flushed]
        replaced.append(target.name)
        real(source, target)

    with hold(place) as run:
        run.write_part(0, part(0))
        run.set_choices(Choices({}))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", seen)
            patch.setattr(os, "replace", renamed)
            opened = open_files()
            run.write_part(1, part(1))
            run.begin()
            assert open_files() == opened
    (session,) = (path.name for path in place.glob("sessions/select/*"))
    assert session.startswith("00001-")
    assert flushed == ["part-00001.parquet", "select", "part-00001.json", "select"]
    assert replaced == ["part-00001.parquet", "part-00001.json", session]
    assert (
        b"null" not in (place / "sessions" / "select" / session).read_bytes()
    )  # a field without a value is not written
    assert json.loads((place / "run.json").read_text())["format"] == 6


@pytest.mark.parametrize("parts", range(PARTS + 1))
def test_of_two_machines_without_common_locks_the_later_goes_on_and_nothing_is_lost(place, whole, monkeypatch, parts):
    monkeypatch.setattr(lock, "lock_descriptor", lambda descriptor, blocking: True)
    with contextlib.ExitStack() as machines:
        first = machines.enter_context(hold(place))
        for number in range(parts):
            first.write_part(number, part(number))
        second = machines.enter_context(hold(place))
        assert second.missing_parts == [*range(parts, PARTS)]
        second.set_choices(Choices({"Cp": {"bound": 1.0}}))
        before = everything(place)
        refused = [lambda: first.set_choices(Choices({"Cp": {"bound": 2.0}})), lambda: first.write_part(0, part(2))]
        for write in [*refused, *([] if first.missing_parts else [lambda: first.finish(publish)])]:
            with pytest.raises(InputError, match=rf"process {os.getpid()} on .* has begun to work here"):
                write()
            assert everything(place) == before
        for number in second.missing_parts:
            second.write_part(number, part(number))
        second.finish(publish)
    assert results(place) == whole
    assert stage_of(place).calibration == {"Cp": {"bound": 1.0}}


def test_temporary_files_of_killed_processes_are_removed_wherever_they_lie(place):
    unfinished(place)
    left = [place / name / ".x.json.f618c38e.negengine-tmp" for name in ("", "parts/select", "sessions/select")]
    for path in left:
        path.touch()
    work(place)
    assert not any(path.exists() for path in left)
    assert not [path for path in everything(place) if str(path).endswith("negengine-tmp")]


@pytest.mark.parametrize("name", ["parts", "parts/select", "sessions", "sessions/select", "sessions/other"])
def test_nothing_is_written_or_removed_behind_a_link_in_the_place_of_a_folder(place, name):
    own, outside = unfinished(place) / name, place.with_name("outside")
    if own.exists():
        own.rename(outside)
    outside.mkdir(exist_ok=True)
    (outside / "part-00002.parquet").write_text("of the user")
    (outside / ".x.negengine-tmp").write_text("of the user")
    own.symlink_to(outside)
    before = everything(outside)
    with pytest.raises(InputError, match=f"run/{name}: a link, not a folder, so nothing is written there"):
        work(place)
    assert everything(outside) == before


@pytest.mark.parametrize("name", ["run.json", "parts/select/part-00000.json", "triplets.parquet", "select.done.json"])
@pytest.mark.parametrize("make", [Path.symlink_to, lambda path, _: os.mkfifo(path)])
def test_a_link_or_a_pipe_in_the_place_of_a_file_is_replaced_or_refused_at_once(place, whole, name, make):
    own, outside = work(place) / name, place.with_name("outside")
    own.rename(outside)
    make(own, outside)
    (place / "selection.json").unlink()  # so that all parts are read
    before = outside.read_bytes()
    refused = contextlib.nullcontext()
    if own.is_fifo() and name != "select.done.json":  # which says nothing, so the stage is finished again
        refused = pytest.raises(InputError, match=rf"{name}: cannot be read \(it is a pipe, not a file\)")
    with refused:
        work(place)
        assert results(place) == whole
    assert outside.read_bytes() == before


def test_each_process_writes_its_own_session_alone_and_one_that_only_finishes_has_one_too(place):
    (first,) = (unfinished(place) / "sessions" / "select").iterdir()
    before = (first.read_bytes(), (place / "run.json").read_bytes())
    with hold(place) as run:
        run.write_part(2, part(2))
    with hold(place) as run:
        run.finish(publish)
    assert (first.read_bytes(), (place / "run.json").read_bytes()) == before
    assert [session.parts for session in stage_of(place).sessions] == [2, 1, 0]
    for content in (b"", b"{}", b"\xff" * 100):  # a power cut damaged it: it is left out
        first.write_bytes(content)
        assert [session.parts for session in stage_of(place).sessions] == [1, 0]


def test_a_second_stage_keeps_the_first_and_one_that_did_nothing_or_could_not_begin_claims_nothing(place, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pytest.importorskip("resource"), "getrlimit", lambda kind: (20, 20))
        with pytest.raises(InputError, match="this process may have 20 files open"), hold(place):
            pass
    assert not place.exists()
    with hold(place):
        pass
    assert read_run(place).stages == {}
    for _ in range(2):  # a tuple comes back from JSON as a list
        work(place, identity={"layers": (1, 2)})
    first = stage_of(place)
    with hold(place, "score") as run:
        run.write_part(0, part(0))
    assert (list(read_run(place).stages), stage_of(place)) == (["select", "score"], first)


def test_choices_are_on_disk_at_once_and_survive_the_process_bit_by_bit(place):
    calibration, read = ({"CpTp": {"bound": 0.1 + 0.2, "never": kind((3, 5))}} for kind in (tuple, list))
    with hold(place) as run:
        assert run.choices is None
        run.set_choices(Choices(calibration, 128))
        found = stage_of(place)
        assert (found.calibration, found.batch_tokens, len(found.sessions)) == (read, 128, 1)
    with hold(place) as run:
        assert run.choices == Choices(read, 128)


class Killed(BaseException):
    """Ends the process at this very instruction: nothing that would clean up afterwards takes effect."""


def die_at(monkeypatch, step: int) -> list[str]:
    """Die before call number `step` that changes the disk; what was done before it stays."""
    seen: list[str] = []

    def call(real, *arguments, **options):
        if len(seen) >= step:
            raise Killed
        seen.append(real.__name__)
        return real(*arguments, **options)

    for real in (os.fsync, os.replace, os.mkdir):
        monkeypatch.setattr(os, real.__name__, functools.partial(call, real))
    for real in (Path.write_bytes, Path.unlink):
        monkeypatch.setattr(Path, real.__name__, functools.partialmethod(functools.partial(call, real)))
    return seen


@pytest.mark.parametrize("damaged", [None, "triplets.parquet", "selection.json"])
def test_killed_at_any_step_or_twice_a_run_or_its_repair_is_resumed_to_the_same_bytes(tmp_path, monkeypatch, damaged):
    def begun(name):
        if damaged is not None:
            (work(tmp_path / name, parts=2) / damaged).write_bytes(b"")
        return tmp_path / name

    counted = begun("counted")
    with monkeypatch.context() as patch:
        seen = die_at(patch, 10**9)
        whole = results(work(counted, parts=2))
    assert len(seen) > (20 if damaged else 50)
    for step in range(len(seen)):
        place = begun(f"killed {step}")
        for kill in range(1 if step % 7 else 2):
            # The second try may get to the end: the first has done some of it.
            with pytest.raises(Killed) if kill == 0 else contextlib.suppress(Killed), monkeypatch.context() as patch:
                die_at(patch, step)
                work(place, parts=2)
            with contextlib.suppress(InputError):  # not finished, or not even begun; never half of it
                assert finished_stage(place, "select").finished
                assert results(place) == whole
        assert results(work(place, parts=2)) == whole, f"step {step}"


def flip(path):
    content = path.read_bytes()
    path.write_bytes(content[: (middle := len(content) // 2)] + bytes([content[middle] ^ 1]) + content[middle + 1 :])


WAYS = [lambda own: own[:-9], lambda own: own + b"x", lambda own: own.ljust(MOST_JSON + 1), lambda _: b""]
CHANGES = [lambda path, how=how: path.write_bytes(how(path.read_bytes())) for how in WAYS]


@pytest.mark.parametrize("damage", [*CHANGES, flip, Path.unlink])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("triplets.parquet", r"triplets\.parquet: missing, or changed since the run wrote it"),
        ("selection.json", r"selection\.json: missing, or changed since the run wrote it"),
        ("select.done.json", r"select is not finished|run the command of select again|larger than"),
        ("parts/select/part-00001.parquet", None),
        ("parts/select/part-00001.json", None),
    ],
)
def test_what_is_damaged_is_told_and_made_again(place, whole, damage, name, message):
    if message:
        damage(work(place) / name)
        with pytest.raises(InputError, match=message):
            finished_stage(place, "select")
    else:
        damage(unfinished(place) / name)
        with hold(place) as run:
            assert run.missing_parts == [1, 2]
            assert not [*place.glob("parts/select/part-00001*")]  # nothing is left of it
    assert results(work(place)) == whole


@pytest.mark.parametrize("damage", [lambda part: flip(part.rows), lambda part: part.marker.unlink()])
def test_a_part_that_is_damaged_later_is_found_by_what_needs_it(place, whole, damage):
    work(place)
    (place / "triplets.parquet").unlink()
    PartFiles(place, "select", 0).remove()
    with hold(place) as run:
        run.write_part(0, part(0))
        damage(PartFiles(place, "select", 2))
        with pytest.raises(InputError, match=r"part-00002\.parquet: missing or damaged"):
            run.finish(publish)
    assert results(work(place)) == whole


def test_no_part_with_other_columns_than_finished_ones_is_written(place):
    with hold(place) as run:
        run.write_part(0, part(0))
    before = everything(place / "parts")
    for change in (lambda own: own.with_columns(newer=1), lambda own: own.drop(own.columns[0])):
        with hold(place) as run, pytest.raises(InputError, match="select has parts with unlike columns"):
            run.write_part(1, EncodedPart.of(PartResult(change(rows(1)))))
        assert everything(place / "parts") == before


def of_columns(**kinds):
    return {"identity": {**IDENTITY, COLUMNS: kinds}}


SOMETHING_ELSE = [
    ({}, {"identity": {**IDENTITY, "pairs": 60}}, "pairs none, now 60"),
    ({}, {"parts": 4}, "parts 3, now 4"),
    ({"shard": Shard(1, 2), "stage": "score"}, {"stage": "score"}, "shard 1/2, now none"),
    (
        {"identity": {**IDENTITY, "data sha256": 32 * "ab"}},
        {"identity": {**IDENTITY, "data sha256": 32 * "cd"}},
        "other data (sha256 abababababab…, now cdcdcdcdcdcd…)",
    ),
    # columns of a version that began a run, and of the one that goes on
    (of_columns(verb="String"), of_columns(verb="String", rank="Int32"), f"{COLUMNS}: rank none, now Int32"),
    (of_columns(rank="Int32"), of_columns(rank="Int64"), f"{COLUMNS}: rank Int32, now Int64"),
]


@pytest.mark.parametrize(("first", "then", "message"), SOMETHING_ELSE)
def test_a_run_of_something_else_is_refused_and_does_not_even_get_a_lock_file(place, first, then, message):
    work(place, **first)
    (place / ".lock").unlink()
    before = everything(place)
    with pytest.raises(InputError) as caught:
        work(place, **then)
    told = f"{place}: {first.get('stage', 'select')} was made with {message}: {ANOTHER_FOLDER.format('run')}"
    assert (str(caught.value), everything(place)) == (told, before)


def test_another_run_is_kept_under_another_name_if_that_is_asked_for(place):
    said = []
    for number, identity in enumerate([IDENTITY, {**IDENTITY, "pairs": 60}, {**IDENTITY, "pairs": 70}]):
        before = everything(place)
        work(place, identity=identity, replaces=said.append)
        if number:
            assert everything(place.with_name(f"{place.name}.{number}")) == before
            assert said[-1] == f"{place} held another run; that one is {place}.{number} now"
    work(place, identity=identity, replaces=said.append)  # the same run is resumed
    assert len(said) == 2
    with hold(place, identity=identity), pytest.raises(InputError, match="in use by process"):
        work(place, replaces=said.append)
    assert sorted(path.name for path in place.parent.iterdir()) == [place.name, f"{place.name}.1", f"{place.name}.2"]
    other = place.with_name("other")
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="so it is not a run folder"):
        work(other, replaces=said.append)


def test_what_is_not_a_run_is_refused_and_not_changed_and_an_empty_folder_becomes_one(tmp_path, place):
    (place / "parts" / "select").mkdir(parents=True)
    (place / "parts" / "select" / "part-00000.parquet").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing" / "target")
    before = everything(tmp_path)
    for name in ("run", "file", "file/run", "nowhere"):
        with pytest.raises(InputError, match=r"so it is not a run folder|not a folder|cannot be written"):
            work(tmp_path / name)
    assert everything(tmp_path) == before
    (tmp_path / "empty").mkdir()
    work(tmp_path / "empty")


def test_a_shard_does_its_own_parts_alone_and_is_finished_with_all_of_them_only(tmp_path, place):
    first = Shard(1, 2)
    with hold(place, shard=first) as run:
        assert run.missing_parts == [0, 2]
    before = results(work(place, shard=first))
    with pytest.raises(InputError, match="only shard 1/2 of select"):
        finished_stage(place, "select")
    flip(PartFiles(place, "select", 2).rows)
    with hold(place, shard=first) as run:  # whatever run.json says: it has no final files
        assert (run.is_finished, run.missing_parts) == (False, [2])
    assert results(work(place, shard=first)) == before
    work(tmp_path / "empty", shard=Shard(5, 5))
    with hold(tmp_path / "empty", shard=Shard(5, 5)) as run:
        assert run.is_finished


def carry(source, target):
    with hold(target, "score", parts=1) as run:
        run.carry_stage(source, "select")
        before = (target / "run.json").stat().st_mtime_ns
        run.carry_stage(source, "select")  # once is enough
        assert (target / "run.json").stat().st_mtime_ns == before
        run.write_part(0, part(0))
    assert finished_stage(target, "select") == finished_stage(source, "select")
    return list(read_run(target).stages)


def test_a_carried_stage_is_finished_there_and_stands_before_all_others(tmp_path, place):
    work(place)
    assert carry(place, tmp_path / "empty") == ["select", "score"]
    for stage in ("agreement", "verify"):
        with hold(tmp_path / "other", stage, parts=1) as run:
            run.write_part(0, part(0))
    assert carry(place, tmp_path / "other") == ["select", "agreement", "verify", "score"]
    assert carry(place, unfinished(tmp_path / "begun")) == ["select", "score"]
    with hold(tmp_path / "later", "score", parts=1) as run:
        run.write_part(0, part(0))
        run.carry_stage(place, "select")
    assert list(read_run(tmp_path / "later").stages) == ["select", "score"]
    (work(tmp_path / "finished") / "selection.json").unlink()
    with hold(tmp_path / "finished", "score", parts=1) as run:
        run.carry_stage(place, "select")  # the file that is not there is written
    assert finished_stage(tmp_path / "finished", "select").finished
    before = everything(place)
    with hold(place, "score") as run:
        run.carry_stage(place / ".." / "run", "select")  # its own already
    assert everything(place) == before


def test_an_unfinished_stage_or_another_one_is_not_carried_and_the_refused_stage_claims_nothing(tmp_path):
    other = work(tmp_path / "other", identity={"seed": 1})
    before = (other / "run.json").read_bytes()
    for source, target, message in (
        (unfinished(tmp_path / "begun"), tmp_path / "shard", "select is not finished"),
        (work(tmp_path / "run"), other, "seed 1, now 0"),
    ):
        with pytest.raises(InputError, match=message), hold(target, "score") as run:
            run.carry_stage(source, "select")
    assert (other / "run.json").read_bytes() == before


def test_a_part_that_is_decided_again_keeps_the_wider_margins_and_what_was_wrong_before():
    frame = pl.DataFrame({"x": [1]})
    before = {"audited": 50, "disagreements": 3}, {}, {"Cp": 0.5, "Cn": 2.0, "Cv": 0.1}
    earlier = EncodedPart.of(PartResult(frame, *before))
    counts, bounds = {"audited": 40, "disagreements": 0}, {"Cp": 0.5, "Cn": 1.0}
    again = EncodedPart.of(PartResult(frame, counts, bounds, {"Cp": 0.7, "Cn": 1.0, "Cw": 0.3}))
    found = again.with_findings(earlier.marker).marker
    assert found.counts == {"audited": 40, "disagreements": 3, "rows": 1}
    assert found.needed == {"Cp": 0.7, "Cn": 2.0, "Cv": 0.1, "Cw": 0.3}
    assert found.bounds == bounds
    assert again.with_findings(EncodedPart.of(PartResult(frame)).marker).marker.counts == {**counts, "rows": 1}


@pytest.mark.parametrize("kind", ["marker", "rows"])
def test_a_disk_that_cannot_be_read_or_changed_is_told(tmp_path, kind):
    files = PartFiles(tmp_path, "select", 12)
    files.rows.parent.mkdir(parents=True)
    written = part(1, bounds={"CpTp": 0.1 + 0.2, "CnTp": 1}, needed={"CpTp": 0.0, "CnTp": 1e-9})
    files.write(written)
    assert files.read().marker == written.marker
    getattr(files, kind).unlink()
    getattr(files, kind).mkdir()
    with pytest.raises(InputError, match=r"part-00012\.\w+: cannot be read \(it is a folder, not a file\)"):
        files.read()
    told = r"part-00012\.parquet: cannot be written \((Is a directory|Operation not permitted)\)"
    with pytest.raises(InputError, match=told):
        files.remove()


SIZES = (3, 0, 4, 2)


@pytest.fixture
def numbered(tmp_path):
    (tmp_path / "parts" / "select").mkdir(parents=True)
    pairs = [(n, f"v{i}") for n, i in enumerate(i for size in SIZES for i in range(size))]
    frame = pl.DataFrame(pairs, {"n": pl.Int64, "verb": pl.String}, orient="row")
    for number, size in enumerate(SIZES):
        own = frame.slice(sum(SIZES[:number]), size)
        PartFiles(tmp_path, "select", number).write(EncodedPart.of(PartResult(own)))
    return frame


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: frame,
        lambda frame: frame.head(0),
        lambda frame: frame.filter(pl.col("n") > 3).select("verb"),
        lambda frame: frame.filter(pl.col("n") > 3).head(2),
        lambda frame: frame.head(5).filter(pl.col("n") > 3),
        lambda frame: frame.select(pl.len()),
        lambda frame: pl.concat([frame.filter(pl.col("verb") == verb) for verb in ("v1", "v0")]),
    ],
)
@pytest.mark.parametrize("engine", ["streaming", "in-memory"])
def test_a_query_gives_what_it_gives_on_the_whole_frame(tmp_path, numbered, query, engine):
    assert query(part_rows(tmp_path, "select", 4)).collect(engine=engine).equals(query(numbered.lazy()).collect())


@pytest.mark.parametrize("change", [lambda rows: rows.drop("verb"), lambda rows: rows.with_columns(noun=pl.lit("x"))])
def test_a_part_with_other_columns_is_an_error_and_no_wrong_row(tmp_path, numbered, change):
    files = PartFiles(tmp_path, "select", 2)
    files.write(EncodedPart.of(PartResult(pl.read_parquet(files.rows).select("verb", "n"))))
    assert part_rows(tmp_path, "select", 4).collect().equals(numbered)  # columns in another order are the same columns
    files.write(EncodedPart.of(PartResult(change(pl.read_parquet(files.rows)))))
    with pytest.raises(InputError, match="select has parts with unlike columns, as versions of negengine differ"):
        part_rows(tmp_path, "select", 4).collect()
    assert part_rows(tmp_path, "select", 0).collect().is_empty()
    PartFiles(tmp_path, "select", 0).remove()
    with pytest.raises(InputError, match=r"part-00000\.parquet: missing or damaged"):
        part_rows(tmp_path, "select", 4)
