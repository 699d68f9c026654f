"""Small data of each experiment in which names that a user is free to choose stand wherever they can.

The numbers must not depend on them: they name relations, items, patterns, genders, files and folders. The words that a
model reads stay as they are, and names whose order is that of the rows come in the order of the alphabet.
"""

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from negengine.engine.text.bundled import pattern_path

SENTENCES = [f"A {what} {verb} a [MASK]." for what in ("robin", "trout", "dog") for verb in ("is", "is not")]
GOOD = ["Anna is happy.", "He smokes.", "She likes to dance.", "They smoke."] * 2
BAD = ["Anna are happy.", "He smoke.", "She likes to dances.", "They smokes."] * 2
CANDIDATES = [["smoke.", "dance with her."], ["a dancer.", "an architect."], ["He smokes.", "He smoke."]] * 2
LANDS = {"France": "paris", "Italy": "rome", "England": "london"}
LEXICON = {"names": (["Jessica", "Maria"], ["John", "Peter"]), "professions": ["a dancer", "an architect", "a doctor"],
           "verbs": ["smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt"]}  # fmt: skip
ITEMS = {
    "CPRAG-102": "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
    "{0}\tThe dog ran.\tAt last it came to the\tdog\tcat\tcar\tH\n{1}\tThe red car.\tShe\ttree\tdog\thouse\tL\n",
    "ROLE-88": "item\tcontext\texpected\texp_cloze\ttarget\n"
    "{2}-b\tthe man forgot which waitress the customer had \ttipped|paid for\t0.2\tserved\n"
    "{2}-a\tthe man forgot which customer the waitress had \tserved\t0.6\tserved\n",
    "NEG-136-SIMP": "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n"
    "{3}\tA hammer is (a|an)\tA hammer is not (a|an)\ttool\tinsect\n",
    "NEG-136-NAT": "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\tlicensing\n"
    "{4}\tOld cars are\tOld cars aren't\tslow\tfast\tY\n{5}\tNew cars are\tNew cars aren't\tfast\tslow\tN\n",
}


