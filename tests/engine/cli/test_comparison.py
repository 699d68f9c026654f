"""`negengine compare`: groups and items; what they print, write and refuse."""

import json

import polars as pl


def test_rates_by_group_fit_a_terminal(scored_run, command):
    done = command("compare", scored_run, "--by", "verb")
    assert done.status == 0, done.err
    assert "Drop of the repetition rate by verb" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_csv_and_json_have_all_groups(scored_run, command):
    rows = json.loads(command("compare", scored_run, "--by", "name", "--json").out)
    assert {row["name"] for row in rows} == {"Jessica", "Maria", "John", "Peter"}
    printed = command("compare", scored_run, "--by", "name", "--format", "csv").out
    assert len(printed.splitlines()) == len(rows) + 1


def test_items_are_written_beside_the_tables(scored_run, command, tmp_path):
    done = command("compare", scored_run, "--items", "items.csv")
    assert done.status == 0, done.err
    assert "Patterns on the same triplets" in done.out
    found = pl.read_csv(tmp_path / "items.csv")
    assert {"model", "pattern", "name", "gender", "profession", "verb", "repeated"} <= set(found.columns)
    assert f"items.csv: {len(found):,} rows, one for each item and model" in done.err


def test_what_cannot_be_compared_so_is_one_line(scored_run, command):
    assert "did you mean 'verb'?" in command("compare", scored_run, "--by", "vreb").said
    done = command("compare", "nowhere", "--items", "items.xls")
    assert done.status == 2
    assert done.said == "negengine: --items items.xls: the name must end in .parquet, .csv, .tsv, .jsonl"
