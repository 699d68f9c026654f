"""The pairs of a run: the texts that were judged, and the labels given."""

from negengine.engine.experiments.nli.nli_pairs import read_sets

COLUMNS = ["item", "condition", "premise", "hypothesis", "expected", "answer", "correct", "failed", "rank", "logprob"]


def test_every_pair_has_its_texts(finished, data):
    rows = finished.sentences()
    sets = read_sets(data, {"RTE": data / "dev.tsv"}, ("RTE", "SNLI"))
    texts = [(pair.text, pair.hypothesis) for own in sets for pair in own.pairs]
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    assert rows.select("premise", "hypothesis").rows() == texts


def test_a_wrong_label_fails(finished):
    rows = finished.sentences()
    assert (rows["failed"] != rows["correct"]).all()
    assert (rows["correct"] == (rows["expected"] == rows["answer"])).all()
