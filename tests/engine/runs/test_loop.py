"""The one loop: what is refused, what is done, what is recorded, and that a margin once widened reaches every part."""

import io
import json
import shutil
from dataclasses import replace

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.runs.merge import merge
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.record import INTERRUPTED, Session, read_run
from negengine.engine.runs.results import finished_stage
from negengine.engine.runs.shard import Shard
from small_stages import Batched, InterruptedAfter, Margins, Squares, everything, record, results, run, watched

NO_MODEL = object()  # an executor that fails the test if a model is opened


def test_a_run_computes_and_publishes_and_then_opens_no_model_also_without_its_parts_or_a_final_file(tmp_path):
    before = results(run(Squares(note={"model": "mini"}), tmp_path))
    squares = pl.read_parquet(tmp_path / "squares.parquet")
    assert squares["square"].to_list() == [n * n + i for n in range(4) for i in range(3)]
    assert json.loads((tmp_path / "squares.json").read_text()) == {"rows": 12, "model": "mini"}
    reporter, said = watched()
    (tmp_path / "squares.parquet").unlink()  # it is made again from the parts
    run(Squares(), tmp_path, NO_MODEL)
    run(Squares(), tmp_path, NO_MODEL, reporter=reporter)
    assert (results(tmp_path), said) == (before, [f"{tmp_path}: squares is finished already"])
    shutil.rmtree(tmp_path / "parts")
    before = everything(tmp_path)
    run(Squares(), tmp_path, NO_MODEL)
    assert finished_stage(tmp_path, "squares").finished
    assert everything(tmp_path) == before


def test_a_stage_that_is_refused_leaves_a_folder_that_claims_nothing(tmp_path):
    for fault, executor, message in (("check", NO_MODEL, "too long"), ("open", None, "cpu has no memory")):
        with pytest.raises(InputError, match=message):
            run(Squares(fault=fault), tmp_path, executor)
        assert read_run(tmp_path).stages == {}
    run(Squares(seed=1), tmp_path)
    with pytest.raises(InputError, match="seed 1, now 0"):  # before a model is opened
        run(Squares(), tmp_path, NO_MODEL)


def test_a_run_that_ends_early_says_why_and_is_resumed_to_the_same_bytes(tmp_path):
    whole = results(run(Squares(), tmp_path / "whole"))
    for fault, error, reason in (
        ("refuse", InputError, "--batch-tokens 16: too few"),
        ("fail", ZeroDivisionError, "ZeroDivisionError: nobody expected this"),
        ("interrupt", KeyboardInterrupt, INTERRUPTED),
    ):
        with pytest.raises(error):
            run(Squares(fault=fault, at=2), tmp_path / fault)
        assert 1 <= len(results(tmp_path / fault)) / 2 < 4
        assert results(run(Squares(), tmp_path / fault)) == whole
        assert [session.failed for session in record(tmp_path / fault, Squares).sessions] == [reason, None]


def test_precision_device_and_command_are_on_disk_before_the_first_part_is_decided(tmp_path):
    seen = []

    class Looks(Squares):
        def decide(self, *arguments):
            seen.extend(record(tmp_path, Looks).sessions)
            return super().decide(*arguments)

    run(Looks(parts=1), tmp_path, session=Session(command="negengine squares"), started=0.0)
    for session in (seen[0], *record(tmp_path, Looks).sessions):
        assert session.precision == {"Cp": "fp32", "Cn": "mixed"}
        assert (session.workers[0]["device"], session.command) == ("cpu", "negengine squares")
        assert session.seconds > 0


