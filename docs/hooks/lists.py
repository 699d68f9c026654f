"""Lists that a page takes from where each entry is described: papers, patterns, examples, packages, measurements."""

import ast
import csv
import re
import tomllib
import unicodedata
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ("negation", "gh22", "lama", "diagnostics", "nli", "likelihood")
COMMANDS = {"negation": "`select`, `score`"}  # where they are not called as the folder
SCRIPTS = ("containers", "kubernetes", "lsf", "pbs", "skypilot", "slurm")
PACKAGES = (
    "basics", "text", "inference", "runs", "statistics", "views", "requests", "library", "experiments", "results",
    "cli", "public", "../export", "../export/training", "../bench",
)  # fmt: skip


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def papers() -> str:
    """The paper of each test, from the BibTeX that `cite` prints."""
    rows = []
    for folder in TESTS:
        text = (ROOT / "engine" / "experiments" / folder / "references.toml").read_text("utf-8")
        for entry in tomllib.loads(text).values():
            if entry["role"] == "test":
                said = {key: _plain(own) for key, own in re.findall(r"(?m)^  (\w+) = \{(.*)\},$", entry["bibtex"])}
                authors = said["author"].replace(" and ", ", ")
                where = said.get("booktitle") or said["journal"]
                paper = f"{authors} ({said['year']}), [{said['title']}]({said['url']}), {where}"
                rows.append([COMMANDS.get(folder, f"`{folder}`"), paper])
    return table(["test", "paper"], rows)


def _plain(bibtex: str) -> str:
    """A value of BibTeX as text."""
    text = re.sub(r'\\"\{(\w)\}', lambda found: unicodedata.normalize("NFC", f"{found[1]}\u0308"), bibtex)
    return re.sub(r"[{}]", "", text)


def patterns() -> str:
    """The bundled pattern sets: language, the first pattern, and what the file says about itself."""
    rows = []
    for path in sorted((ROOT / "engine" / "text" / "resources" / "patterns").glob("*.toml")):
        if path.stem.startswith("gh22"):  # these belong to a command of their own
            continue
        text = path.read_text("utf-8")
        own = tomllib.loads(text)
        first = own["pattern"][0]
        sentences = f"{first['context']} {first.get('target', '')}".strip()
        rows.append([f"`{path.stem}`", own.get("lexicon", "english"), f"`{sentences}`", _begin(text)])
    return table(["pattern set", "words", "first pattern", "what it is"], rows)


def examples() -> str:
    """The scripts in examples/, by their own first words."""
    root = ROOT / "examples"
    paths = sorted(path for name in SCRIPTS for path in (root / name).iterdir())
    rows = ([f"`{path.relative_to(root)}`", _begin(path.read_text("utf-8"))] for path in paths)
    return table(["in `examples/`", "what it does"], rows)


def _begin(text: str) -> str:
    """The first sentence of the first comment of a file."""
    comment = re.search(r"(?m)(?:^# .*\n)+", text)
    said = " ".join(re.sub(r"(?m)^# ", "", comment[0]).split()) if comment else ""
    return re.split(r"\.(?: |$)", said)[0].removesuffix(":").replace("|", "\\|")


def packages() -> str:
    """The packages in their order, by the first paragraph of their docstrings."""
    folders = [(ROOT / "engine" / name).resolve() for name in PACKAGES]
    rows = ([f"`{path.relative_to(ROOT)}/`", _told(path / "__init__.py")] for path in folders)
    return table(["package", "what it does"], rows)


def _told(path: Path) -> str:
    """The first paragraph of a module's docstring."""
    said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split())


def measured(name: str) -> str:
    """A table of docs/measured/, our own rows in bold."""
    heads, *rows = csv.reader((ROOT / "docs" / "measured" / name).read_text("utf-8").splitlines())
    ours = ([f"**{first}**" if first.startswith("ours") else first, *cells] for first, *cells in rows)
    return table(heads, ours)


def source(path: str) -> str:
    """A file of the sources as a block of its language."""
    language = {".py": "python"}.get(Path(path).suffix, Path(path).suffix[1:])
    return f"```{language}\n{(ROOT / path).read_text('utf-8')}```"


def passes() -> str:
    """The graph passes, by the first paragraphs of their files."""
    paths = sorted({*(ROOT / "export" / "passes").glob("[!_]*.py")} - {ROOT / "export" / "passes" / "context.py"})
    return table(["in `export/passes/`", "what it does"], ([f"`{path.name}`", _told(path)] for path in paths))


LISTS = {"passes": passes, "papers": papers, "patterns": patterns, "examples": examples, "packages": packages}


def filled(markdown: str) -> str:
    """A page with its lists and measured tables."""
    for name, made in LISTS.items():
        place = f"<!-- list of {name} -->"
        markdown = markdown.replace(place, made()) if place in markdown else markdown
    markdown = re.sub(r"<!-- source: (\S+) -->", lambda found: source(found[1]), markdown)
    return re.sub(r"<!-- measured: (\S+) -->", lambda found: measured(found[1]), markdown)
