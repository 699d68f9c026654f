import unicodedata

import regex
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.apart import labels, stems, wrapped
from negengine.engine.basics.paths import is_file_name
from negengine.engine.views.labels import numbered
from rich.cells import cell_len

LETTERS = st.text(
    "aAbB_-. /:|é\u0301ße模型甲乙قİİi2\u0915\u093f\u0e21\u0e48\U0001f469\u200d",
    max_size=6,
)
LONG = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "relative clause, ", "从句，宾语提取，"]),
    LETTERS,
    st.sampled_from(["", " extracted verb"]),
)
NAMES = st.lists(LONG, unique=True, max_size=12)


@given(NAMES, st.integers(8, 26))
def test_different_texts_have_different_labels_and_files_also_without_case(names, most):
    cut = labels(names, most)
    assert len(set(cut)) == len(names)
    assert all(cell_len(label) <= most for label in cut)
    for name, label in zip(names, cut, strict=True):  # no letter loses its marks, and none gets those of another one
        assert {*regex.findall(r"\X", label)} <= {*regex.findall(r"\X", name), *"… 0123456789"}
    assert all(label == name for label, name in zip(cut, names, strict=True) if cell_len(name) <= most and name in cut)
    files = stems(names)
    for form in ("NFC", "NFD"):
        folded = [unicodedata.normalize(form, name).casefold().upper() for name in files]
        assert len(set(folded)) == len(names)
    assert all(is_file_name(f"x-{name}.pdf") for name in files)


@given(st.lists(st.text("ae\u0301\u00e9 \u00a0\u3000(2)", max_size=4), max_size=6))
def test_labels_differ_also_to_the_eye(texts):
    shown = numbered(texts)
    assert len({unicodedata.normalize("NFKC", own) for own in shown}) == len(texts)
    assert all(own.startswith(text) for own, text in zip(shown, texts, strict=True))
    assert shown[:1] == texts[:1]


@given(LONG, st.integers(2, 26))
def test_a_text_in_lines_has_all_its_letters(name, most):
    text = name.strip()
    lines = wrapped(text, most).split("\n")
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(line) <= most for line in lines)


def test_names_as_files_and_as_labels():
    assert labels(["relative clause,  \u093f2"], 8) == ["rela… \u093f2"]
    assert stems(["my_model", "my-model", "模型甲", "模型乙", "GPT2", "gpt2", "!"]) == [
        "my-model", "my-model-2", "模型甲", "模型乙", "GPT2", "gpt2-2", "run",
    ]  # fmt: skip
    assert stems(["नकारात्मक", "ไม่", "a/b. "]) == ["नकारात्मक", "ไม่", "a-b"]
    both = f"differences-{'-'.join(['organisation'] * 4)}-step1000-minus-{'-'.join(['organisation'] * 4)}-step2000"
    assert stems([both]) == [both]
    assert labels(["é", "e\u0301"], 9) == ["é", "e\u0301 2"]
    long = "relative clause, object extracted, {} verb"
    assert labels([long.format("affirmative"), long.format("negated"), "short"], 20) == [
        "relative c…tive verb", "relative c…ated verb", "short",
    ]  # fmt: skip
