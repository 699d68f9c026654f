"""The GH22 replication against a slow reference (PyTorch, sentence by sentence) and hand-made cases."""

import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.errors import InputError
from negengine.engine.inference.model import MaskedLM
from negengine.engine.probes.gh22 import probe as gh22
from negengine.engine.probes.gh22 import tables as gh22_tables
from negengine.engine.probes.gh22.acts import plan_acts, ranked
from negengine.engine.probes.gh22.probe import Variant, load_variant
from negengine.engine.sentences.lexicon import load_lexicon
from negengine.engine.sentences.patterns import Pattern
from rich.console import Console
from transformers import AutoModelForMaskedLM, AutoTokenizer

MINI = Path(__file__).parents[4] / "export" / "mini"
RANKS = (1, 50, 100)
PAIRS = 6


# ---------------------------------------------------------------- patterns

P, N = "who tries to {} as often as possible.", "who doesn't like to {}."
TARGETS = {
    "1": "{PRON} likes to {MASK}.",
    "2": "{PRON} does like to {MASK}.",
    "3": "{PRON} really likes to {MASK}.",
    "4": "{PRON} really does like to {MASK}.",
}
VERBS = {Variant.COORDINATED: "{ACT}, {ACT1} or {ACT2}"}
CONNECTIVES = {Variant.CONNECTIVE: {"P": "So, ", "N": "However, "}}


@pytest.mark.parametrize("variant", Variant)
def test_the_eight_patterns_of_each_variant(variant):
    patterns = load_variant(variant)
    wanted = {
        f"{number}{polarity}": (
            "{NAME} is {PROF} " + context.format(VERBS.get(variant, "{ACT}")),
            CONNECTIVES.get(variant, {}).get(polarity, "") + target,
        )
        for number, target in TARGETS.items()
        for polarity, context in (("P", P), ("N", N))
    }
    assert {pattern.name: (pattern.context, pattern.target) for pattern in patterns.scored} == wanted
    assert patterns.selecting.sentence == "{NAME} is {PROF} and {PRON} likes to {MASK}"


def test_sentences_read_as_in_the_paper():
    fillers = {"NAME": "Jessica", "PROF": "an architect", "PRON": "she", "ACT": "sail", "ACT1": "ski", "ACT2": "run"}
    texts = {
        (variant, pattern.name): pattern.text(fillers, "[MASK]")
        for variant in Variant
        for pattern in load_variant(variant).all
    }
    assert texts[Variant.ORIGINAL, "ACT"] == "Jessica is an architect and she likes to [MASK]"
    assert (
        texts[Variant.ORIGINAL, "1P"]
        == "Jessica is an architect who tries to sail as often as possible. She likes to [MASK]."
    )
    assert (
        texts[Variant.CONNECTIVE, "2N"]
        == "Jessica is an architect who doesn't like to sail. However, she does like to [MASK]."
    )
    assert (
        texts[Variant.COORDINATED, "4N"]
        == "Jessica is an architect who doesn't like to sail, ski or run. She really does like to [MASK]."
    )


def test_a_pattern_without_its_partner_is_refused(tmp_path):
    text = (Path(gh22.__file__).parents[2] / "sentences/resources/patterns/gh22.toml").read_text("utf-8")
    (tmp_path / "own.toml").write_text(text.replace('name = "3N"', 'name = "5N"'), "utf-8")
    with pytest.raises(InputError, match=r"own\.toml: pattern '3P': names are those of pairs"):
        load_variant(Variant.ORIGINAL, tmp_path / "own.toml")


# ---------------------------------------------------------------- ranks


