"""What the page of `negengine view` asks, as DataTables writes it."""

import json

import msgspec
from negengine.engine.results.view.query import Query


def written(items, *where, search="", sort="", descending=False, start=0, length=10, logic="AND"):
    """JSON of a question; each condition is a column, a sign, and values."""
    numbers = {name: number for number, name in enumerate(items.names)}
    criteria = [
        {"condition": sign, "data": name, "origData": str(numbers.get(name, 999)), "type": "text", "value": values}
        for name, sign, *values in where
    ]
    order = [{"column": numbers[sort], "dir": "desc" if descending else "asc", "name": sort}] if sort else []
    return json.dumps(
        {
            "draw": 1,
            "columns": [{"data": str(number), "name": name, "searchable": True} for name, number in numbers.items()],
            "order": order,
            "start": start,
            "length": length,
            "search": {"value": search, "regex": False, "fixed": []},
            "searchBuilder": {"criteria": criteria, "logic": logic} if criteria else {},
        }
    )


def question(items, *where, **others):
    return msgspec.json.decode(written(items, *where, **others), type=Query)


def named(items, found):
    """The rows of an answer with the names of their columns."""
    return [dict(zip(items.names, row, strict=True)) for row in found["data"]]
