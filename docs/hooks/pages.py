"""Pages that MkDocs makes while it builds: for each command, the library, each notebook, the documents of the root.

They are made from the program and the files themselves, so they cannot be out of date.
"""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from negengine.export.families import FAMILIES

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import command_pages  # noqa: E402 - beside this file, which is not in a package
import library_page  # noqa: E402
import lists  # noqa: E402

OF_THE_ROOT = ("BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md")
HOME = "index.md"  # the README
COMMAND_LIST, FAMILY_LIST, LIBRARY_PAGE = "<!-- list of commands -->", "<!-- list of families -->", "names.md"


def on_config(config: Any) -> Any:
    """Add a page for each command to the navigation."""
    (section,) = (entry["Commands"] for entry in config.nav if "Commands" in entry)
    section += [{name: path} for name, path in command_pages.paths().items()]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    generated = {path: command_pages.page(name) for name, path in command_pages.paths().items()}
    generated[LIBRARY_PAGE] = library_page.page()
    generated |= {name: (ROOT / name).read_text("utf-8") for name in OF_THE_ROOT}
    generated[HOME] = (ROOT / "README.md").read_text("utf-8")
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        generated[f"notebooks/{path.stem}.md"] = notebook_page(path)
    for path, content in generated.items():
        files.append(File.generated(config, path, content=content))
    return files


def notebook_page(path: Path) -> str:
    """The cells of a notebook as a page, with those results that it holds."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", "")})
            html, text = ("".join(data.get(kind, "")) for kind in ("text/html", "text/plain"))
            table = f"<div>\n{html}\n</div>"
            parts.append(table if html else f"```text\n{text.rstrip()}\n```")
    return "\n\n".join([*parts, f"[This page as a notebook]({path.name})"]) + "\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between the root and docs/ stay right, although both are one folder of pages here."""
    if page.file.src_uri in {HOME, *OF_THE_ROOT}:
        markdown = re.sub(r"\]\(docs/", "](", markdown)
    markdown = re.sub(rf"\]\(\.\./({'|'.join(map(re.escape, OF_THE_ROOT))})", r"](\1", markdown)
    markdown = markdown.replace("](../README.md", f"]({HOME}")
    if "/" not in page.file.src_uri:  # a notebook has a page; its own page leads to the file
        markdown = re.sub(r"\]\((notebooks/\w+)\.ipynb\)", r"](\1.md)", markdown)
    markdown = re.sub(r"<!-- files: (.+) -->", lambda found: described(found[1].split(", ")), markdown)
    markdown = re.sub(r"<!-- columns of (.+) -->", lambda found: column_table(found[1]), markdown)
    markdown = re.sub(r"<!-- families: (\w+) -->", lambda found: tested_families(found[1]), markdown)
    markdown = lists.filled(markdown)
    return markdown.replace(COMMAND_LIST, command_pages.overview()).replace(FAMILY_LIST, family_table())


def described(files: list[str]) -> str:
    """Files with their columns, or keys, below a heading each."""
    named = ((re.sub(r"^(\S+)", r"`\1`", re.sub(r"(?<= of )(\w+)$", r"`\1`", file)), file) for file in files)
    return "\n\n".join(f"### {heading}\n\n{column_table(file)}" for heading, file in named)


def column_table(file: str) -> str:
    """What stands in a file, and a row for each of its columns, or keys."""
    own: dict[str, Any] = tomllib.loads((ROOT / "docs" / "columns.toml").read_text("utf-8"))[file]
    before, after = (own.pop(name, "") for name in ("about", "after"))
    kinds = {"metrics": "metric"}
    heads = [kinds.get(file, "key" if file.endswith(".json") else "column"), "unit", "meaning"]
    rows = []
    for names, told in own.items():
        unit, meaning = ("", f"as in `{told}`") if isinstance(told, str) else told
        rows.append([", ".join(f"`{name}`" for name in names.split()), unit, meaning])
    return "\n\n".join(filter(None, [before, lists.table(heads, rows), after]))


def tested_families(kind: str) -> str:
    """A row for each family of one kind that the tests export."""
    rows: dict[str, list[str]] = tomllib.loads((ROOT / "docs" / "families.toml").read_text("utf-8"))[kind]
    heads = rows.pop("heads")
    return lists.table(heads, ([f"`{name}`", *cells] for name, cells in rows.items()))


def family_table() -> str:
    """A row for each family that PyTorch's exporter alone exports, or that is refused."""
    rows = []
    for name, family in sorted(FAMILIES.items()):
        when, why = (family.refused.case or "always", family.refused.why) if family.refused else ("", "")
        exporter = "" if when == "always" else "PyTorch" if family.by_torch else "Optimum or PyTorch"
        rows += [[f"`{name}`", exporter, when, why]] if family.refused or family.by_torch else []
    return lists.table(["family", "exporter", "refused", "why"], rows)