@given(
    logits=st.lists(st.lists(st.integers(-3, 3), min_size=12, max_size=12), min_size=1, max_size=4),
    left_out=st.sets(st.integers(0, 11), max_size=4),
    depth=st.integers(1, 8),
)
def test_ranks_are_those_of_a_plain_sort_with_ties_by_id(logits, left_out, depth):
    ids, logprobs = ranked(np.array(logits, np.float32), depth, np.array(sorted(left_out), np.int64))
    for row, found, chances in zip(logits, ids, logprobs, strict=True):
        wanted = sorted(set(range(12)) - left_out, key=lambda i, row=row: (-row[i], i))[:depth]
        assert found.tolist() == wanted
        total = np.log(np.exp(np.array(row, np.float64)).sum())
        np.testing.assert_allclose(chances, [row[i] - total for i in wanted])


# ---------------------------------------------------------------- a whole run


@pytest.fixture(scope="module")
def lexicon():
    return load_lexicon()


@pytest.fixture(scope="module")
def selection(mini, lexicon):
    sentence = load_variant(Variant.ORIGINAL).selecting
    return plan_acts(mini, lexicon, sentence, ranks=RANKS, pairs=PAIRS, seed=3)


@pytest.fixture(scope="module")
def variants():
    return {variant: load_variant(variant) for variant in Variant}


@pytest.fixture(scope="module")
def finished(mini, selection, variants, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "gh22"
    return folder, gh22.run(selection, variants, MaskedLM(mini), folder)


@pytest.fixture(scope="module")
def pytorch():
    tokenizer, model = AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()

    def logits(text):
        inputs = tokenizer(text, return_tensors="pt")
        (position,) = torch.nonzero(inputs["input_ids"][0] == tokenizer.mask_token_id)[:, 0].tolist()
        with torch.inference_mode():
            return model(**inputs).logits[0, position]

    return tokenizer, logits


def test_acts_are_the_models_own_predictions_at_their_ranks(finished, pytorch):
    """transformers ranks the whole vocabulary; special tokens, which are no words, are taken out."""
    tokenizer, logits = pytorch
    acts = pl.read_parquet(finished[0] / "acts.parquet")
    assert acts.select("pair", "rank").n_unique() == len(acts) == PAIRS * len(RANKS)
    for row in acts.iter_rows(named=True):
        scores = logits(f"{row['name']} is {row['profession']} and {row['pronoun']} likes to [MASK]")
        order = [i for i in scores.argsort(descending=True).tolist() if i not in tokenizer.all_special_ids]
        wanted = order[row["rank"] - 1 : row["rank"] + 2]
        assert [row["act_id"], row["act1_id"], row["act2_id"]] == wanted
        assert row["act"] == tokenizer.convert_ids_to_tokens(wanted[0]).removeprefix("##")
        assert row["act_logprob"] == pytest.approx(scores.log_softmax(-1)[wanted[0]].item(), abs=1e-4)


def test_acts_know_whether_they_are_verbs(finished, lexicon):
    acts = pl.read_parquet(finished[0] / "acts.parquet")
    assert acts["act_is_verb"].to_list() == [act in lexicon.verbs for act in acts["act"]]
    assert 0 < acts["act_is_verb"].sum() < len(acts)


def test_items_equal_pytorch_sentence_by_sentence(finished, pytorch, lexicon):
    tokenizer, logits = pytorch
    items = pl.read_parquet(finished[0] / "items.parquet")
    assert len(items) == PAIRS * len(RANKS) * 24
    for row in items.sample(150, seed=1).iter_rows(named=True):
        (pattern,) = [p for p in load_variant(Variant(row["condition"])).scored if p.name == row["pattern"]]
        fillers = {"NAME": row["name"], "PROF": row["profession"], "PRON": row["pronoun"]}
        fillers |= {"ACT": row["act"], "ACT1": row["act1"], "ACT2": row["act2"]}
        scores = logits(pattern.text(fillers, "[MASK]"))
        top1 = int(scores.argmax())
        act = tokenizer.convert_tokens_to_ids(row["act"])
        named = [row["act"], row["act1"], row["act2"]] if row["condition"] == "coordinated" else [row["act"]]
        text = tokenizer.convert_ids_to_tokens(top1).removeprefix("##")
        assert row["top1"] == text
        assert row["repeated"] == (top1 == act)
        assert row["repeated_any"] == (text in named)
        assert row["top1_is_verb"] == (text in lexicon.verbs)
        assert row["expected_rank"] == 1 + int((scores > scores[act]).sum())
        assert row["expected_logprob"] == pytest.approx(scores.log_softmax(-1)[act].item(), abs=1e-4)
        assert row["top1_logprob"] == pytest.approx(scores.log_softmax(-1).max().item(), abs=1e-4)


def cell(summary, condition, split, metric):
    (row,) = summary.filter(
        pl.col("dataset") == "GH22",
        pl.col("condition") == condition,
        pl.col("split") == split,
        pl.col("metric") == metric,
    ).to_dicts()
    return row


def test_rates_and_drops_are_counts_over_items(finished):
    folder, summary = finished
    items = pl.read_parquet(folder / "items.parquet")
    for condition in ("original", "connective", "coordinated"):
        for rank in RANKS:
            repeated = {}
            for polarity in "PN":
                own = [
                    row
                    for row in items.iter_rows(named=True)
                    if (row["condition"], row["rank"], row["pattern"]) == (condition, rank, f"3{polarity}")
                ]
                assert len(own) == PAIRS
                repeated[polarity] = sum(row["repeated"] for row in own) / PAIRS
                split = f"3{polarity}@{rank}"
                assert cell(summary, condition, split, "repetition_rate")["value"] == pytest.approx(repeated[polarity])
                other = sum(not row["top1_is_verb"] for row in own) / PAIRS
                assert cell(summary, condition, split, "ungrammatical")["value"] == pytest.approx(other)
            drop = cell(summary, condition, f"3@{rank}", "drop")
            assert (drop["value"], drop["n"]) == (pytest.approx(repeated["P"] - repeated["N"]), PAIRS)


def test_a_second_run_does_nothing_and_returns_the_same(finished, mini, selection, variants):
    folder, summary = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}
    assert gh22.run(selection, variants, None, folder).equals(summary)
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


