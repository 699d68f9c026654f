"""The page of `negengine view`: served while the program runs, or a folder that needs no program (`--bundle`)."""

from pathlib import Path
from typing import Any

import msgspec
from jinja2 import StrictUndefined, Template

from ...basics.atomic import make_place, write_atomically
from ...basics.errors import InputError, needs_extra
from ...basics.printable import counted
from ...library.sentences import TEXTS
from ..report.page import style
from ..report.row_files import RowFile
from .items import Items

MOST_BUNDLED = 20_000  # rows that a browser holds and filters at once
_SEARCHED = (*TEXTS, "expected", "answer")
_LONG = (*TEXTS, "text", "context", "splits")


def library(ending: str = ".js") -> Path:
    """DataTables as a module (`.js`) or its style (`.css`), from the package `itables`, which brings both."""
    with needs_extra("view", "the page of `negengine view`"):
        import itables

    return Path(itables.__file__).parent / "html" / f"dt_bundle{ending}"


def page(items: Items, *, nonce: str = "", token: str = "", rows: list[tuple[Any, ...]] | None = None) -> str:
    """The page as HTML: with a token it asks the server for rows; without one it holds the `rows`, and the library."""
    is_number = {name: kind.is_numeric() for name, kind in items.schema.items()}
    columns = [
        {
            "name": name,
            "data": str(number),
            "className": "long" if name in _LONG else "figure" if is_number[name] else "",
            "searchable": name in _SEARCHED and not is_number[name],
            "searchBuilderType": "number" if is_number[name] else "text",
        }
        for number, name in enumerate(items.names)
    ]
    about = {"columns": columns, "keys": items.keys, "token": token, "total": items.total, "rows": rows}
    own = {ending: (Path(__file__).parent / f"view{ending}").read_text("utf-8") for ending in (".html", ".css", ".js")}
    parts = () if rows is None else (".css", ".js")
    held = {ending: library(ending).read_text("utf-8").replace("</script", r"<\/script") for ending in parts}
    html: str = Template(own[".html"], autoescape=True, undefined=StrictUndefined).render(
        title=f"{', '.join(dict.fromkeys(run.model_name for run in items.runs))}: {items.runs[0].stage}",
        about=msgspec.json.encode(about).decode().replace("<", r"\u003c"),  # no text ends the element
        names=items.names,
        style=style() + own[".css"],
        script=own[".js"],
        nonce=nonce,
        token=token,
        library=held,
    )
    return html


def bundle(items: Items, folder: Path) -> str:
    """Write a folder with the page and its rows as CSV; returns what it holds, in one line.

    Of more than `MOST_BUNDLED` rows, whole items are drawn at random, with seed 0.

    Raises InputError if the folder exists and holds anything.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--bundle {folder}: it exists; give a new folder")
    library()  # what is missing is told before a file is written
    rows, path = items.sample(MOST_BUNDLED), folder / "index.html"
    make_place(path)
    text = page(items, rows=rows.select(items.columns).collect(engine="streaming").rows())
    write_atomically(path, lambda temporary: temporary.write_text(text, "utf-8"))
    n = RowFile(folder / "rows.csv").write(rows)
    some = f"a sample of {n:,} of {items.total:,} rows" if n < items.total else f"all {counted(n, 'row')}"
    return f"{path}: {some}; a browser opens it without Python; rows.csv has the same rows"
