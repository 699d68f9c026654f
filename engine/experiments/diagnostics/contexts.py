"""The tables of aetting/lm-diagnostics (Ettinger 2020), and their contexts as completions to compare.

CPRAG-102     34 contexts of two sentences, an expected word and two related words that do not fit
ROLE-88       44 pairs of contexts with the roles of two nouns swapped, a target that fits one of them (`N-a`)
NEG-136-SIMP  18 subjects, affirmative and negative, a category and a wrong one
NEG-136-NAT   16 sentences, affirmative and negative, with a word that makes each true; half of them read naturally

A sentence is its context, the word, and a full stop. Perturbed contexts, as upstream has them, ask for accuracy only:

    shuffled             first sentence without its full stops, its words in another order (one item for each draw)
    truncated            of the second sentence the last two words before the target
    shuffled-truncated   both, with the same orders
    -Obj                 `which OBJECT the SUBJECT had` becomes `which one the SUBJECT had`
    -Sub, -ObjSub        it becomes `which OBJECT the other had`, `which one the other had`
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...basics.errors import InputError
from ...basics.reading import files_below, is_file
from ...inference.free_text import MASK
from ...requests.items import ALL, KEYS, ORIGINAL, OWN
from ...requests.word import Word
from ...text.agreement import Article, article_of
from ...text.keys import string_keys
from ...text.lexicon import load_lexicon
from ...text.records import Row, records
from ...text.table_text import Form

CONSTRAINTS = ("H", "L")
LICENSING = {"Y": "licensed", "N": "unlicensed"}
_NUMBER = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
_NEGATION = "item context_aff context_neg target_aff target_neg"

SHUFFLED, TRUNCATED, BOTH = CPRAG_PERTURBED = ("shuffled", "truncated", "shuffled-truncated")
ROLE_PERTURBED = ("-Obj", "-Sub", "-ObjSub")
BINS = ("cloze-1", "cloze-2", "cloze-3", "cloze-4")
POLARITIES = ("affirmative", "negative")
COMPARED = ("good", "bad", "bad2")  # roles
DRAW = "draw"  # the column of groups that are shuffles
ARTICLE = "(a|an)"
_WORDS_KEPT = 2


class Dataset(StrEnum):
    """The data sets, in the order of the tables."""

    CPRAG = "CPRAG-102"
    ROLE = "ROLE-88"
    SIMP = "NEG-136-SIMP"
    NAT = "NEG-136-NAT"


CPRAG, ROLE, SIMP, NAT = DATASETS = tuple(dataset.value for dataset in Dataset)


Rows = Mapping[str, Sequence[Row]]
"""Data set → the rows of its file, as they stand there; those that were not read are absent."""


def read_diagnostics(path: Path, datasets: Sequence[str] = ()) -> Rows:
    """The tables of a folder, with NAME.tsv in it or below it, or one such file; by default all that are there."""
    if is_file(path):
        if tuple(datasets or (path.stem,)) != (path.stem,) or path.stem not in DATASETS:
            raise InputError(f"{path}: the file must be named {' or '.join(f'{n}.tsv' for n in datasets or DATASETS)}")
        files = {path.stem: path}
    else:
        files = {}
        for name in datasets or DATASETS:
            if not (below := files_below(path, f"{name}.tsv")):
                hint = "give the folder of lm-diagnostics, or other --dataset"
                raise InputError(f"{path}: there is no {name}.tsv in it; {hint}")
            files[name] = below[0]
    found = {name: _read(file, *_TABLES[name]) for name, file in files.items()}
    targets = {row["item"]: row["target"] for row in found.get(ROLE, ())}
    for row, (item, target) in zip(found.get(ROLE, ()), targets.items(), strict=True):
        pair, order = _pair_of(row)
        other = f"{pair}-{'b' if order == 'a' else 'a'}"
        if other not in targets:
            raise InputError(f"{row.location}: item {item} has no counterpart {other}")
        if targets[other] != target:
            raise InputError(
                f"{row.location}: target is {target!r}, but that of {other} is {targets[other]!r}; "
                "a pair must have the same target"
            )
    return found


def _read(path: Path, columns: str, check: Callable[[Row], None]) -> tuple[Row, ...]:
    rows = tuple(records(path, columns.split(), form=Form(plain=True)))
    first: dict[str, Row] = {}
    for row in rows:
        known = first.setdefault(row["item"], row)
        if known is not row:
            raise InputError(f"{row.location}: item {row['item']} is also in {known.location}; give it once")
    for row in rows:
        check(row)
        for name in columns.split():
            if MASK in row[name] and name.startswith("context"):
                said = "it must end before the word to predict: remove the mask"
                raise InputError(f"{row.location}: {name} has a {MASK}; {said}")
    return rows


def _check_reversal(row: Row) -> None:
    if not re.fullmatch(r".+-[ab]", row["item"]):
        raise InputError(f"{row.location}: item is {row['item']!r}; it must be a number and -a or -b")
    if not 0 <= _cloze(row) <= 1:
        raise InputError(f"{row.location}: exp_cloze is {row['exp_cloze']!r}; a number from 0 to 1 is needed")
    if not all(words.strip() for words in row["expected"].split("|")):
        raise InputError(f"{row.location}: expected is {row['expected']!r}; there must be words on both sides of |")
    context = row["context"]
    which = context.find("which ")  # a regular expression would take cubic time
    if not context.endswith(" had") or which < 0 or context.find(" the ", which + 6, len(context) - 4) < 0:
        raise InputError(f"{row.location}: context is {context!r}; it must end in `which … the … had`")


def _pair_of(row: Row) -> tuple[str, str]:
    """Of a row of ROLE-88 its pair, and `a` if the target fits, else `b`."""
    pair, _, order = row["item"].rpartition("-")
    return pair, order


def _cloze(row: Row) -> float:
    """The share of people who gave the expected word; NaN if it is not a number."""
    return float(row["exp_cloze"]) if _NUMBER.fullmatch(row["exp_cloze"]) else math.nan


def _one_of(row: Row, name: str, known: Sequence[str]) -> None:
    if row[name] not in known:
        raise InputError(f"{row.location}: {name} is {row[name]!r}; it must be {' or '.join(known)}")


# The columns of the file, and what checks a line beside them.
_TABLES: dict[str, tuple[str, Callable[[Row], None]]] = {
    CPRAG: (
        "item context_s1 context_s2 expected within_category between_category constraint",
        lambda row: _one_of(row, "constraint", CONSTRAINTS),
    ),
    ROLE: ("item context expected exp_cloze target", _check_reversal),
    SIMP: (_NEGATION, lambda _: None),
    NAT: (f"{_NEGATION} licensing", lambda row: _one_of(row, "licensing", tuple(LICENSING))),
}


Completion = tuple[str, str]
"""A text with one [MASK], and a word for the mask."""


def requests_of(diagnostics: Rows, *, draws: int, seed: int) -> pl.DataFrame:
    """The requests of all items in all conditions; `draws` is how many times the words of a sentence are shuffled."""
    rows = [
        *(own for row in diagnostics.get(CPRAG, ()) for own in _pragmatic_requests(row, draws, seed)),
        *_reversal_requests(diagnostics.get(ROLE, ())),
        *(own for name in (SIMP, NAT) for row in diagnostics.get(name, ()) for own in _negation_requests(name, row)),
    ]
    further = {"is_expected": pl.Boolean, "draw": pl.Int32, "place": pl.String}
    return pl.DataFrame(rows, {**KEYS, **Word.asks, **further})


def _requests(
    dataset: str,
    condition: str,
    item: str,
    cluster: str,
    splits: tuple[str, ...],
    location: str,
    expected: Sequence[Completion] = (),
    compared: Sequence[Completion] = (),
    draw: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Those of an item: each different completion.

    Any of the `expected` words is right; of those `compared` the first is more probable than the others. `draw` is the
    number of the shuffle, from 1.
    """
    roles = dict(zip(compared, COMPARED, strict=False))
    drawn = (f"draw-{draw}",) if draw else ()
    for own in dict.fromkeys([*expected, *compared]):
        yield {
            "dataset": dataset,
            "condition": condition,
            "item": " ".join((item, *drawn)),
            # Only the contexts of ROLE-88 are themselves the same in two conditions; else it is the row of the file.
            "pair": item if dataset == ROLE else cluster,
            "cluster": cluster,
            "splits": [ALL, *splits, *drawn],
            "columns": [None, *[OWN] * len(splits), *[DRAW] * len(drawn)],
            "role": roles.get(own),
            "text": own[0],
            "word": own[1],
            "is_expected": own in expected,
            "draw": draw,
            "place": location,
        }


