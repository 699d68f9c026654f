"""What many tests share: the bundled model exported once, finished runs, small tokenizers, the data sets."""

import gc
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import ascii_letters, ascii_lowercase, digits
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")  # PyTorch's threads and those of the other test process share the cores

import negengine as ng
import pytest
from filelock import FileLock
from hypothesis import settings
from negengine.engine.cli import main
from negengine.engine.inference.exported import ExportedModel, load_exported
from negengine.engine.library import model as loading
from negengine.engine.runs.stderr import Messages
from negengine.engine.text.tokenizer import MaskTokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# No deadline: how long an example takes on a busy machine says nothing about the code.
settings.register_profile("default", deadline=None, max_examples=30)
settings.register_profile("all", deadline=None, max_examples=100)
settings.register_profile("long", deadline=None, max_examples=2_500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


with suppress(OSError, AttributeError):  # every finished part of a run is flushed to the disk: better in memory
    memory = "/dev/shm"  # noqa: S108
    found = os.statvfs(memory)
    if found.f_bavail * found.f_frsize > 3 << 30 and not found.f_flag & os.ST_NOEXEC and os.access(memory, os.W_OK):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep what the imports make, 700,000 objects, out of every later search for garbage: half a second for each."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


FAMILIES = ("bert", "roberta", "gpt2")  # the model families that `make test` exports


def pytest_itemcollected(item):
    """A test with another family as its parameter has the mark `everything`."""
    family = item.callspec.params.get("family", FAMILIES[0]) if hasattr(item, "callspec") else FAMILIES[0]
    if family not in FAMILIES:
        item.add_marker("everything")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Files that take long begin first, so that no process is left with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


SHARED = Path(__file__).parents[2] / "shared"
ROOT = Path(__file__).parents[1]
MINI = ROOT / "export" / "mini"
SENTENCE = "a an anna maria john dancer architect who likes like to doesn t smoke dance she he is isn very happy"
WORDS = SENTENCE.split()


def bert_tokenizer(vocabulary: Iterable[str], *, lowercase: bool) -> MaskTokenizer:
    """WordPiece as BERT has it, from entries whose ids are their positions."""
    ids = {entry: number for number, entry in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return MaskTokenizer(tokenizer, "[MASK]")


def wordpiece(*, lowercase: bool) -> MaskTokenizer:
    letters = ascii_lowercase if lowercase else ascii_letters
    names = [] if lowercase else ["Anna", "Maria", "She", "He", "A", "An"]
    pieces = [*letters, *digits, *".,'-", *(f"##{letter}" for letter in letters + digits), "##er", "##ing", *names]
    vocabulary = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces, *WORDS])
    return bert_tokenizer(vocabulary, lowercase=lowercase)


def byte_level_bpe() -> MaskTokenizer:
    """As RoBERTa has it: marks for leading spaces, and a mask token that takes the space before it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    text = SENTENCE + " Anna likes to smoke. She is happy to dance. He doesn't like to. smoke Maria isn't."
    how = {"vocab_size": 400, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator([text] * 9, trainers.BpeTrainer(special_tokens=special, **how))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return MaskTokenizer(tokenizer, "<mask>")


def unigram() -> MaskTokenizer:
    """As XLM-RoBERTa has it: after the mask token, which takes the space before it, a word starts anew."""
    words = [(f"▁{word}", -4.0) for word in [*WORDS, "Anna", "She", "He"]]
    pieces = [*words, ("er", -6.0), ("ing", -6.0), ("▁", -5.0), ("▁s", -6.0)]
    letters = [(letter, -9.0) for letter in ascii_letters + digits + ".,'-"]
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    tokenizer = Tokenizer(models.Unigram([*special, *pieces, *letters], unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    return MaskTokenizer(tokenizer, "<mask>")


SMALL = {
    "WordPiece cased": lambda: wordpiece(lowercase=False),
    "WordPiece uncased": lambda: wordpiece(lowercase=True),
    "byte-level BPE": byte_level_bpe,
    "Unigram": unigram,
}


@pytest.fixture(scope="session")
def small_tokenizers():
    """A tokenizer of each kind, with a vocabulary of some hundred entries."""
    return {kind: make() for kind, make in SMALL.items()}


@pytest.fixture(params=SMALL, scope="session")
def small_tokenizer(request, small_tokenizers):
    return small_tokenizers[request.param]


@pytest.fixture(scope="session")
def published_tokenizer():
    """Of a model, by its name, from the folder beside the project."""

    def load(name: str) -> MaskTokenizer:
        folder = SHARED / "data" / "tokenizers" / name
        if not folder.is_dir():
            pytest.skip(f"no copy of the tokenizer of {name} beside the repository")
        if name.startswith("bert"):
            vocabulary = (folder / "vocab.txt").read_text("utf-8").removesuffix("\n").split("\n")
            return bert_tokenizer(vocabulary, lowercase=name.endswith("uncased"))
        return MaskTokenizer.load(folder, "<mask>")

    return load


@pytest.fixture(scope="session")
def mini_tokenizer():
    return MaskTokenizer.load(MINI, "[MASK]")


@pytest.fixture
def open_files() -> Callable[[], int]:
    """Tells how many files this process has open."""
    return lambda: len([*Path("/dev/fd").iterdir()])


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data sets and papers beside the project; tests that need it skip where it is missing."""
    if not SHARED.is_dir():
        pytest.skip("no folder ../shared with the data sets")
    return SHARED


