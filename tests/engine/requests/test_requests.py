"""Metrics and faults of items against plain loops; parts of requests; what cannot be asked; words of one token."""

from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.requests.items import KEYS, WHY
from negengine.engine.requests.metrics import ROUNDING, lead, of_choice, refused
from negengine.engine.requests.stage import InMemory, RequestStage, complete
from negengine.engine.requests.vocabulary import Ranked, target_ids, word_ids
from negengine.engine.requests.word import SEVERAL, Word
from negengine.engine.text.tokenizer import NOT_ONE_TOKEN

SCORES = st.sampled_from([None, -3.0, -2.0, -2.00005, -1.0])
ITEMS = st.lists(st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=4), min_size=1, max_size=4)


def frame(items):
    rows = [
        {"item": str(number), "pair": str(number // 2), "score": score, "right": right, "word": str(place)}
        for number, item in enumerate(items)
        for place, (score, right) in enumerate(item)
    ]
    return complete(pl.DataFrame(rows, schema_overrides={"score": pl.Float64}), Word(), "D")


def chosen(item):
    """Whether the right one is ahead of all others by more than rounding; None where that cannot be told."""
    right = [score for score, is_right in item if is_right]
    others = [score for score, is_right in item if not is_right]
    if None in right + others or not others or not right:
        return None
    return max(right) - max(others) > 1e-4


@given(ITEMS)
def test_the_best_candidate_is_that_of_a_loop_and_a_missing_score_or_a_tie_is_never_right(items):
    right, score = pl.col("right"), pl.col("score")
    rows = frame(items).with_columns(accuracy=lead(score, right) > ROUNDING)
    found = dict(rows.group_by("item").agg(pl.col("accuracy").max()).iter_rows())
    assert found == {str(number): chosen(item) for number, item in enumerate(items)}
    assert rows.filter(~right)["accuracy"].null_count() == len(rows.filter(~right))
    once = [item for item in items if sum(is_right for _, is_right in item) == 1]
    assert rows["accuracy"].count() == sum(
        sum(is_right for _, is_right in item) for item in items if chosen(item) is not None
    ) >= sum(chosen(item) is not None for item in once)  # fmt: skip


@given(ITEMS)
def test_an_item_without_exactly_one_right_candidate_has_its_reason_before_anything_runs(items):
    rows = refused(frame(items), of_choice(pl.col("right"), pl.col("score")))
    for number, item in enumerate(items):
        right, scores = [is_right for _, is_right in item], [score for score, _ in item]
        faults = [
            ("only one candidate", len(item) == 1),
            ("no candidate is right", not any(right)),
            ("several candidates are right", sum(right) > 1),
            ("two candidates are alike", len(set(scores)) < len(scores)),
        ]
        wanted = next((reason for reason, is_so in faults if is_so), None)
        assert set(rows.filter(item=str(number))[WHY]) == {wanted}


def experiment(**attributes):
    own = {"name": "x", "place": lambda row: row["item"], "excuses": lambda why: why == SEVERAL}
    return SimpleNamespace(**own, **attributes)


@given(st.lists(st.integers(1, 6), max_size=9), st.integers(1, 5))
def test_parts_have_all_requests_once_and_no_item_is_divided(sizes, size):
    items = [number for number, n in enumerate(sizes) for _ in range(n)]
    rows = complete(pl.DataFrame({"item": items, "text": "a"}, {"item": pl.Int64, "text": pl.String}), Word(), "D")
    source = InMemory(rows, size, ("item",))
    assert [row for part in source.parts for row in part] == list(range(len(rows)))
    assert all(source.sizes)
    assert pl.concat([rows.clear(), *map(source.read, range(len(source.parts)))]).equals(rows)
    own = [set(rows["item"][part.start : part.stop]) for part in source.parts]
    assert sum(map(len, own)) == len(sizes)


def test_what_cannot_be_asked_is_told_or_refused_with_its_place_and_takes_its_item_with_it(mini):
    texts = {"a": "This is a [MASK].", "b": "No mask.", "c": "That is the [MASK]."}
    words = [("a", "dog"), ("a", "unspeakableness"), ("c", "cat"), ("c", None)]
    rows = pl.DataFrame([{"item": item, "text": texts[item], "word": word} for item, word in words])

    def staged(frame, together=("item",)):
        source = InMemory(complete(frame, Word(), "D"), 4, together)
        return RequestStage(mini, experiment(together=together), Word(), source)

    staged(rows).check(lambda _: None)
    requests, asked = staged(rows).prepare(0)
    assert requests[WHY].to_list() == [SEVERAL, SEVERAL, None, None]
    assert (len(asked), requests.columns[: len(KEYS)]) == (1, [*KEYS])  # one text
    assert staged(rows, ()).prepare(0)[0][WHY].to_list() == [None, SEVERAL, None, None]
    bad = pl.concat([rows, pl.DataFrame({"item": ["b"], "text": [texts["b"]], "word": ["dog"]})])
    with pytest.raises(InputError, match=r"^b: no masks, where one \[MASK\] is needed"):
        staged(bad).check(lambda _: None)
    with pytest.raises(InputError, match=r"^none of 1 requests can be asked \(1: left out\)"):
        staged(bad[-1:].with_columns(pl.lit("left out").alias(WHY))).check(lambda _: None)
    staged(bad.with_columns(pl.when(item="b").then(pl.lit("left out")).alias(WHY))).check(lambda _: None)


WORDS = ["dance", "smoke", "happy", "dancer", "unspeakable", "z", "doesn", "☃", "like to"]
TEXTS = ["She is happy to [MASK].", "[MASK] is happy.", "he (likes [MASK])."]


@pytest.mark.parametrize("text", TEXTS)
def test_a_target_is_the_one_token_that_is_the_word_after_the_same_tokens(text, small_tokenizer):
    """After the mask tokens may differ: with some tokenizers a word starts anew there."""
    (masked,) = small_tokenizer.encode([text.replace("[MASK]", small_tokenizer.mask_token)])
    position = masked.tolist().index(small_tokenizer.mask_id)
    found = target_ids(small_tokenizer, [text] * len(WORDS), WORDS)
    assert NOT_ONE_TOKEN in found.tolist()
    for word, target in zip(WORDS, found.tolist(), strict=True):
        (filled,) = small_tokenizer.encode([text.replace("[MASK]", word)])
        same_before = filled[:position].tolist() == masked[:position].tolist()
        one = same_before and small_tokenizer.token_text(int(filled[position])) == word
        assert target == (filled[position] if one else NOT_ONE_TOKEN)


def test_words_are_letters_that_stand_alone(small_tokenizer, mini_tokenizer):
    ids = word_ids(small_tokenizer, small_tokenizer.vocab_size).tolist()
    texts = [small_tokenizer.token_text(i) for i in ids]
    assert {"dance", "smoke", "happy"} <= set(texts)
    assert all(text.isalpha() for text in texts)
    assert not set(ids) & small_tokenizer.special_ids()
    for i, text in zip(ids, texts, strict=True):
        assert i in small_tokenizer.encode([f"This is the {text} ."])[0]
    # No continued word, and none beyond the model's outputs.
    (pieces,) = mini_tokenizer.encode(["unspeakableness"])
    assert not set(word_ids(mini_tokenizer, 10**6).tolist()) & set(pieces[2:-1].tolist())
    assert max(word_ids(mini_tokenizer, 1000)) < 1000


def test_a_list_of_words_gives_ids_in_ascending_order_once_each(mini_tokenizer, tmp_path):
    (tmp_path / "words.txt").write_text("rome\n\n france \r\nunspeakableness\nrome\n", "utf-8")
    assert Ranked.of(str(tmp_path / "words.txt")).ids(mini_tokenizer, 12_704).tolist() == [680, 2197]
    (tmp_path / "words.txt").write_text("rome\nunspeakableness\n", "utf-8")
    with pytest.raises(InputError, match=r"words\.txt: 1 of 2 words are one token of the model; at least two are"):
        Ranked.of(str(tmp_path / "words.txt")).ids(mini_tokenizer, 12_704)
