"""Select and score from end to end: against a slow PyTorch loop, and however the run is cut, batched or interrupted.

Verbs of one and of several tokens go the same way, so most runs have those of several.
"""

from dataclasses import replace
from pathlib import Path

import fake_models as fake
import polars as pl
import pytest
import torch
from negengine.engine.basics.choices import Coreference, Precision, VerbConvention
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.answers import SAMPLE
from negengine.engine.experiments.negation.negation_runs import ScoresRun, read_selected
from negengine.engine.experiments.negation.score import Scoring
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.runs.masked_stages import DecidingStage
from negengine.engine.runs.record import read_run
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import changed
from negengine.engine.text.lexicon import Lexicon
from negengine.engine.text.pattern_files import load_patterns
from transformers import AutoModelForMaskedLM, AutoTokenizer

pytestmark = pytest.mark.long

TESTS = Path(__file__).parents[3]
MINI = TESTS.parent / "export" / "mini"
ONE_TOKEN = {"lexicon": fake.LEXICON, "verbs": "in-context"}


@pytest.mark.parametrize("kind", ["in-context", "several-tokens"])
def test_a_slow_pytorch_loop_selects_and_scores_the_same(mini, tmp_path, kind):
    tokenizer = AutoTokenizer.from_pretrained(MINI)
    model = AutoModelForMaskedLM.from_pretrained(MINI, dtype=torch.float32).eval()
    forms = {pattern.name: f"{pattern.context} {pattern.target}" for pattern in load_patterns().all}

    @torch.inference_mode()
    def filled(pattern, slots, tokens, *, greedy):
        """Fill a mask for each token of a verb with it, or with the first choice."""
        text = forms[pattern].format(**slots, MASK=" ".join(["[MASK]"] * len(tokens)))
        ids, found, total = tokenizer(text, return_tensors="pt")["input_ids"], [], 0.0
        masks = (ids[0] == tokenizer.mask_token_id).nonzero().flatten().tolist()
        for position, token in zip(masks, tokens, strict=True):
            logits = model(input_ids=ids).logits[0, position]
            found.append(int(logits.argmax()) if greedy else token)
            ids[0, position] = found[-1]
            total += float(torch.log_softmax(logits.double(), 0)[found[-1]])
        return found, total

    verbs = ("smoke", "dance", "walk", "argue", "beware", "rustle", "abdicate")
    lexicon = Lexicon(("Jessica", "John"), ("f", "m"), ("a dancer",), verbs)
    folder = fake.select(mini, tmp_path, kind=Selection, lexicon=lexicon, max_verbs=100, verbs=kind)
    fake.score(fake.plan_scores(mini, folder, Scoring))
    wanted = {}
    for name, pronoun in (("Jessica", "She"), ("John", "He")):
        for verb in verbs:
            slots = {"NAME": name, "PROF": "a dancer", "ACT": verb, "PRON": pronoun}
            tokens = tokenizer(verb, add_special_tokens=False)["input_ids"]
            if filled("CpTp", slots, tokens, greedy=True)[0] == tokens:
                wanted[name, verb] = slots, tokens
    repetitions = dict.fromkeys(("CpTp", "CpTn", "CnTp", "CnTn", "CpTv"), 0)
    own = fake.triplets(folder)
    found = {key for key, (_, tokens) in wanted.items() if (len(tokens) > 1) == (kind == "several-tokens")}
    assert set(own.select("name", "verb").iter_rows()) == found
    scores = pl.read_parquet(folder / "scores.parquet").join(own, on="triplet")
    assert len(scores) == 5 * len(own) > 10
    for row in scores.iter_rows(named=True):
        slots, tokens = wanted[row["name"], row["verb"]]
        greedy, _ = filled(row["pattern"], slots, tokens, greedy=True)
        _, logprob = filled(row["pattern"], slots, tokens, greedy=False)
        assert row.get("tokens", 1) == len(tokens)
        assert row["repeated"] == (greedy == tokens) == (row["expected_rank"] == 1)
        assert row["expected_logprob"] == pytest.approx(logprob, abs=1e-4 * len(tokens))
        first_wrong = next((i for i in range(len(tokens)) if greedy[i] != tokens[i]), len(tokens) - 1)
        assert row["top1"] == tokenizer.decode(greedy[: first_wrong + 1])
        repetitions[row["pattern"]] += row["repeated"]
    rates, n = ScoresRun.open(folder).rates, len(own)
    assert dict(rates.select("pattern", "repetitions").iter_rows()) == repetitions
    assert rates["drop"].to_list() == pytest.approx([100 - 100 * count / n for count in repetitions.values()])


