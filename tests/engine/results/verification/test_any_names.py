"""`verify` calls no sound run damaged, whatever the groups, items, clusters and columns of a table are called."""

from pathlib import Path

import negengine as ng
import pytest

CHECKPOINT = Path(__file__).parents[4] / "export" / "mini"
# Words of the program's own, separators, signs, numbers, what looks missing, other scripts, and letters in two forms.
NAMES = (
    *("all", "bird vs fish", "a=b", "x: y", "−", "-", '"q"', "it's", "a, b", "original", "split", "p", "@1"),
    *(
        "group",
        "اسم",
        "名 前",
        "<b>",
        "&amp;",
        "=1+1",
        "%",
        "1",
        "01",
        "1.0",
        "true",
        "a/b",
        "..",
        "difference",
        "other",
    ),
    *("`", "$x$", "\\n", "{model}", "é", "ex́", "ﬁ"),
)
NAMED = [
    {"group": name, "split": NAMES[-place - 1], "cluster": NAMES[place // 3], "why": name, "condition": f"c{name}"}
    for place, name in enumerate(NAMES)
]
SENTENCES = ("A robin is a [MASK].", "A robin is not a [MASK].")
TABLES = {
    "probe": [
        {"sentence": sentence, "target": "bird", "item": own["group"], **own} for own in NAMED for sentence in SENTENCES
    ],
    "likelihood": [
        {"sentence_good": "The dancer is happy.", "sentence_bad": "The dancer are happy.", **own} for own in NAMED
    ],
    "choice": [
        {"context": "Anna likes to", "choices": ["dance.", "smoke."], "answer": "dance.", **own} for own in NAMED
    ],
}


@pytest.mark.everything
@pytest.mark.parametrize("kind", TABLES)
def test_a_sound_run_with_any_names_is_not_called_damaged(kind, mini, tmp_path):
    given = {"output": tmp_path / "run: [x]=1", "device": "cpu", "progress": False}
    run = getattr(ng, kind)(
        mini.folder, TABLES[kind], group=["group", "split", "condition"], cluster="cluster", **given
    )
    for further in ({}, {"torch": CHECKPOINT}):
        assert ng.verify(run, sample=30, **further).damage == ()
    assert {str(own) for own in run.summary["split"]} >= {*NAMES}