def test_an_interrupted_run_is_resumed_to_the_same_summary(
    finished, mini, selection, variants, tmp_path, monkeypatch, interrupt
):
    monkeypatch.setattr(gh22, "_ACTS_PER_PART", 5)
    calls = interrupt(gh22, "decide_part", 3)
    with pytest.raises(KeyboardInterrupt):
        gh22.run(selection, variants, MaskedLM(mini), tmp_path / "run")
    resumed = gh22.run(selection, variants, MaskedLM(mini), tmp_path / "run")
    assert len(calls) == 3 + 2  # four parts: two were finished, the third was begun twice
    assert resumed.equals(finished[1])


def test_a_folder_made_with_other_ranks_is_refused(finished, mini, lexicon, variants):
    other = plan_acts(mini, lexicon, load_variant(Variant.ORIGINAL).selecting, ranks=[1], pairs=PAIRS, seed=3)
    with pytest.raises(InputError, match=r"acts was made with ranks \[1, 50, 100\], now \[1\]"):
        gh22.run(other, variants, None, finished[0])


@pytest.mark.parametrize("ranks", [[0, 1], [], [10**6]])
def test_ranks_that_there_are_not_are_refused(ranks, mini, lexicon):
    with pytest.raises(InputError, match=r"--ranks .*: give ranks from 1 to \d+"):
        plan_acts(mini, lexicon, load_variant(Variant.ORIGINAL).selecting, ranks=ranks, pairs=1)


def test_a_sentence_with_an_act_cannot_choose_it(mini, lexicon):
    with pytest.raises(InputError, match="has the slot 'ACT'; it may have NAME, PROF, PRON"):
        plan_acts(mini, lexicon, Pattern("ACT", "{NAME} likes to {ACT} and {MASK}"), pairs=1)


# ---------------------------------------------------------------- the summary of hand-made items


