"""The page of `negengine view`: served while the program runs, or a folder that needs no program (`--bundle`)."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from ...basics.atomic import make_place, write_atomically
from ...basics.errors import InputError, needs_extra
from ...basics.printable import counted
from ...views.palette import declarations
from ..report.row_files import RowFile
from .items import Items, values

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
    about: dict[str, Any] = {"columns": items.columns, "token": token, "total": items.total}
    if rows is not None:
        about |= {"rows": values(rows.collect(engine="streaming")), "keys": items.keys}
    return _template().render(
        title=f"{', '.join(dict.fromkeys(run.model_name for run in items.runs))}: {items.runs[0].stage}",
        about=_embedded(about),
        nonce=nonce,
        token=token,
        style=Markup(_style()),  # noqa: S704 - our own file
        script=Markup((_FOLDER / "view.js").read_text("utf-8")),  # noqa: S704 - our own file
        library=Markup(library(".js").replace("</script", r"<\/script") if rows is not None else ""),  # noqa: S704
        library_style=Markup(library(".css") if rows is not None else ""),  # noqa: S704 - of the package
    )


def bundle(items: Items, folder: Path) -> str:
    """Write a folder with the page and its rows as CSV; returns what it holds, in one line.

    Of more than `MOST_BUNDLED` rows, whole items are drawn at random, with seed 0.

    Raises InputError if the folder exists and holds anything.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--bundle {folder}: it exists; give a new folder")
    library(".js")  # what is missing is told before a file is written
    rows = items.sample(MOST_BUNDLED)
    path = folder / "index.html"
    make_place(path)
    text = page(items, rows=rows)
    write_atomically(path, lambda temporary: temporary.write_text(text, "utf-8"))
    n = RowFile(folder / "rows.csv").write(rows)
    some = f"a sample of {n:,} of {items.total:,} rows" if n < items.total else f"all {counted(n, 'row')}"
    return f"{path}: {some}; a browser opens it without Python; rows.csv has the same rows"


def _embedded(value: Mapping[str, Any]) -> Markup:
    """JSON inside an element `script`, which no text in it can end."""
    return Markup(json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", r"\u003c"))  # noqa: S704


def _style() -> str:
    colours = {scheme: f"color-scheme:{scheme};{declarations(scheme)}" for scheme in ("light", "dark")}
    return f":root{{{colours['light']}}}\n:root.dark{{{colours['dark']}}}\n" + (_FOLDER / "view.css").read_text("utf-8")


@cache
def _template() -> Template:
    environment = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("view.html")
