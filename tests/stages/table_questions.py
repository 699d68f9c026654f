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
    searched = [
        {"condition": "contains", "origData": str(numbers[name]), "value": [search]}
        for name in ("sentence", "expected", "answer")
        if name in numbers
    ]
    every = [{"criteria": criteria, "logic": logic} if criteria else {}, {"criteria": searched, "logic": "OR"}]
    return json.dumps(
        {
            "draw": 1,
            "start": start,
            "length": length,
            "order": [[numbers[sort], "desc" if descending else "asc"]] if sort else [],
            "filters": {"criteria": every, "logic": "AND"},
        }
    )


def question(items, *where, **others):
    return msgspec.json.decode(written(items, *where, **others), type=Query)


def named(items, found):
    """The rows of an answer with the names of their columns."""
    return [dict(zip(items.names, row, strict=True)) for row in found["data"]]
