"""`ng.predict`: a frame, checked against PyTorch's numbers elsewhere."""

import negengine as ng
import pytest

TEXTS = ["She is happy to [MASK].", "He is a [MASK]."]


def test_the_tokens_of_each_text_are_rows(mini):
    frame = ng.predict(ng.load(mini.folder, device="cpu"), TEXTS, top=3)
    assert frame.columns == ["text", "rank", "token", "logit", "probability"]
    assert frame["text"].to_list() == [text for text in TEXTS for _ in range(3)]
    assert frame["rank"].to_list() == [1, 2, 3, 1, 2, 3]
    for (_,), own in frame.group_by("text"):
        assert own["probability"].is_sorted(descending=True)


def test_a_text_that_cannot_be_asked_is_refused_before_the_model_is_opened(mini, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a session was opened")

    monkeypatch.setattr("onnxruntime.InferenceSession", refuse)
    with pytest.raises(ng.InputError, match="no mask here"):
        ng.predict(ng.load(mini.folder, device="cpu"), [TEXTS[0], "no mask here"])
