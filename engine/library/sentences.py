"""The items of a run as sentences with the model's answers: one table for all probes.

Every table begins with these columns; the probe's own columns follow.

    item        the item's number or id in the run's result files
    condition   the pattern of the Self-Contained Negation Test, else the condition
    sentence    exactly the text that the tokenizer read, with the model's own mask token; for pairs of texts there are
                two columns, premise and hypothesis
    expected    the expected word or label; null where none is expected
    answer      the model's first choice, or its label; null where the run does not record it
    correct     whether the answer is the expected one. Where the experiment asks whether a word is repeated, the column
                is named `repeated`, because a repetition is right in some conditions and wrong in others. Null where
                nothing says what is right
    failed      whether the model fails the item; each probe says what that means. Null where it means nothing
    rank        rank of the expected word, 1 is the first choice; null where it is not recorded
    logprob     natural logarithm of the probability of the expected word; null where it is not recorded

The texts are built again from what the run has recorded: neither the model nor the data are opened.
"""

from collections.abc import Mapping, Sequence

CORRECT, REPEATED, FAILED = "correct", "repeated", "failed"
FIRST = "is_top1"
"""The column of own stimuli that says whether the expected word is the first choice, which need not be right."""
TEXTS = ("sentence", "premise", "hypothesis")
COLUMNS = ("item", "condition", *TEXTS, "expected", "answer", CORRECT, FAILED, "rank", "logprob")
"""The first columns, in their order, as far as a run has them."""


OWN = "own columns"
"""Of the metadata of a run on a user's table: its columns in the result files → as the user calls them."""
PAIR = ("good", "bad", "difference", "good_logprob", "bad_logprob")
"""The columns of a pair in one row."""


def names_for_people(names: Sequence[str], own: Mapping[str, str], renamed: Mapping[str, str]) -> dict[str, str]:
    """Columns of `sentence_rows` or `pair_rows` → as people see them; no two are alike but for upper and lower case.

    A user's own columns keep their names. A column of ours with the same name gets another one: `run_item` beside the
    user's `item`. Columns that a table shows, such as `answer`, keep their names, and the user's is `table_answer`.
    `renamed` has other names for columns of ours.
    """
    ours = {name: renamed.get(name, name) for name in names if name not in own}
    fixed = {name.casefold() for name in ours if name in {*COLUMNS[2:], *PAIR}}
    users = {name: f"table_{user}" if user.casefold() in fixed else user for name, user in own.items() if name in names}
    taken, room = {user.casefold() for user in users.values()}, {}
    for name, own_name in ours.items():
        room[name] = own_name
        while room[name].casefold() in taken:
            room[name] = f"run_{room[name]}"
    return {name: users.get(name) or room[name] for name in names}