def test_sampled_pairs_have_the_triplets_of_the_whole_run_whatever_the_order_of_the_words(mini, tmp_path):
    own = fake.LEXICON
    backwards = Lexicon(own.names[::-1], own.genders[::-1], own.professions[::-1], own.verbs[::-1])
    whole, sample, other = (
        fake.triplets(fake.select(mini, tmp_path / str(number), **ONE_TOKEN | how, coreference="same-gender"))
        .drop("triplet")
        .sort("name", "profession", "verb")
        for number, how in enumerate(({}, {"pairs": 5}, {"pairs": 5, "lexicon": backwards}))
    )
    pairs = sample.select("name", "profession").unique()
    assert len(pairs) == 5
    assert sample.equals(whole.join(pairs, on=["name", "profession"], how="semi"))
    assert sample.equals(other)


@pytest.mark.parametrize("coreference", Coreference)
def test_every_coreference_variant_selects_and_scores(mini, tmp_path, coreference):
    run = fake.score(fake.plan_scores(mini, fake.select(mini, tmp_path, coreference=coreference)))
    triplets = pl.read_parquet(run / "triplets.parquet")
    assert set(triplets["name"] == triplets["pronoun"]) == {coreference is Coreference.SAME_NAME}


def test_at_most_max_verbs_of_a_pair_are_kept_and_a_lazy_selection_finds_the_same_with_fewer_sentences(mini, tmp_path):
    exhaustive, lazy = (fake.select(mini, tmp_path / str(lazy), lazy=lazy, max_verbs=2) for lazy in (False, True))
    assert fake.files(exhaustive) == fake.files(lazy)
    triplets = fake.triplets(exhaustive)
    assert triplets["triplet"].to_list() == list(range(len(triplets)))
    more, fewer = fake.summary(exhaustive), fake.summary(lazy)
    assert triplets.group_by("name", "profession").len()["len"].max() == 2
    assert more["repeating"] >= more["selected"] == len(triplets)
    assert fewer["tested"] < more["tested"] == fewer["lazy"]["candidates"]
    assert fewer["lazy"]["ratio_low"] <= more["ratio"] <= fewer["lazy"]["ratio_high"]


def test_what_cannot_be_selected_or_scored_is_refused(mini, tmp_path):
    with pytest.raises(InputError, match="--verbs several-tokens: no verb is of several tokens at the mask of CpTp"):
        fake.select(mini, tmp_path / "single", lexicon=replace(fake.LEXICON, verbs=fake.LEXICON.verbs[:5]))
    assert fake.summary(fake.select(mini, tmp_path / "never", kind=fake.NeverSelection))["selected"] == 0
    with pytest.raises(InputError, match="nothing to score"):
        read_selected(tmp_path / "never")


def test_verbs_that_drop_out_are_named(mini):
    lexicon, patterns = replace(fake.LEXICON, verbs=(*fake.LEXICON.verbs[:1], "to dance", "oversleep")), load_patterns()
    assert Selection.plan(mini, lexicon, patterns).notes[0] == (
        "select: 2 verbs of 3 cannot be asked for as one token, so they are left out: 'to dance', 'oversleep'; "
        "--verbs several-tokens takes verbs of several tokens"
    )
    several = Selection.plan(mini, lexicon, patterns, Settings(verbs=VerbConvention.SEVERAL_TOKENS))
    assert several.notes[0].startswith("select: 1 verb of 3 cannot be asked for as several tokens, so they are left")


