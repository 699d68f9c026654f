import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.inference.checkpoint_steps import named_step
from negengine.engine.results.suite.suite_file import SuiteFile
from negengine.engine.results.suite.suite_members import members_of
from negengine.engine.results.suite.suite_run import exporting, plan_suite

RIGHT = """\
[[model]]
model = "mini"

[[model]]
model = "lab/tiny"
revisions = ["step1000", "step_20k"]

[[model]]
model = "own"
checkpoints = ["out/a/checkpoint-500/", "out/a/checkpoint-1000"]

[[probe]]
probe = "score"
pairs = 6
lazy = true
vary = {coreference = ["pronoun", "same-name"]}

[[probe]]
name = "trex"
probe = "lama"
corpus = ["TREx"]
models = ["lab/tiny", "mini"]
"""


def read(tmp_path, text):
    (tmp_path / "own.toml").write_text(text)
    return SuiteFile.read(tmp_path / "own.toml")


def test_models_probes_and_settings_are_multiplied(tmp_path):
    file = read(tmp_path, RIGHT)
    assert file.name == "own"
    assert [(model.label, model.series, model.step, model.reference, model.folder) for model in file.models] == [
        ("mini", "mini", None, "mini", None),
        ("lab/tiny@step1000", "lab/tiny", 1000, "lab/tiny@step1000", None),
        ("lab/tiny@step_20k", "lab/tiny", 20_000, "lab/tiny@step_20k", None),
        ("own@checkpoint-500", "own", 500, "out/a/checkpoint-500/", Path("models/own@checkpoint-500")),
        ("own@checkpoint-1000", "own", 1000, "out/a/checkpoint-1000", Path("models/own@checkpoint-1000")),
    ]
    assert [(probe.label, dict(probe.settings)) for probe in file.probes] == [
        ("score-pronoun", {"pairs": 6, "lazy": True, "coreference": "pronoun"}),
        ("score-same-name", {"pairs": 6, "lazy": True, "coreference": "same-name"}),
        ("trex", {"corpus": ["TREx"]}),
    ]
    assert exporting(file, file.models[0], Opening()) == {"allow_pickle": False, "precision": "auto"}
    assert exporting(file, file.models[0], Opening(precision="fp32"))["precision"] == "fp32"
    exact = '[[model]]\nmodel = "lab/a"\nallow_pickle = true\n[[probe]]\nprobe = "likelihood"\ndata = "a.csv"\n'
    alone = read(tmp_path, exact)
    assert exporting(alone, alone.models[0], Opening()) == {"allow_pickle": True, "precision": "fp32"}
    folders = [member.folder.relative_to(tmp_path).as_posix() for member in members_of(file, tmp_path)]
    first = ["score-pronoun/mini", "score-same-name/mini", "trex/mini", "score-pronoun/lab--tiny@step1000"]
    assert (folders[:4], len(folders)) == (first, 5 * 2 + 3)
    # Revisions that are models of their own are a series, too.
    two = '[[model]]\nmodel = "lab/a@step1"\n[[model]]\nmodel = "lab/a@step2"\n[[probe]]\nprobe = "gh22"\n'
    assert [(model.series, model.step) for model in read(tmp_path, two).models] == [("lab/a", 1), ("lab/a", 2)]


def test_the_step_that_a_name_says():
    steps = {"step1000": 1000, "seed-0-step_20k": 20_000, "step2M": 2_000_000, "out/run-3/checkpoint-500": 500}
    steps |= {"step1000-final": 1000, "main": None, "v1.5": None, "0123456789abcdef0123456789abcdef01234567": None}
    steps |= {"step-4000-epoch-3": 4000, "epoch_3-step_500": 500, "step1000-seed1": 1000, "seed2-step100k": 100_000}
    steps |= {"checkpoint-500-lr2e-5": 500, "step1,000": 1000, "stage1-step7-tokens5B": 7, "20k_steps": 20_000}
    steps |= {"chck_10M": 10_000_000, "seed1": None, "step1e5": 100_000, "step1-step2": None, "3-7": None, "500": 500}
    steps |= {"model-v2-step-100": 100, "epoch_3-step_200": 200, "ckpt_000500": 500, "1e5": None, "step1.5": None}
    steps |= {"2.5B tokens": 2_500_000_000, "tokens1.5e+9": 1_500_000_000, "step_2.5k-lr1e5": 2_500}
    steps |= {"step2e-5": None, "step0.0001k": None}
    assert {text: named_step(text).step for text in steps} == steps
    # A number behind that of the word could be a part of it, or another one: a person is told.
    doubted = {"step_1_000": (1_000,), "step1_000_000": (1_000_000,), "checkpoint_10_20": (20,), "step1000-seed1": ()}
    assert {text: named_step(text).others for text in doubted} == doubted


@given(
    st.integers(0, 10**9),
    st.lists(st.sampled_from(["seed-3", "lr2e-5", "epoch_7", "ckpt9", "v1.5", "bs32"]), max_size=3),
)
def test_the_number_behind_step_counts_whatever_else_the_name_has(step, others):
    for place in range(len(others) + 1):
        name = "-".join([*others[:place], f"step{step}", *others[place:]])
        assert named_step(name).step == step
        doubt = {"epoch_7": 7, "ckpt9": 9}
        assert set(named_step(name).others) == {doubt[own] for own in others if own in doubt}


