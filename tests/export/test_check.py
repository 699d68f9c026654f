"""`export --check` and `export` give one answer, for every situation of a checkpoint and every family of the tests."""

import causal_checkpoints
import pytest
import tiny_checkpoints
from few import few
from negengine.engine.basics.errors import InputError
from negengine.export.build import build
from negengine.export.check import check

from .families import ROWS
from .further import CAUSAL, MASKED
from .further import REFUSED as REFUSED_FAMILIES
from .situations import ADAPTERS, OTHERS, PAIRS, READ, REFUSED, TOKENS

CASES = {
    "refused": REFUSED,
    "adapter": ADAPTERS,
    "other": range(len(OTHERS)),
    "read": READ,
    "checkpoint": (*ROWS, *MASKED, *CAUSAL, *REFUSED_FAMILIES),
    "causal": causal_checkpoints.FAMILIES,
    PAIRS: (*tiny_checkpoints.FAMILIES, "xlnet"),
    TOKENS: tiny_checkpoints.FAMILIES,
}
SOON = {"read": {"padding -1"}, "checkpoint": {"bert", "roberta", "xlnet"}}  # those that other tests export
SOON |= {kind: {"bert", "roberta", "gpt2"} for kind in ("causal", PAIRS, TOKENS)}
EVERY = [(kind, name) for kind, names in CASES.items() for name in names]
KEPT = [(kind, name) for kind, name in EVERY if name in SOON.get(kind, CASES[kind])]
FIXTURES = {"checkpoint": ("checkpoint", "exported"), "causal": ("causal_checkpoint", "causal")}


@pytest.fixture
def asked(saved, classifier, tmp_path, request):
    """Makes a case; gives the model, the options of both commands, why it is refused, and how it is exported."""

    def make(kind, name):
        said, options, what = "", {}, ""
        if kind == "other":
            model, options, said = OTHERS[name]
            reference = model if isinstance(model, str) else model(tmp_path)
        elif kind in {PAIRS, TOKENS}:
            (reference, exported), options = classifier(kind, name), {"task": kind}
            return reference, options, said, what, lambda: exported
        elif kind in FIXTURES:
            said = REFUSED_FAMILIES.get(name, ({}, ""))[1]
            made, export = map(request.getfixturevalue, FIXTURES[kind])
            return made(name), options, said, what, lambda: export(name)
        else:
            case = CASES[kind][name]
            _, reference = saved(case.family, **case.sizes)
            case.change(reference)
            said, what, options = case.said, case.looked_at, case.options
            if kind == "adapter":
                reference, options = reference / "lora", {"base": str(reference)}
        return reference, options, said, what, lambda: build(str(reference), tmp_path / "out", **options)

    return make


@pytest.mark.parametrize(("kind", "name"), few(EVERY, *KEPT))
def test_check_and_export_give_the_same_answer(kind, name, asked, tmp_path):
    reference, options, said, looked_at, export = asked(kind, name)
    before, looked = {*tmp_path.iterdir()}, {}
    try:
        looked = {own.what: own for own in check(str(reference), **options).findings}
        against = {what: own.said for what, own in looked.items() if not own.possible}
    except InputError as error:
        against = {"": str(error)}
    if not said:
        assert against == {}
        export()
        return
    with pytest.raises(InputError, match=said) as caught:
        export()
    line = str(caught.value)
    ((what, _),) = [(what, why) for what, why in against.items() if line.endswith(why)]  # --check says all at once
    assert {*tmp_path.iterdir()} == before  # nothing is left
    assert what == (looked_at or what)
    if looked:  # without a family and an input, there is no model whose weights could be named
        assert ("head" in looked) is (what not in {"family", "input"})