class Taking(fake.FakeScoring):
    """Fake models, and the real choice of what is taken."""

    calibrate = DecidingStage.calibrate


def keeping(stage, *changes):
    """The scoring after changes of the answers that the selection kept."""
    return changed(stage, kept=stage.kept.with_columns(*changes))


class Computing(Scoring):
    """It asks all patterns."""

    known = DecidingStage.known


@pytest.fixture(scope="module")
def one_token(mini, tmp_path_factory):
    return fake.select(mini, tmp_path_factory.mktemp("answers") / "run", **ONE_TOKEN)


def test_a_real_model_is_asked_about_the_other_patterns_alone_and_the_rows_are_the_same(mini, tmp_path):
    selected = fake.select(mini, tmp_path / "run", kind=Selection, max_verbs=4, **ONE_TOKEN)
    stage, computing = (fake.plan_scores(mini, selected, kind) for kind in (Scoring, Computing))
    folders = fake.score(stage, tmp_path / "taken"), fake.score(computing, tmp_path / "computed")
    own, other = (pl.read_parquet(folder / "scores.parquet") for folder in folders)
    logarithms = ["expected_logprob", "top1_logprob"]
    assert own.drop(logarithms).equals(other.drop(logarithms))
    # Batches of a few sentences: the last digits may differ.
    assert (own.select(logarithms) - other.select(logarithms)).to_numpy() == pytest.approx(0, abs=1e-5)
    taken, computed = ((folder / "rates.parquet").read_bytes() for folder in folders)
    assert taken == computed
    n = len(stage.selected.triplets)
    asked = [read_run(folder).stages["score"].sessions[0].sentences for folder in folders]
    assert asked == [4 * n + min(n, SAMPLE), 5 * n]


def test_answers_of_another_machine_are_not_taken(mini, one_token, tmp_path):
    stage = fake.plan_scores(mini, one_token, Taking)
    found = fake.score(keeping(stage, pl.col("expected_logprob") + pl.lit(1e-6, pl.Float32)), tmp_path / "run")
    assert "taken_from" not in read_run(found).stages["score"].calibration["CpTp"]
    assert fake.files(found) == fake.files(fake.score(fake.plan_scores(mini, one_token), tmp_path / "computed"))


def test_a_resumed_scoring_goes_on_with_the_answers_that_it_began_with(mini, one_token, tmp_path):
    stage, how = fake.plan_scores(mini, one_token, Taking), {"shard": Shard.parse("1/2")}
    begun = fake.score(stage, tmp_path / "shard", **how)
    record = read_run(begun)
    record.stages["score"].calibration["CpTp"]["answers_sha256"] = "0" * 64
    record.write(begun)
    for path in (begun / "parts" / "score").glob("part-00000*"):
        path.unlink()
    with pytest.raises(InputError, match=r"answers.parquet is not the file that this scoring was started with"):
        fake.score(stage, begun, **how)


def test_numbers_of_a_low_precision_model_that_errs_or_that_the_run_would_not_use_are_not_taken(mini, tmp_path):
    """The fake one errs, and the audit of so few sentences does not see it."""
    how, said = {"precision": Precision.MIXED}, []
    stage = fake.plan_scores(mini, fake.select(mini, tmp_path / "run", how=how, **ONE_TOKEN), Taking)
    assert "int8" in set(stage.kept["precision"])
    assert stage.known(stage.open(Opening(**how)), said.append) == {}
    assert said[0].startswith("CpTp: this machine decides otherwise about a verb than the selection has kept, so all")
    for precision in (Precision.FP32, Precision.AUTO):  # a short run is in fp32
        assert stage.known(stage.open(Opening(precision=precision)), pytest.fail) == {}
