"""The tables of the diagnostics: the paper's layout, its figures beside ours."""

import tomllib

from asked_stages import asked_run
from negengine.engine.experiments.diagnostics.diagnostics import DiagnosticsRun
from negengine.engine.experiments.diagnostics.diagnostics_views import Shown
from negengine.engine.experiments.summary import frame
from negengine.engine.views.formats import render


def only(items, **wanted):
    [row] = items.filter(**wanted).to_dicts()
    return row


def cell(summary, *key):
    return only(summary, **dict(zip(("dataset", "condition", "split", "metric"), key, strict=True)))


def tables(summary, model):
    *found, _ = asked_run(DiagnosticsRun, summary, model=model).tables()
    return found


def shown(made):
    return render(made, "table", width=200)


def cells(text, start):
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [part.strip() for part in line.strip("│┃").replace("┃", "│").split("│")]


def test_our_copy_of_the_notes_figures_is_the_transcript(shared):
    notes = tomllib.loads((shared / "data/published/what-bert-is-not.toml").read_text("utf-8"))
    figures = {
        model: {(key[0], key[2], key[3]): figure["value"] for key, figure in Shown.of(frame([]), model).paper.items()}
        for model in ("bert-base-uncased", "bert-large-uncased", "mini")
    }
    natural = notes["neg_136"]["less_natural_negative_sentences_preferring_true_percent"]
    role = notes["role_88"]["accuracy_bert_large_percent"]
    both = {("CPRAG-102", "all", "accuracy@5"): 50, ("NEG-136-NAT", "negative-unlicensed", "sensitivity"): natural}
    large = {("ROLE-88", "all", f"accuracy@{k}"): role for k in notes["role_88"]["accuracy_k_tested"]}
    assert figures == {"bert-base-uncased": both, "bert-large-uncased": both | large, "mini": {}}


def test_accuracies_stand_in_the_papers_layout(finished):
    _, summary = finished
    text = shown(tables(summary, "mini")[:1])
    heading, row = cells(text, "┃ k"), cells(text, "│ 5")
    assert heading == ["k", "Orig", "Shuf", "Trunc", "Shuf + Trunc", "H", "L"]
    value, spread = (
        cell(summary, "CPRAG-102", "shuffled", "all", f"{name}accuracy@5")["value"] for name in ("", "sd:")
    )
    assert row[2] == f"{100 * value:.1f} ± {100 * spread:.1f}"
    assert "paper" not in text
    text = shown(tables(summary, "mini")[1:2])
    assert cells(text, "┃ k") == ["k", "Orig", "-Obj", "-Sub", "-ObjSub"]
    assert cells(text, "│ n") == ["n", "88", "88", "88", "88"]


def test_the_papers_figures_stand_in_brackets_with_their_doubts(finished):
    _, summary = finished
    text = shown(tables(summary, "google-bert/bert-large-uncased"))
    assert cells(text, "│ 5")[1].endswith("(≈ 50)")
    assert text.count("(37.5 ?)") == 2
    assert "without its k" in text
    assert "(37.5" not in shown(tables(summary, "bert-base-uncased"))


def test_sensitivities_and_tests_are_shown(finished):
    _, summary = finished
    *_, sensitivities, tests = tables(summary, "mini")
    text = shown([sensitivities])
    rate, beyond = (
        cell(summary, "NEG-136-NAT", "original", "negative-licensed", metric)
        for metric in ("sensitivity", "sensitivity>0.01")
    )
    row = cells(text, "│ NAT   │ negative-licensed")
    assert row[2] == f"{100 * rate['value']:.1f}"
    assert row[3] == f"{100 * rate['low']:.1f} to {100 * rate['high']:.1f}"
    assert row[4:] == [f"{100 * beyond['value']:.1f}", "8"]
    assert "CPRAG 0 of 34, ROLE 0 of 44" in " ".join(text.split())
    text = shown([tests])
    key = ("NEG-136-SIMP", "original", "affirmative vs negative")
    p = cell(summary, *key, "p_holm:sensitivity")["value"]
    difference = cell(summary, *key, "difference:sensitivity")
    value, low, high = (f"{100 * difference[name]:+.1f}" for name in ("value", "low", "high"))
    row = cells(text, "│ SIMP")
    assert row[1:4] == ["aff. / neg.", "preferred", f"{value} [{low}, {high}]"]
    assert row[-1] == f"{p:.2g}"


def test_tables_fit_in_80_columns(finished):
    text = render(tables(finished[1], "bert-large-uncased"), "table", width=80)
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_one_data_set_alone_has_its_tables(finished):
    text = shown(tables(finished[1].filter(dataset="NEG-136-SIMP"), "mini"))
    assert "NEG-136-SIMP" in text
    assert not any(name in text for name in ("CPRAG", "ROLE", "NAT"))


def test_percent_and_counts_are_told_apart_in_the_frame(finished):
    """Rows of one column differ in their unit; published figures and deviations have columns of their own."""
    frame = tables(finished[1], "bert-large-uncased")[0].figures
    assert frame.select("k", "unit").rows() == [("1", "%"), ("5", "%"), ("n", "items"), ("outside", "items")]
    assert frame["published Orig"].to_list() == [None, 50.0, None, None]
    assert frame["Shuf sd"].null_count() == 2