def table(kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Two columns of groups and one of clusters; names: of the columns, of two groups each, of targets."""
    one, other, clusters, first, second, third, fourth, *targets = names
    n = {"probe": 6, "likelihood": 8, "choice": 6}[kind]
    own = {one: [(first, second)[i % 2] for i in range(n)], other: [(third, fourth)[i // 2 % 2] for i in range(n)],
           clusters: [f"c{i // 2}" for i in range(n)]}  # fmt: skip
    if kind == "probe":
        words = {
            targets[0]: ["bird", "bird", "fish", "fish", "bird", "bird"],
            targets[1]: ["fish", "fish", "bird", "bird", "fish", "fish"],
        }
        return {"sentence of the table": SENTENCES, **words, **own}
    if kind == "likelihood":
        return {"good sentences": GOOD, "bad sentences": BAD, **own}
    return {"choices of a row": [json.dumps(texts) for texts in CANDIDATES], "right one": [0] * n, **own}


def options(kind: str, names: Sequence[str]) -> dict[str, Any]:
    """How a table is read."""
    own = {"group": [names[0], names[1]], "cluster": names[2]}
    if kind == "probe":
        return {**own, "sentence": "sentence of the table", "target": names[7:9], "item": names[2]}
    if kind == "likelihood":
        return {**own, "good": "good sentences", "bad": "bad sentences", "prefix": ""}
    return {**own, "candidates": "choices of a row", "answer": "right one", "context": "", "counts_from": 0}


def file_name(name: str) -> str:
    return re.sub(r'[\x00-\x1f/\\:*?"<>|]', "-", name).rstrip(". ") or "x"


def _table(kind: str) -> "Case":
    def written(folder: Path, names: Sequence[str]) -> dict[str, Any]:
        rows = pl.DataFrame(table(kind, names))
        if kind != "likelihood":
            path = folder / f"{file_name(names[9])}.csv"
            rows.write_csv(path)
        else:  # a folder of two files
            path = folder / file_name(names[9])
            path.mkdir()
            for number, name in enumerate(names[7:9]):
                rows.slice(4 * number, 4).write_csv(path / f"{number}{file_name(name)}.csv")
        return {"data": path, **options(kind, names)}

    return written


def _lama(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    rows = []
    for number, relation in enumerate(sorted(names[:8])):  # of eight relations the tables have none, of seven each
        for land, answer in LANDS.items():
            query = f"The capital of {land} is [MASK] ."
            row = {"relation": relation, "sub_label": names[8 + number % 2], "obj_label": answer}
            row |= {"masked_sentence": query, "masked_negation": query.replace("is", "is not"), "source_id": names[0]}
            rows.append(json.dumps(row | {"misprimed_low": f"Berlin? {query}"}))
    (folder / "TREx.jsonl").write_text("\n".join(rows), "utf-8")
    return {"data": folder / "TREx.jsonl"}


def _diagnostics(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    for name, text in ITEMS.items():
        (folder / f"{name}.tsv").write_text(text.format(*names), "utf-8")
    return {"data": folder, "draws": 2}


def _lexicon(folder: Path, names: Sequence[str]) -> Path:
    """Genders have names that are words of Python's identifiers."""
    genders = sorted([name for name in dict.fromkeys(names) if name.isidentifier()][:2])
    place = folder / file_name(names[9])
    place.mkdir()
    lists = {key: own for key, own in LEXICON.items() if key != "names"}
    lists |= {f"names_{gender}": own for gender, own in zip(genders, LEXICON["names"], strict=True)}
    lists["pronouns"] = [f"{gender} = {pronoun}" for gender, pronoun in zip(genders, ("she", "he"), strict=True)]
    for name, words in lists.items():
        (place / f"{name}.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")
    return place


def _patterns(folder: Path, names: Sequence[str]) -> Path:
    found = tomllib.loads(pattern_path().read_text("utf-8"))["pattern"]
    lines = [f"name = {json.dumps(names[9], ensure_ascii=False)}"]
    for pattern, name in zip(found, names[1:], strict=False):
        own = {**pattern, "name": name}
        lines += ["[[pattern]]", *(f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in own.items())]
    (folder / "patterns.toml").write_text("\n".join(lines), "utf-8")
    return folder / "patterns.toml"


def _nli(data: Path) -> "Case":
    def written(folder: Path, names: Sequence[str]) -> dict[str, Any]:
        place = shutil.copytree(data, folder / file_name(names[0]))
        original = (place / "dev.tsv").rename(place / f"{file_name(names[1])}.tsv")
        return {"data": place, "source": "RTE", "original": {"RTE": original}, "max_length": 16}

    return written


def _cues(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    texts = ("I don't know. It rained. Nobody came, not she.\n", "You was careless, unsure.\nNever. It is.\n")
    files = []
    for number, (name, text) in enumerate(zip(names, texts, strict=False)):
        files.append(folder / str(number) / file_name(name))
        files[-1].parent.mkdir()
        files[-1].write_text(text, "utf-8")
    return {"files": files}


Case = Callable[[Path, Sequence[str]], dict[str, Any]]


def cases(nli_data: Path) -> dict[str, Case]:
    """Experiment → what writes its data into an empty folder, and gives its options."""
    return {
        **{kind: _table(kind) for kind in ("probe", "likelihood", "choice")},
        "lama": _lama,
        "diagnostics": _diagnostics,
        "nli": _nli(nli_data),
        "cues": _cues,
        "gh22": lambda folder, names: {"lexicon": _lexicon(folder, names), "ranks": [1, 50], "variant": "connective"},
        "select": lambda folder, names: {"lexicon": _lexicon(folder, names), "patterns": _patterns(folder, names)},
    }
