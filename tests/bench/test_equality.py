"""Two recordings are equal, changed on purpose or different, and what is said tells how."""

import polars as pl
import pytest
from negengine.bench.equality import Change, app, report
from negengine.bench.recording import keep_results, keep_written, run, table_text
from typer.testing import CliRunner

TABLE = 'pattern:String\tdrop:Float64\n"CpTp"\t0.0\n"CpTn"\t{}\n'


@pytest.fixture
def recordings(tmp_path):
    """Write two recordings, each a mapping of names to texts."""

    def write(before, after):
        for folder, texts in ((tmp_path / "before", before), (tmp_path / "after", after)):
            for name, text in texts.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, "utf-8")
        return tmp_path / "before", tmp_path / "after"

    return write


@pytest.fixture
def program(tmp_path):
    """Write a program of the shell."""

    def write(script):
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return write


def test_equal_recordings(recordings):
    texts = {"stdout/score.txt": "1,200 triplets\n", "runs/a/rates.parquet.tsv": TABLE.format(84.2)}
    lines, different = report(*recordings(texts, texts), ())
    assert lines[-1] == "2 files, 2 equal, 0 changed on purpose, 0 different"
    assert not different


def test_a_number_that_differs_is_named_with_its_column_and_line(recordings):
    folders = recordings({"rates.parquet.tsv": TABLE.format(84.25)}, {"rates.parquet.tsv": TABLE.format(84.5)})
    lines, different = report(*folders, ())
    assert different
    assert [line.strip() for line in lines] == [
        "rates.parquet.tsv: different",
        "1 of 2 numbers differ, by at most 0.25",
        "column drop:Float64: 1 of 2 rows differ",
        "from line 3:",
        '-"CpTn"\t84.25',
        '+"CpTn"\t84.5',
        "1 files, 0 equal, 0 changed on purpose, 1 different",
    ]


def test_words_that_differ_are_told_from_numbers(recordings):
    lines, _ = report(*recordings({"score.txt": "1,200 items, 4e-05\n"}, {"score.txt": "1,200 rows, 4e-05\n"}), ())
    assert "all 2 numbers are equal; words or layout differ" in lines[1]


@pytest.mark.parametrize(("before", "after"), [({"a.txt": ""}, {}), ({}, {"a.txt": ""})])
def test_a_file_that_one_recording_lacks_differs(before, after, recordings):
    both = {"b.txt": "1\n"}
    lines, different = report(*recordings(before | both, after | both), ())
    assert different
    assert f"only in the recording {'before' if before else 'after'}" in lines[1]


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        (Change("runs/*/rates.parquet.tsv", "defect 19"), True),
        (Change("runs/*/rates.parquet.tsv", "defect 19", columns=("drop",)), True),
        (Change("runs/*/rates.parquet.tsv", "defect 19", lines='^"CpTn"'), True),
        (Change("runs/*/rates.parquet.tsv", "defect 19", columns=("pattern",)), False),
        (Change("runs/*/rates.parquet.tsv", "defect 19", lines='^"CpTp"'), False),
        (Change("stdout/*", "defect 19"), False),
    ],
)
def test_only_what_is_expected_to_change_may_change(change, accepted, recordings):
    name = "runs/a/rates.parquet.tsv"
    lines, different = report(*recordings({name: TABLE.format(1)}, {name: TABLE.format(2)}), [change])
    assert different is not accepted
    assert ("    defect 19" in lines) is accepted


def test_a_new_column_may_be_expected(recordings):
    wider = "".join(f"{line}\tx\n" for line in TABLE.format(1).splitlines()).replace("\tx", "\trole:String", 1)
    folders = recordings({"a.tsv": TABLE.format(1)}, {"a.tsv": wider})
    assert "    column role:String is new" in report(*folders, ())[0]
    assert not report(*folders, [Change("a.tsv", "issue 9", columns=("role",))])[1]


def test_the_exit_status_says_whether_a_file_differs(recordings):
    before, after = map(str, recordings({"a.txt": "1\n"}, {"a.txt": "2\n"}))
    assert CliRunner().invoke(app, ["compare", before, before]).exit_code == 0
    assert CliRunner().invoke(app, ["compare", before, after]).exit_code == 1


def test_a_folder_without_a_recording_is_refused(tmp_path):
    found = CliRunner().invoke(app, ["compare", str(tmp_path), str(tmp_path)])
    assert found.exit_code == 2
    assert "holds no files" in found.output


def test_a_recording_is_never_written_over(tmp_path):
    here = str(tmp_path)
    found = CliRunner().invoke(app, ["record", here, "--data", here, "--negengine", here])
    assert found.exit_code == 2
    assert "give a new folder" in found.output


def test_result_files_are_kept_as_text_and_times_are_not(tmp_path):
    run = tmp_path / "runs" / "mini"
    run.mkdir(parents=True)
    pl.DataFrame({"n": [1]}).write_parquet(run / "rates.parquet")
    for name in ("selection.json", "run.json", ".lock"):
        (run / name).write_text("{}")
    keep_results(tmp_path / "runs", tmp_path / "kept")
    assert sorted(path.name for path in (tmp_path / "kept" / "mini").iterdir()) == [
        "rates.parquet.tsv",
        "selection.json",
    ]


def test_a_table_keeps_every_digit_and_nested_values():
    frame = pl.DataFrame(
        {
            "p": [0.1 + 0.2, None],
            "top": [["a\tb", "é"], []],
            "logprob": pl.Series([[0.1], []], dtype=pl.List(pl.Float32)),
        }
    )
    assert table_text(frame) == (
        "p:Float64\ttop:List(String)\tlogprob:List(Float32)\n"
        '0.30000000000000004\t["a\\tb", "é"]\t[0.10000000149011612]\n'
        "null\t[]\t[]\n"
    )


def test_a_command_is_kept_without_the_path_of_its_folder(program, tmp_path):
    assert run(program("pwd; echo $1 >&2"), ["-v"], tmp_path) == "SCRATCH\n"


def test_a_failed_command_is_kept_as_its_status_and_last_line(program, tmp_path):
    assert run(program("echo some; echo a >&2; echo b >&2; exit 2"), [], tmp_path) == "exit status 2: b\n"


def test_of_a_page_its_text_is_kept_without_times(tmp_path):
    page = "<style>p {}</style><p>A &amp; <b>b</b>\n c</p><p>2 sessions of 43 seconds together</p>"
    page += "<td>seconds</td><td>1.5</td>"
    (tmp_path / "written").mkdir()
    (tmp_path / "written" / "report.html").write_text(page)
    (tmp_path / "written" / "report.pdf").write_bytes(b"%PDF")
    pl.DataFrame({"n": [1]}).write_parquet(tmp_path / "written" / "items.parquet")
    keep_written(tmp_path / "written", tmp_path / "kept")
    kept = {path.name: path.read_text().splitlines() for path in (tmp_path / "kept").iterdir()}
    assert kept == {
        "report.html": ["A &amp;", "b", "c", "2 sessions of … seconds together", "seconds", "…"],
        "items.parquet.tsv": ["n:Int64", "1"],
    }
