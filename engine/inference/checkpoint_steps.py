"""The step that the name of a checkpoint says: the number behind the word `step`, `checkpoint`, `iter`, `epoch` …."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

MOST_STEPS = 10**15
_COMMIT = re.compile(r"[0-9a-f]{12,40}")
_SCALED = "(?P<scale>[kKmMbB]?)"
_WHOLE = rf"(?P<number>[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]{{1,15}}){_SCALED}"
# Behind or before a word, also 2.5B and 1e5.
_VALUE = _WHOLE.replace("{1,15}", r"{1,15}(?:\.[0-9]{1,9}(?=[eEkKmMbB]))?(?:[eE]\+?[0-9]{1,2})?")
_END = r"(?![0-9A-Za-z]|[.,][0-9])"
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
# The first of these words that a name has counts.
_WORDS = {
    "step": "(?:global[-_]?)?steps?",
    "checkpoint": "checkpoints?|ckpts?|chckp?t?s?|chkpts?|iter(?:ation)?s?|updates?",
    "epoch": "epochs?|ep",
    "tokens": "tokens?|tok",
}
_FURTHER = r"(?:[-_](?P<further>[0-9]{1,15}(?:_[0-9]{3})*)(?![0-9A-Za-z.]))?"  # 1_000 is a thousand, or a step 1
_BEHIND = {
    word: re.compile(rf"(?<![A-Za-z])(?:{forms})[-_=. ]*{_VALUE}{_END}{_FURTHER}", re.IGNORECASE)
    for word, forms in _WORDS.items()
}
_BEFORE = {
    word: re.compile(rf"(?<![0-9.,A-Za-z]){_VALUE}[-_ ]*(?:{forms})(?![A-Za-z])", re.IGNORECASE)
    for word, forms in _WORDS.items()
}
# A number without such a word; not that of a seed, a learning rate, a run or a version, nor a power such as 2e-5.
_ALONE = re.compile(
    rf"(?<![0-9.,])(?<!seed)(?<!seed[-_=])(?<!lr)(?<!lr[-_=])(?<!run)(?<!run[-_=])(?<!v)(?<![0-9]e)(?<![0-9]e-){_WHOLE}{_END}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Named:
    """What the name of a checkpoint says."""

    step: int | None  # None where it says none, or two
    word: str = ""  # the word that the step stands behind; empty for a number alone
    others: tuple[int, ...] = ()  # further numbers that a person could mean


def named_step(text: str) -> Named:
    """The step that a revision or a folder names: 20,000 for `seed-0-step_20k`."""
    name = text.rstrip("/").rpartition("/")[2]
    if _COMMIT.fullmatch(name):
        return Named(None)
    found = {word: _numbers(_BEHIND[word], name) or _numbers(_BEFORE[word], name) for word in _WORDS}
    found |= {"": [] if any(found.values()) else _numbers(_ALONE, name)}
    known = [(word, number) for word, numbers in found.items() for number in numbers]
    if not known:
        return Named(None)
    word, step = known[0]
    others = tuple(number for _, number in known[1:])
    others += _further(_BEHIND[word], name) if word else ()
    is_clear = len(set(found[word])) == 1
    return Named(step, word, others) if is_clear else Named(None, word, (step, *others))


def is_step(name: str) -> bool:
    """Whether a folder's name is a step and nothing else: `step100`, `checkpoint-500`, `epoch_3`, `20k-steps`."""
    patterns = (*_BEHIND.values(), *_BEFORE.values())
    return name.isdecimal() or any(pattern.fullmatch(name) for pattern in patterns)


def told(names: Sequence[str]) -> str:
    """What a person is told of a list of names where a number could mean something else; empty where none could."""
    for name in names:
        own = named_step(name)
        if own.others or own.word not in {"", "step", "checkpoint"}:
            further = f", and not {' or '.join(f'{number:,}' for number in own.others)}" if own.others else ""
            where = f", the number of `{own.word}`" if own.word else ""
            return f"the step of {name!r} is {own.step or 0:,}{where}{further}; if that is wrong, give steps = [...]"
    return ""


def _further(pattern: re.Pattern[str], name: str) -> tuple[int, ...]:
    """The numbers without a word that follow; 1,000 for `step_1_000`."""
    found = [(own["number"], own["further"]) for own in pattern.finditer(name) if own["further"]]
    return tuple(int(f"{one}{more}" if re.fullmatch("[0-9]{3}(?:_[0-9]{3})*", more) else more) for one, more in found)


def _numbers(pattern: re.Pattern[str], name: str) -> list[int]:
    """The whole numbers that it finds, up to the largest step."""
    found = [Decimal(one["number"].replace(",", "")) * _SCALE[one["scale"].lower()] for one in pattern.finditer(name)]
    return [int(number) for number in found if number <= MOST_STEPS and number == int(number)]