@pytest.fixture(scope="session")
def once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A folder by name, made by the first test that asks for it and shared by all processes of the test session."""
    own = tmp_path_factory.getbasetemp()
    root = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    root.mkdir(exist_ok=True)

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        with FileLock(root / f"{name}.lock"):
            if not (root / f"{name}.made").exists():
                make(root / name)
                (root / f"{name}.made").touch()
        return root / name

    return folder


@pytest.fixture(scope="session")
def mini(once) -> ExportedModel:
    """The bundled model, exported once for the whole session."""
    return load_exported(once("mini", lambda folder: loading.export("mini", folder, progress=False)))


@pytest.fixture(scope="session")
def model(mini) -> ng.Model:
    """The same, opened in fp32 on the CPU."""
    return ng.load(mini.folder, device="cpu", precision="fp32")


@pytest.fixture(scope="session")
def causal_checkpoint(once) -> Callable[..., Path]:
    """A folder with a tiny checkpoint of a causal family; with a word, one that prefers this word everywhere."""

    def make(family: str, word: str = "") -> Path:
        from causal_checkpoints import write_causal

        parent = once(f"causal-{family}-{word}", lambda folder: write_causal(folder / family, family, word))
        return parent / family

    return make


@pytest.fixture(scope="session")
def causal(once, causal_checkpoint) -> Callable[..., ExportedModel]:
    """The same, exported."""

    def make(family: str, word: str = "") -> ExportedModel:
        checkpoint = str(causal_checkpoint(family, word))
        name = f"exported-{family}-{word}"
        return load_exported(once(name, lambda folder: loading.export(checkpoint, folder, progress=False)))

    return make


WORD_LISTS = {
    "names_female": ["Jessica", "Maria"],
    "names_male": ["John", "Peter"],
    "professions": ["a dancer", "an architect", "a doctor"],
    "verbs": ["smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt", "dig", "laugh", "agree", "cook"],
}


@pytest.fixture(scope="session")
def small_lexicon(once) -> Path:
    """A folder of word lists: 4 names, 3 professions and 12 verbs make 144 candidates."""
    return once("lexicon", write_lexicon)


@pytest.fixture(scope="session")
def selected_run(once, model, small_lexicon) -> Path:
    """A finished selection of the bundled model from the small lexicon; tests do not change it."""
    return once("selected", lambda folder: select(model, small_lexicon, folder))


@pytest.fixture(scope="session")
def scored_run(once, model, small_lexicon) -> Path:
    """The same with its scores."""
    return once("scored", lambda folder: ng.score(select(model, small_lexicon, folder), progress=False))


def select(model: ng.Model, lexicon: Path, folder: Path, **options):
    return ng.select(model, lexicon=lexicon, output=folder, progress=False, **options)


def write_lexicon(folder: Path, **lists: list[str]) -> None:
    """The small lexicon, with other words in the lists that are named."""
    folder.mkdir()
    for name, words in (WORD_LISTS | lists).items():
        (folder / f"{name}.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")


@pytest.fixture(scope="session")
def several_tokens_run(once, model) -> Path:
    """A finished run with verbs of several tokens, with its scores; tests do not change it."""

    def score(folder: Path) -> None:
        own = folder.with_name("lexicon-of-several-tokens")
        write_lexicon(own, verbs=["smoke", "dance", "beware", "rustle", "abdicate"])
        ng.score(select(model, own, folder, verbs="several-tokens"), progress=False)

    return once("several-tokens", score)


SOURCES = ("engine", "export", "bench", "pyproject.toml", "setup.py", "README.md", "LICENSE", "CITATION.cff")


@pytest.fixture(scope="session")
def wheel(once) -> Path:
    """The wheel, built from a copy of the sources: a build leaves traces beside them."""

    def make(folder: Path) -> None:
        folder.mkdir()
        for name in SOURCES:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", folder]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    (path,) = (once("wheel", make) / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="session")
def place_on_cuda(tmp_path_factory) -> Callable[..., SimpleNamespace]:
    """Run a graph on CUDA without a GPU, in a process of its own: (graph, batch tokens, lengths).

    Gives the operators (provider → operators and how many), the kernels of attention, and the provider's options.
    """
    scripts, folder = Path(__file__).parent / "stand_in", tmp_path_factory.mktemp("cuda")
    built = subprocess.run([sys.executable, scripts / "cuda.py", folder], capture_output=True, text=True, check=False)
    if built.returncode == 3:
        pytest.skip(f"no stand-in for CUDA: {built.stdout}")
    assert built.returncode == 0, built.stderr

    def host(model: Path) -> dict[str, list]:
        own = os.environ | {"LD_LIBRARY_PATH": str(folder)}
        command = [sys.executable, scripts / "host.py", model]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=own)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.strip().splitlines()[-1])

    def run(graph: Path, batch_tokens: int, lengths: list[int]) -> SimpleNamespace:
        own = {"LD_LIBRARY_PATH": str(folder), "ORT_ENABLE_ATTENTION_KERNEL_DEBUG_INFO": "1"}
        command = [sys.executable, scripts / "place.py", graph, batch_tokens, *lengths]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=os.environ | own)
        assert done.returncode == 0, done.stderr[-2000:]
        *said, found = done.stdout.strip().splitlines()
        document = json.loads(found)
        operators: dict[str, dict[str, int]] = defaultdict(dict)
        for provider, operator, n in document["placed"]:
            operators[provider][operator] = n
        kernels = re.findall(r"SdpaKernel=(\w+)", "\n".join(said))
        return SimpleNamespace(operators=operators, kernels=kernels, options=document["options"])

    run.host = host  # the host's side of decisions, on both devices
    return run


@pytest.fixture
def seen_ids(monkeypatch) -> set[tuple[int, ...]]:
    """The token ids of every sentence that a masked model judges in this process during a test."""
    from negengine.engine.inference.model import MaskedLM

    seen: set[tuple[int, ...]] = set()

    def watch(name, arrays):
        whole = getattr(MaskedLM, name)

        def judged(self, given, *args, **options):
            seen.update(tuple(row) for ids in arrays(given) for row in ids.tolist())
            return whole(self, given, *args, **options)

        monkeypatch.setattr(MaskedLM, name, judged)

    watch("deciding", lambda ids: [ids])
    watch("deciding_each", lambda groups: [ids for ids, *_ in groups])
    watch("reduce_logits", lambda batches: [ids for batch in batches for ids, *_ in batch])
    return seen


@pytest.fixture
def no_exporter(monkeypatch) -> None:
    """As if PyTorch were not installed; afterwards the exporter is there as before."""
    import negengine.export

    monkeypatch.setattr(ng, "export", negengine.export)  # what is imported in between does not stay
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("negengine.export")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def interrupt(monkeypatch) -> Callable[[object, str, int], list[str]]:
    """Let a function of a module be interrupted at its n-th call; gives a list that grows with every call."""

    def at_call(module: object, name: str, n: int) -> list[str]:
        whole, calls = getattr(module, name), []

        def interrupted(*args):
            calls.append(name)
            if len(calls) == n:
                raise KeyboardInterrupt
            return whole(*args)

        monkeypatch.setattr(module, name, interrupted)
        return calls

    return at_call


@dataclass(frozen=True)
class Done:
    status: int | str | None
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.err.splitlines()[-1]


@pytest.fixture(scope="session")
def python() -> Callable[..., Done]:
    """Runs Python with these words, such as `-c` and a program, in a process of its own."""

    def run(*words, **options) -> Done:
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", **options}
        done = subprocess.run([sys.executable, *map(str, words)], check=False, **how)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def home(tmp_path_factory, monkeypatch):
    """No GPU, no data set in the cache, and no batch system that may have started the tests."""
    folder = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith(("SLURM_", "PBS_", "LSB_", "SKYPILOT_", "JOB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("NEGENGINE_DATA", str(folder / "data"))


@pytest.fixture
def command(tmp_path, monkeypatch, capfd, home) -> Callable[..., Done]:
    """Runs a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEGENGINE_MODELS", "")  # what a command sets is set back
    for name in ("quiet", "log"):
        monkeypatch.setattr(Messages, name, getattr(Messages, name))

    def run(*arguments) -> Done:
        monkeypatch.setattr(sys, "argv", ["negengine", *map(str, arguments)])
        capfd.readouterr()
        return Done(main.run(), *capfd.readouterr())

    return run
