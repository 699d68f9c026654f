"""The page of `negengine view`: served while the program runs, or a folder that needs no program (`--bundle`)."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import StrictUndefined, Template

from ...basics.atomic import make_place, write_atomically
from ...basics.errors import InputError, needs_extra
from ...basics.printable import counted
from ...views.palette import declarations
from ..report.row_files import RowFile
from .items import SEARCHED, Items, cells

MOST_BUNDLED = 20_000  # rows that a browser holds and filters at once
_FOLDER = Path(__file__).parent


@cache
def library(suffix: str) -> str:
    """DataTables as a module (`.js`) and its style (`.css`), from the package `itables`, which brings both."""
    with needs_extra("view", "the page of `negengine view`"):
        import itables

    return (Path(itables.__file__).parent / "html" / f"dt_bundle{suffix}").read_text("utf-8")


def page(items: Items, *, nonce: str = "", token: str = "", rows: pl.LazyFrame | None = None) -> str:
    """The page as HTML: with a token it asks the server for rows; without one it holds the `rows`, and the library."""
    numeric = [items.schema[name].is_numeric() for name in items.names]
    about: dict[str, Any] = {"names": items.names, "numeric": numeric, "searched": SEARCHED, "keys": items.keys}
    about |= {"token": token, "total": items.total}
    if rows is not None:
        about["rows"] = cells(rows.select(items.columns).collect(engine="streaming"))
    own = {name: (_FOLDER / f"view.{name}").read_text("utf-8") for name in ("html", "css", "js")}
    data = json.dumps(about, ensure_ascii=False, allow_nan=False)
    held = {} if rows is None else {".css": library(".css"), ".js": library(".js").replace("</script", r"<\/script")}
    html: str = Template(own["html"], autoescape=True, undefined=StrictUndefined).render(
        title=f"{', '.join(dict.fromkeys(run.model_name for run in items.runs))}: {items.runs[0].stage}",
        about=data.replace("<", r"\u003c"),  # no text ends the element
        colours={scheme: declarations(scheme) for scheme in ("light", "dark")},
        own=own,
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
    library(".js")  # what is missing is told before a file is written
    rows, path = items.sample(MOST_BUNDLED), folder / "index.html"
    make_place(path)
    text = page(items, rows=rows)
    write_atomically(path, lambda temporary: temporary.write_text(text, "utf-8"))
    n = RowFile(folder / "rows.csv").write(rows)
    some = f"a sample of {n:,} of {items.total:,} rows" if n < items.total else f"all {counted(n, 'row')}"
    return f"{path}: {some}; a browser opens it without Python; rows.csv has the same rows"
