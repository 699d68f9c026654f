"""The facts of LAMA as cloze queries, with their negations and misprimes, from three layouts of files.

    ours       CORPUS.jsonl (or .gz): relation, sub_label, obj_label, masked_sentence, masked_negation, misprimed_*
    misprimed  CORPUS/{high_ranked,low_ranked,random}/RELATION.jsonl of norakassner/LAMA_primed_negated: a line for each
               fact and kind of misprime
    LAMA       CORPUS/RELATION.jsonl: for T-REx and Google-RE the queries come from templates ([X] subject, [Y] object;
               relations.jsonl beside the folder TREx), for ConceptNet and SQuAD from masked_sentences and negated

The fields of a row tell its layout. From LAMA's own files the facts are chosen as its code does
(`scripts/batch_eval_KB_completion.py`): each subject and object of a template once, without the Google-RE facts that
most raters rejected, and without queries of more than 100 words.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...basics.reading import files_below, is_file
from ...inference.free_text import MASK
from ...text.records import Row, records
from ...text.table_cells import label
from ...text.text_lines import checked_length, decoded, json_object

MISPRIMES = {"high": "high_ranked", "low": "low_ranked", "random": "random"}
"""Kind of misprime → the folder with its queries."""
MOST_WORDS = 100
TEMPLATES_FILE = "relations.jsonl"
# Those of LAMA's scripts/run_experiments.py, which has no file of them.
_GOOGLE_RE = {
    "place_of_birth": ("[X] was born in [Y] .", "[X] was not born in [Y] ."),
    "date_of_birth": ("[X] (born [Y]).", "[X] (not born [Y])."),
    "place_of_death": ("[X] died in [Y] .", "[X] did not die in [Y] ."),
}
_WITHOUT_RELATION = "Squad"


class Corpus(StrEnum):
    """Where facts come from, in the order of the tables."""

    GOOGLE_RE = "GoogleRE"
    T_REX = "TREx"
    CONCEPT_NET = "ConceptNet"
    SQUAD = "SQuAD"


CORPORA = tuple(corpus.value for corpus in Corpus)
_CORPUS_NAMES = {corpus.lower(): corpus for corpus in CORPORA}
_NAMES = ("sub_label", "obj_label")
_QUERIES = ("masked_sentence", "masked_negation", *(f"misprimed_{kind}" for kind in MISPRIMES))
_TEXTS = ("relation", "pred", *_QUERIES)
_IDENTIFIERS = {str(Corpus.CONCEPT_NET): "uuid", str(Corpus.SQUAD): "id"}  # what the source calls a fact


@dataclass(frozen=True)
class Fact:
    """A fact as queries with one [MASK] each."""

    corpus: str  # one of `CORPORA`
    relation: str  # such as P36
    subject: str  # what the fact is about
    gold: str  # the word at the mask that makes the affirmative query true
    affirmative: str
    negated: str | None
    misprimed: Mapping[str, str]  # kind (a key of `MISPRIMES`) → the affirmative query after a misleading word
    identifier: str  # the source's name for the fact, if it has one
    location: str = field(compare=False)  # file and line

    @property
    def item(self) -> str:
        """Another text for each other fact: the last part alone may be missing, and a sign of a part is doubled."""
        parts = (self.relation, self.subject, self.affirmative, self.gold, self.identifier)
        return " | ".join(part.replace("|", "||") for part in parts if part)


@dataclass(frozen=True)
class Facts:
    """The facts of some files: by corpus and relation, else in the order of the files."""

    facts: tuple[Fact, ...]
    excluded: Mapping[str, int]  # why rows of the files are not among the facts → how many

    @property
    def sha256(self) -> str:
        rows = [[f.corpus, f.item, f.negated, sorted(f.misprimed.items())] for f in self.facts]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def read_facts(paths: Sequence[Path], corpora: Sequence[str] = ()) -> Facts:
    """The facts of files and folders, in any layout, of all corpora if none is named; `InputError`: a bad line."""
    excluded: Counter[str] = Counter()
    ours: list[tuple[str, Row]] = []  # every layout becomes ours
    primed: list[tuple[str, str, Row]] = []
    for path in _files(paths):
        corpus = corpus_of(path.absolute())
        if corpora and corpus not in corpora:
            continue
        rows = list(records(path, _NAMES, _TEXTS))
        if "masked_misprimed" in rows[0]:
            primed += [(corpus, path.absolute().as_posix(), row) for row in rows]
        else:
            is_ours = "masked_sentence" in rows[0]
            ours += [(corpus, row) for row in (rows if is_ours else _lama_rows(corpus, path, rows, excluded))]
    ours += [(corpus, row) for corpus, merged in merge_rows(primed).items() for row in merged]
    if not ours:
        raise InputError(f"{', '.join(map(str, paths))}: there are no facts of {', '.join(corpora) or 'any corpus'}")
    facts = sorted((_fact(*row) for row in ours), key=lambda fact: (CORPORA.index(fact.corpus), fact.relation))
    first: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        known = first.setdefault((fact.corpus, fact.item), fact)
        if known is not fact:
            raise InputError(f"{fact.location}: the same fact as in {known.location}; give each file once")
    return Facts(tuple(facts), excluded)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if is_file(path):
            yield path
            continue
        found = [own for own in files_below(path) if own.name.endswith((".jsonl", ".jsonl.gz"))]
        if not (found := [own for own in found if own.name != TEMPLATES_FILE]):
            raise InputError(f"{path}: there is no .jsonl file in it; give LAMA's data folder, or a file of facts")
        yield from found


def _fact(corpus: str, row: Row) -> Fact:
    relation = _text(row, "relation")
    _text(row, "masked_sentence")
    queries = {name: row[name] for name in _QUERIES if row.get(name)}
    for text in queries.values():
        if (masks := text.count(MASK)) != 1:
            raise InputError(f"{row.location}: {text!r} has {masks or 'no'} {MASK}; it must have one")
    return Fact(
        corpus=corpus,
        relation=_label(relation),  # it becomes the name of a split
        subject=row["sub_label"],
        gold=row["obj_label"],
        affirmative=queries.pop("masked_sentence"),
        negated=queries.pop("masked_negation", None),
        misprimed={name.removeprefix("misprimed_"): query for name, query in queries.items()},
        identifier="" if row.get("source_id") is None else str(row["source_id"]),
        location=row.location,
    )


@cache
def _label(name: str) -> str:
    return str(label(pl.Series([name])).item())


def _lama_rows(corpus: str, path: Path, rows: Sequence[Row], excluded: Counter[str]) -> Iterator[Row]:
    stem = path.name.split(".")[0].removesuffix("_test")
    templates = _templates(corpus, path, stem)
    seen: set[tuple[str, str]] = set()
    for row in rows:
        subject, gold, identifier = row["sub_label"], row["obj_label"], None
        judgments = row.get("judgments")
        given = judgments if isinstance(judgments, list) else ()
        if 2 * sum(isinstance(one, dict) and one.get("judgment") == "yes" for one in given) < len(given):
            excluded["most raters rejected the fact"] += 1
            continue
        if templates:
            if (subject, gold) in seen:
                excluded["an earlier fact has the same subject and object"] += 1
                continue
            seen.add((subject, gold))
            queries = [one and one.replace("[X]", subject).replace("[Y]", MASK) for one in templates]
            relation = stem
        else:
            queries = [only_text(row, "masked_sentences")]
            queries += [only_text(row, "negated") if row.get("negated") else None]
            relation = _WITHOUT_RELATION if corpus == Corpus.SQUAD else _text(row, "pred")
            identifier = row.get(_IDENTIFIERS[corpus])
            if len((queries[0] or "").split()) > MOST_WORDS:
                excluded[f"the query has more than {MOST_WORDS} words"] += 1
                continue
        fields = {"relation": relation, "sub_label": subject, "obj_label": gold, "source_id": identifier}
        yield Row(fields | dict(zip(("masked_sentence", "masked_negation"), queries, strict=True)), row.location)


def _templates(corpus: str, path: Path, relation: str) -> tuple[str, str | None] | None:
    """The affirmative and the negated template; none for the corpora whose queries are in the rows."""
    if corpus == Corpus.GOOGLE_RE:
        if relation not in _GOOGLE_RE:
            raise InputError(f"{path}: the file's name must be a relation of Google-RE: {', '.join(_GOOGLE_RE)}")
        return _GOOGLE_RE[relation]
    if corpus != Corpus.T_REX:
        return None
    for folder in (path.absolute().parent, path.absolute().parent.parent):
        file = folder / TEMPLATES_FILE
        if file.is_file():
            for row in records(file, ["relation", "template"], ["template_negated"]):
                if row["relation"] == relation:
                    return row["template"], row.get("template_negated")
            raise InputError(f"{file}: there is no template of {relation}, which {path} needs")
    raise InputError(f"{path}: LAMA's templates are missing: put {TEMPLATES_FILE} into this folder or the one above")


def merge(members: Mapping[str, bytes], source: str) -> dict[str, bytes]:
    """Turn the files of their repository, path → content, into ours; an `InputError` for a bad line."""
    rows = [
        (corpus_of(Path(path)), path, Row(json_object(line, location), location))
        for path, content in members.items()
        if path.startswith("data/") and path.endswith(".jsonl")
        for line, location in decoded(content, f"{source}/{path}")
    ]
    return {
        f"{corpus}.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in merged).encode()
        for corpus, merged in merge_rows(rows).items()
    }


def merge_rows(rows: Iterable[tuple[str, str, Row]]) -> dict[str, list[Row]]:
    """Put the lines of each fact together: corpus → lines in our layout, ordered by relation; errors as for `merge`."""
    tables: dict[str, dict[tuple[str, ...], Row]] = {}
    for corpus, path, row in rows:
        relation = _text(row, "pred") if corpus == Corpus.CONCEPT_NET else Path(path).stem.removesuffix("_random")
        sentence, negation = only_text(row, "masked_sentences"), only_text(row, "masked_negations")
        subject, gold = (_text(row, name) for name in _NAMES)
        fresh: dict[str, Any] = {
            "relation": relation,
            "sub_label": subject,
            "obj_label": gold,
            "masked_sentence": sentence,
            "masked_negation": negation,
            **{f"misprimed_{kind}": None for kind in MISPRIMES},
        }
        merged = tables.setdefault(corpus, {}).setdefault((relation, subject, gold, sentence), Row(fresh, row.location))
        if merged["masked_negation"] != negation:
            raise InputError(f"{row.location}: the negation of {sentence!r} differs from that in {merged.location}")
        kind = next((kind for kind, folder in MISPRIMES.items() if folder in path.split("/")), None)
        if kind is None:
            named = " or ".join(MISPRIMES.values())
            raise InputError(f"{path}: a folder of misprimed queries must be named {named}")
        merged[f"misprimed_{kind}"] = only_text(row, "masked_misprimed")
        if (identifier := row.get(_IDENTIFIERS.get(corpus, ""))) is not None:
            merged["source_id"] = identifier
    return {
        corpus: sorted(table.values(), key=lambda row: str(row["relation"])) for corpus, table in sorted(tables.items())
    }


def corpus_of(path: Path) -> str:
    """The corpus that a file's name tells, or else the innermost folder's; none is an `InputError`."""
    for name in (path.name.split(".")[0], *reversed(path.parts[:-1])):
        if corpus := _CORPUS_NAMES.get(re.sub(r"[^a-z]", "", name.lower())):
            return corpus
    raise InputError(f"{path}: the file or a folder must have the name of a corpus: {', '.join(CORPORA)}")


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    if isinstance(value, str) and value.strip():
        return value
    raise InputError(f"{row.location}: {name} is {'missing' if not value else repr(value)}; a text is needed")


def only_text(row: Row, name: str) -> str:
    """The text of a field that holds a list of one text; anything else is an `InputError`."""
    value = row.get(name)
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], str):
        found = "is missing" if value is None else f"is {value!r}"
        raise InputError(f"{row.location}: {name} {found}; a list of one text is needed")
    return checked_length(value[0], f"{row.location}: {name}")
