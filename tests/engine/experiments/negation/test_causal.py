"""The Self-Contained Negation Test on a causal model: verbs of one and of several tokens, up to the verification."""

import shutil

import negengine as ng
import pytest
from negengine.engine.basics.errors import InputError

VERBS = ["smoke", "smoked", "danced", "dance", "unsung"]


@pytest.fixture(scope="module")
def select(causal, small_lexicon, tmp_path_factory):
    """Selects with a model that continues every text with `smoked`, which is two of its tokens."""
    lexicon = shutil.copytree(small_lexicon, tmp_path_factory.mktemp("words") / "words")
    (lexicon / "verbs.txt").write_text("\n".join(VERBS))

    def run(precision="fp32", **options):
        model = ng.load(causal("gpt2", "smoked").folder, device="cpu", precision=precision)
        options |= {"lexicon": lexicon, "verbs": "whole-words", "progress": False}
        return ng.select(model, output=tmp_path_factory.mktemp("runs") / "run", **options)

    return run


@pytest.fixture(scope="module")
def scored(select):
    return ng.score(select(), progress=False)


def test_words_of_both_kinds_are_selected_apart_and_sentences_have_a_mask_for_each_token(scored):
    single, several = scored.selection.triplets, scored.several
    assert (set(single["verb"]), set(several["verb"]), set(several["tokens"])) == ({"smoke"}, {"smoked"}, {2})
    assert min(len(single), len(several)) > 5
    assert scored.rates["pattern"].to_list() == ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"]
    assert scored.rates["repetition_rate"][0] == 100
    assert scored.record.metadata["call"]["model"]["task"] == "text-generation"
    sentences = scored.sentences().filter(tokens=2)
    assert set(sentences["expected"]) == {"smoked"}
    assert sentences["sentence"].str.contains(" [MASK][MASK].", literal=True).all()


def test_a_lazy_selection_in_shards_and_mixed_precision_give_the_same_triplets(scored, select, tmp_path):
    shards = [select(lazy=True, shard=f"{i}/2").folder for i in (1, 2)]
    mixed = select(precision="mixed")
    assert mixed.record.counts["decided"] > 0, mixed.record.counts
    for run in (ng.merge(shards, tmp_path / "merged"), mixed):
        assert run.triplets.equals(scored.selection.triplets)
        assert run.several.equals(scored.several)


def test_a_text_is_continued(causal):
    model = ng.load(causal("gpt2", "smoked").folder, device="cpu", precision="fp32")
    found = ng.predict(model, ["Jessica is a dancer. She is happy to", "She is happy to [MASK]."], top=2)
    texts = ["Jessica is a dancer. She is happy to [MASK]", "She is happy to [MASK]."]
    assert found["text"].unique(maintain_order=True).to_list() == texts
    assert found.filter(rank=1)["token"][0] == "smoke"
    with pytest.raises(InputError, match=r"words follow the mask in 'She is \[MASK\] today\.'"):
        ng.predict(model, ["She is [MASK] today."])