@cache
def _articles() -> tuple[Article, ...]:
    return load_lexicon().agreement.articles


def complete(context: str, word: str, location: str = "") -> Completion:
    """A context with the word to predict and a full stop; `(a|an)` in it becomes the word's article.

    The rule is that of the English words. For each word of the published tables it gives the article of upstream's
    code, which looks at the first letter. `InputError` where letters do not tell the article.
    """
    article = ""
    if ARTICLE in context and not (article := article_of(_articles(), "", word, "")):
        raise InputError(
            f"{location}: letters do not tell whether {word!r} has a or an; write the article into the context in "
            f"place of {ARTICLE}, or give another word"
        )
    return f"{context.replace(ARTICLE, article)} {MASK}.", word


def shuffle(sentence: str, draw: int, seed: int) -> str:
    """A sentence without full stops, its words in the order of their keyed hashes, and a full stop after them."""
    words = sentence.replace(".", "").split()
    keys = string_keys([f"{sentence}\t{i}" for i in range(len(words))], f"diagnostics, shuffle {draw}, seed {seed}")
    return " ".join(words[i] for i in np.argsort(keys, kind="stable")) + "."


def _pragmatic_requests(row: Row, draws: int, seed: int) -> Iterator[dict[str, Any]]:
    item, opening, second = (row[name] for name in ("item", "context_s1", "context_s2"))
    expected, *others = (row[name] for name in ("expected", "within_category", "between_category"))

    def ask(condition: str, first: str, second: str, draw: int | None = None) -> Iterator[dict[str, Any]]:
        text, word = complete(f"{first} {second}", expected, row.location)
        compared = [(text, own) for own in ((word, *others) if condition == ORIGINAL else ())]
        keys = CPRAG, condition, item, item, (row["constraint"],), row.location
        return _requests(*keys, [(text, word)], compared, draw)

    last = " ".join(second.split()[-_WORDS_KEPT:])
    yield from ask(ORIGINAL, opening, second)
    yield from ask(TRUNCATED, opening, last)
    for draw in range(1, draws + 1):
        shuffled = shuffle(opening, draw, seed)
        yield from ask(SHUFFLED, shuffled, second, draw)
        yield from ask(BOTH, shuffled, last, draw)


