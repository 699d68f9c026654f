"""`ng.predict`: a frame, checked against PyTorch's numbers elsewhere."""

import negengine as ng
import pytest
from negengine.engine.inference.exported import GRAPH

TEXTS = ["She is happy to [MASK].", "He is a [MASK]."]


def test_the_tokens_of_each_text_are_rows(mini):
    frame = ng.predict(ng.load(mini.folder, device="cpu"), TEXTS, top=3)
    assert frame.columns == ["text", "rank", "token", "logit", "probability"]
    assert frame["text"].to_list() == [text for text in TEXTS for _ in range(3)]
    assert frame["rank"].to_list() == [1, 2, 3, 1, 2, 3]
    for (_,), own in frame.group_by("text"):
        assert own["probability"].is_sorted(descending=True)


def test_a_model_that_a_thread_opens_is_the_graph_that_opens_fastest_and_predicts_the_same_tokens(mini):
    opening = ng.load(mini.folder, device="cpu").begun()
    assert opening.reference.graph.name == GRAPH
    at_once = ng.predict(ng.load(mini.folder, device="cpu"), TEXTS, top=3)
    ahead = ng.predict(opening, TEXTS, top=3)
    assert ahead["token"].to_list() == at_once["token"].to_list()
    assert ahead["logit"].to_list() == pytest.approx(at_once["logit"].to_list(), abs=1e-3)