def test_progress_begins_with_what_is_done_already(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(Squares(), tmp_path, InterruptedAfter(2))
    stream = io.StringIO()
    run(Squares(), tmp_path, reporter=Reporter(stream, verbose=True))
    lines = stream.getvalue().splitlines()
    assert (lines[0], "checked" in lines) == ("squares: 10 sentences, 3 are done already", True)
    assert lines[-1].startswith("squares: 10 of 10 sentences (100 %), ")


ASKS = (0.0, 0.0, 0.7, 0.0, 0.9, 0.0)


def test_parts_are_decided_again_with_the_margin_that_an_audit_asks_for(tmp_path):
    reporter, said = watched()
    run(Margins(ASKS), tmp_path, reporter=reporter)
    assert pl.read_parquet(tmp_path / "margins.parquet")["bound"].to_list() == [0.9] * 6
    assert said.count("margins: an audit found a wrong decision; 6 parts are decided again") == 1
    without = Margins((0.0,) * 3)
    with pytest.raises(KeyboardInterrupt):
        run(without, tmp_path / "without", InterruptedAfter(1))
    run(replace(without, own_bound=0.8), tmp_path / "without")  # a resumed run keeps its calibration
    assert pl.read_parquet(tmp_path / "without" / "margins.parquet")["bound"].to_list() == [0.5] * 3
    assert [own.precision for own in record(tmp_path / "without", Margins).sessions] == ["mixed", "mixed"]


@pytest.mark.parametrize("parts", [0, 1, 5, 6, 7, 11])
def test_stopped_anywhere_or_damaged_later_a_run_that_widens_ends_with_the_same_bytes(tmp_path, parts):
    whole, cut = results(run(Margins(ASKS), tmp_path / "whole")), tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt):
        run(Margins(ASKS), cut, InterruptedAfter(parts))
    assert results(run(Margins(ASKS), cut)) == whole
    for path in [*sorted(cut.glob("parts/margins/*.parquet"))[: 1 + parts % 3], cut / "margins.parquet"]:
        path.write_bytes(b"")
    assert results(run(Margins(ASKS), cut)) == whole


def test_shards_that_widen_merge_to_the_bytes_of_the_whole_run_where_the_refusal_says_how(tmp_path):
    whole = results(run(Margins(ASKS), tmp_path / "whole"))
    session = Session(again="negengine margins a model --seed 3")
    shards = [run(Margins(ASKS), tmp_path / str(i), shard=Shard(i, 2), session=session) for i in (1, 2)]
    output = tmp_path / "merged"
    with pytest.raises(InputError) as caught:
        merge(shards, output, {"margins": Margins.publish})
    assert str(caught.value) == (
        f"{output}: an audit in one shard found a wrong decision, so 3 parts of shard 2/2 must be decided again with a "
        f"wider margin; to do it: negengine margins a model --seed 3 --output {output}"
    )
    assert results(run(Margins(ASKS), output)) == whole
    merge(shards, output, {"margins": Margins.publish})  # finished, so nothing is left to refuse
    assert results(output) == whole


def test_a_resumed_run_goes_on_with_the_batches_that_it_has_recorded(tmp_path):

    class Exact(Batched):
        def calibrate(self, model, say):
            return {"Cp": {"precision": "fp32"}}

    def stopped(stage, folder, given):
        with pytest.raises(KeyboardInterrupt):
            run(stage, folder, InterruptedAfter(2), options=Opening(batch_tokens=given))
        assert record(folder, Batched).batch_tokens == given
        return folder

    for stage, given, then, batches in (
        (Batched(), 128, None, {128}),
        (Batched(), 128, 128, {128}),
        (Exact(), 64, 96, {64, 96}),  # those that it began with may not fit the memory of this device
    ):
        folder = stopped(stage, tmp_path / f"{given} {then}", given)
        run(stage, folder, options=Opening(batch_tokens=then))
        assert set(pl.read_parquet(folder / "squares.parquet")["tokens"]) == batches
    for given, said in ((64, "64"), (None, "none")):
        folder = stopped(Batched(), tmp_path / said, given)
        with pytest.raises(InputError, match=rf"--batch-tokens 96: .* --batch-tokens {said}, .*: give {said}, or choo"):
            run(Batched(), folder, options=Opening(batch_tokens=96))
        run(Batched(), folder)
        assert set(pl.read_parquet(folder / "squares.parquet")["tokens"]) == {given or 0}