def test_a_person_is_told_where_another_number_could_be_the_step(tmp_path):
    entry = '[[model]]\nmodel = "lab/a"\nrevisions = ["main-step-4000-epoch-3", "step-5000-epoch-4"]\n'
    (note,) = read(tmp_path, entry + PROBE).notes
    assert note.endswith(
        "own.toml:3: the step of 'main-step-4000-epoch-3' is 4,000, the number of `step`, and not 3; if that is wrong, "
        "give steps = [...]"
    )
    assert read(tmp_path, entry + "steps = [3, 4]\n" + PROBE).notes == []


def test_a_setting_can_be_the_text_without_letters_that_its_experiment_takes(tmp_path):
    own = '[[probe]]\nprobe = "likelihood"\ndata = "a.csv"\nprefix = ""\njoiner = ""\n'
    (probe,) = read(tmp_path, MODEL + own).probes
    assert (probe.settings["prefix"], probe.settings["joiner"]) == ("", "")
    for empty in ('data = ""', 'published = ""'):
        with pytest.raises(InputError, match=r"own\.toml:\d: \w+ is ''; a text( or a table)? is needed"):
            read(tmp_path, MODEL + re.sub(r"data.*" if "data" in empty else "prefix.*", empty, own))


MODEL = '[[model]]\nmodel = "mini"\n'
PROBE = '[[probe]]\nprobe = "select"\n'
FAULTS = [
    (PROBE, 1, r"no model; each is a table \[\[model\]\]"),
    (MODEL, 1, r"no probe; each is a table \[\[probe\]\]"),
    ('title = "x"\n' + MODEL + PROBE, 1, r"unknown key 'title'"),
    ("keep_exports = 0\n" + MODEL + PROBE, 1, "keep_exports is 0; give true or false"),
    (MODEL + '[[probe]]\nprobe = "selct"\n', 4, "probe is 'selct'; did you mean 'select'\\? Give one of select, "),
    (MODEL + "[[probe]]\npairs = 3\n", 3, r"this \[\[probe\]\] does not name a probe; give one of"),
    (MODEL + PROBE + "pears = 3\n", 5, r"select has no setting 'pears'; did you mean 'pairs'\?"),
    (MODEL + PROBE + 'pairs = "3"\n', 5, "pairs is '3'; a whole number of at least 1 is needed"),
    (MODEL + '[[probe]]\nprobe = "likelihood"\n', 3, "likelihood needs a setting 'data'"),
    (MODEL + PROBE + f"vary = {{seed = {[*range(400)]}, pairs = {[*range(1, 301)]}}}\n", 5, "120,000 combinations"),
    (MODEL + PROBE + "vary = {seed = 1}\n", 5, "vary must be a table of lists"),
    (MODEL + PROBE + "seed = 0\nvary = {seed = [1, 2]}\n", 5, "seed is also in vary; give it once"),
    (MODEL + PROBE + "vary = {seed = [1, 2, 1]}\n", 5, "seed 1 and seed 1 have one folder, 'select-1'; give it once"),
    (
        MODEL + PROBE + 'vary = {verbs = ["in-context"], lexicon = ["a b", "A-B"]}\n',
        5,
        "lexicon 'a b' and verbs 'in-context', lexicon 'A-B' have one folder, 'select-in-context-A-B'; write a",
    ),
    (MODEL + PROBE + PROBE, 6, "'select' is also in .*own.toml:4; give each probe a name"),
    (MODEL + PROBE + 'name = "../x"\n', 5, "name is '../x'; it names a folder"),
    (MODEL + PROBE + 'models = ["maxi"]\n', 5, "no \\[\\[model\\]\\] is named 'maxi'; They are mini"),
    (MODEL + MODEL + PROBE, 4, "the model 'mini' is also in .*own.toml:2"),
    ('[[model]]\nmodel = "m"\nsteps = [1]\n' + PROBE, 3, "steps are for a model with revisions"),
    ('[[model]]\nmodel = "a/b"\nrevisions = ["main"]\n' + PROBE, 3, "'main' does not name a step"),
    ('[[model]]\nmodel = "a/b"\nrevisions = ["s1", "t1"]\n' + PROBE, 3, "'t1' is a second checkpoint of step 1"),
    ('[[model]]\nmodel = "a/b"\nrevisions = ["s1-t2"]\n' + PROBE, 3, "'s1-t2' names 1 and 2, not one step"),
    ('[[model]]\nmodel = "a/b"\n[[model]]\nmodel = "A--b"\n' + PROBE, 4, "'A--b' is also in .*own.toml:2"),
    ('[[model]]\nmodel = "a/b"\nrevisions = ["m"]\nsteps = [1, 2]\n' + PROBE, 4, "2 steps for 1 checkpoints"),
    ('[[model]]\nmodel = "a/b@c"\nrevisions = ["s1"]\n' + PROBE, 2, "'a/b@c' names a revision already"),
    ('[[model]]\nmodel = "x"\nrevisions = ["s1"]\ncheckpoints = ["s1"]\n' + PROBE, 4, "not both"),
    ('[[model]]\nmodel = "/"\n' + PROBE, 2, "give a label"),
    ('[run]\nprecision = "fast"\n' + MODEL + PROBE, 2, "precision is 'fast'; one of auto, fp32, mixed is needed"),
]


def test_a_fault_is_one_line_with_its_place(tmp_path):
    for text, line, said in FAULTS:
        with pytest.raises(InputError) as raised:
            read(tmp_path, text)
        assert re.search(rf"own\.toml:{line}: .*{said}", str(raised.value)), f"{text}\n{raised.value}"
    read(tmp_path, MODEL + PROBE + '[[probe]]\nprobe = "lama"\n')
    with pytest.raises(InputError, match=r"own\.toml:6: --precision mixed: lama reports ranks and probabilities"):
        plan_suite(tmp_path / "own.toml", precision="mixed", device="cpu")  # before the search has run for hours
