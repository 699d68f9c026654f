"""LAMA queries in the layout of norakassner/LAMA_primed_negated, and the same facts in ours.

theirs   CORPUS/{high_ranked,low_ranked,random}/RELATION.jsonl, a line for each fact and kind of misprime
ours     CORPUS.jsonl, a line for each fact
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...basics.errors import InputError
from ...text.text_lines import Row, checked_length, decoded, json_rows

CORPORA = ("GoogleRE", "TREx", "ConceptNet", "SQuAD")
MISPRIMES = {"high": "high_ranked", "low": "low_ranked", "random": "random"}
"""Kind of misprime → the folder with its queries."""
IDENTIFIERS = {"ConceptNet": "uuid", "SQuAD": "id"}  # corpus → the field with what the source calls a fact
_CORPUS_NAMES = {corpus.lower(): corpus for corpus in CORPORA}


def merge(members: Mapping[str, bytes], source: str) -> dict[str, bytes]:
    """Turn the files of their repository, path → content, into ours; an `InputError` for a bad line."""
    rows = [
        (corpus_of(Path(path)), path, row)
        for path, content in members.items()
        if path.startswith("data/") and path.endswith(".jsonl")
        for row in json_rows(decoded(content, f"{source}/{path}"))
    ]
    return {
        f"{corpus}.jsonl": "".join(json.dumps(row.fields, ensure_ascii=False) + "\n" for row in merged).encode()
        for corpus, merged in merge_rows(rows).items()
    }


def merge_rows(rows: Iterable[tuple[str, str, Row]]) -> dict[str, list[Row]]:
    """Put the lines of each fact together: corpus → lines in our layout, ordered by relation; errors as for `merge`."""
    tables: dict[str, dict[tuple[str, ...], Row]] = {}
    for corpus, path, row in rows:
        relation = row.text("pred") if corpus == "ConceptNet" else Path(path).stem.removesuffix("_random")
        sentence, negation = only_text(row, "masked_sentences"), only_text(row, "masked_negations")
        subject, gold = (row.text(name) and row.fields[name] for name in ("sub_label", "obj_label"))
        fresh: dict[str, Any] = {
            "relation": relation,
            "sub_label": subject,
            "obj_label": gold,
            "masked_sentence": sentence,
            "masked_negation": negation,
            **{f"misprimed_{kind}": None for kind in MISPRIMES},
        }
        merged = tables.setdefault(corpus, {}).setdefault((relation, subject, gold, sentence), Row(fresh, row.location))
        if merged.fields["masked_negation"] != negation:
            raise InputError(f"{row.location}: the negation of {sentence!r} differs from that in {merged.location}")
        kind = next((kind for kind, folder in MISPRIMES.items() if folder in path.split("/")), None)
        if kind is None:
            named = " or ".join(MISPRIMES.values())
            raise InputError(f"{path}: a folder of misprimed queries must be named {named}")
        merged.fields[f"misprimed_{kind}"] = only_text(row, "masked_misprimed")
        if (identifier := IDENTIFIERS.get(corpus)) in row.fields:
            merged.fields["source_id"] = row.fields[identifier]
    return {
        corpus: sorted(table.values(), key=lambda row: str(row.fields["relation"]))
        for corpus, table in sorted(tables.items())
    }


def corpus_of(path: Path) -> str:
    """The corpus that a file's name tells, or else the innermost folder's; none is an `InputError`."""
    for name in (path.name.split(".")[0], *reversed(path.parts[:-1])):
        if corpus := _CORPUS_NAMES.get(re.sub(r"[^a-z]", "", name.lower())):
            return corpus
    raise InputError(f"{path}: the file or a folder must have the name of a corpus: {', '.join(CORPORA)}")


def only_text(row: Row, name: str) -> str:
    """The text of a field that holds a list of one text; anything else is an `InputError`."""
    value = row.fields.get(name)
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], str):
        found = "is missing" if name not in row.fields else f"is {value!r}"
        raise InputError(f"{row.location}: {name} {found}; a list of one text is needed")
    return checked_length(value[0], f"{row.location}: {name}")