def _reversal_requests(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    pairs: dict[str, dict[str, Completion]] = defaultdict(dict)
    locations = {_pair_of(row)[0]: row.location for row in rows}
    cloze = [_cloze(row) for row in rows]
    # Cut at the quartiles; a value equal to a cut is below it.
    bins = np.searchsorted(np.percentile(cloze, [25, 50, 75]), cloze, side="left").tolist() if rows else []
    for row, own_bin in zip(rows, bins, strict=True):
        pair, order = _pair_of(row)
        words = dict.fromkeys(several.split()[0] for several in row["expected"].split("|"))  # the first ones
        for condition in (ORIGINAL, *ROLE_PERTURBED):
            context = row["context"]
            if "Obj" in condition:
                context = re.sub("which .* the", "which one the", context)
            if "Sub" in condition:
                context = re.sub("which (.*) the .* had", r"which \1 the other had", context)
            expected = [complete(context, word, row.location) for word in words]
            yield from _requests(ROLE, condition, row["item"], pair, (BINS[own_bin],), row.location, expected)
        pairs[pair][order] = complete(row["context"], row["target"], row.location)
    for pair, targets in pairs.items():
        compared = targets["a"], targets["b"]
        yield from _requests(ROLE, ORIGINAL, pair, pair, (), locations[pair], compared=compared)


def _negation_requests(dataset: str, row: Row) -> Iterator[dict[str, Any]]:
    kind = LICENSING[row["licensing"]] if "licensing" in row else None
    contexts, targets = (tuple(row[f"{name}_{own}"] for own in ("aff", "neg")) for name in ("context", "target"))
    for polarity, context, true, false in zip(POLARITIES, contexts, targets, targets[::-1], strict=True):
        splits = (polarity, *((kind, f"{polarity}-{kind}") if kind else ()))
        compared = [complete(context, word, row.location) for word in (true, false)]
        # Nearly every word completes a negative context, so none is expected there.
        expected = compared[:1] if polarity == POLARITIES[0] else []
        keys = dataset, ORIGINAL, f"{row['item']} {polarity}", row["item"], splits, row.location
        yield from _requests(*keys, expected, compared)