def items_of(outcomes, condition="original"):
    """For each pair (P repeated, N repeated, N's top-1 a verb): items of patterns 1P and 1N at rank 50."""
    rows = []
    for pair, (positive, negative, verb) in enumerate(outcomes):
        rows.append((condition, pair, 50, "1P", positive, True, True, False))
        rows.append((condition, pair, 50, "1N", negative, True, verb, False))
    names = ("condition", "pair", "rank", "pattern", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
    return pl.DataFrame(rows, schema=names, orient="row")


def test_the_drop_is_the_difference_of_the_two_rates_on_the_same_pairs():
    """P repeats in 8 of 10, N in 3: drop 0.5. Six pairs repeat in P alone, one in N alone.

    McNemar: p = 2 · (C(7,0) + C(7,1)) / 2⁷ = 0.125; the only test, so Holm leaves it.
    """
    outcomes = [(True, False, True)] * 6 + [(True, True, True)] * 2 + [(False, True, False)] + [(False, False, False)]
    summary = gh22.summarise(items_of(outcomes))
    assert cell(summary, "original", "1P@50", "repetition_rate")["value"] == 0.8
    assert cell(summary, "original", "1N@50", "repetition_rate")["value"] == pytest.approx(0.3)
    drop = cell(summary, "original", "1@50", "drop")
    assert drop["value"] == pytest.approx(0.5)
    assert drop["low"] < 0.5 < drop["high"]
    assert cell(summary, "original", "1@50", "mcnemar_p:repetition_rate")["value"] == pytest.approx(0.125)
    assert cell(summary, "original", "1@50", "mcnemar_p_holm:repetition_rate")["value"] == pytest.approx(0.125)
    assert cell(summary, "original", "1N@50", "ungrammatical")["value"] == pytest.approx(0.2)
    assert cell(summary, "original", "ACT@50", "act_not_a_verb")["value"] == 1


def test_any_of_the_three_verbs_counts_in_the_coordinated_variant_alone():
    outcomes = [(False, False, True)] * 4
    coordinated = gh22.summarise(items_of(outcomes, "coordinated"))
    assert cell(coordinated, "coordinated", "1P@50", "repetition_rate:any")["value"] == 1
    assert "repetition_rate:any" not in set(gh22.summarise(items_of(outcomes))["metric"])


# ---------------------------------------------------------------- tables


def shown(table):
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_our_copy_of_table_2_is_the_transcript(shared):
    transcript = tomllib.loads((shared / "data/published/self-contained-negation-test.toml").read_text("utf-8"))
    for model in ("roberta-large", "bert-large-cased"):
        wanted = {
            f"{row['pattern']}{row['polarity']}": row["repetition_percent"][model]
            for row in transcript["table_2"]["rows"]
        }
        assert gh22_tables.published(model) == wanted
    assert gh22_tables.published("mini") is None


def test_the_table_has_the_papers_layout_and_its_rates_beside_ours(finished, variants):
    _, summary = finished
    text = shown(gh22_tables.rates_table(summary, Variant.ORIGINAL, variants[Variant.ORIGINAL], "roberta-large"))
    lines = [line for line in text.splitlines() if line.startswith(("│ ", "┃ "))]
    assert len(lines) == 1 + 8
    rate = cell(summary, "original", "3N@50", "repetition_rate")["value"]
    cells = [part.strip() for part in lines[6].strip("│").split("│")]
    assert cells[:4] == ["3", "N", "-", "✓"]
    assert cells[5].startswith(f"{100 * rate:.1f} (")
    assert cells[-1] == "25.3"


def test_drops_and_acts_are_told(finished):
    _, summary = finished
    drop = cell(summary, "connective", "2@100", "drop")["value"]
    text = shown(gh22_tables.drops_table(summary, Variant.CONNECTIVE))
    assert f"{100 * drop:.1f}" in next(line for line in text.splitlines() if line.startswith("│ 2"))
    share = cell(summary, "original", "ACT@50", "act_not_a_verb")["value"]
    assert f"{100 * share:.1f} % at rank 50" in gh22_tables.acts_line(summary)
