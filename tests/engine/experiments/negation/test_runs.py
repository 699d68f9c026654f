"""What a scored run says below its tables."""

import msgspec
import pytest
from negengine.engine.experiments.negation.runs import ScoresRun


@pytest.fixture
def run(scored_run):
    return ScoresRun.open(scored_run)


def counted(run, **counts):
    """The run as if so many top-1 tokens of a pattern had the text of the verb and another id."""
    named = {f"{pattern}: other token with the verb's text": count for pattern, count in counts.items()}
    done = msgspec.structs.replace(run.record.done, counts={**run.record.counts, **named})
    return ScoresRun(run.folder, msgspec.structs.replace(run.record, done=done))


def test_the_share_of_other_tokens_with_the_verbs_text_is_told(run):
    n = dict(run.rates.select("pattern", "n").iter_rows())["CpTn"]
    found = counted(run, CpTn=n)
    assert found.remarks()[-1] == (
        "The first choice reads like the verb but is another token, and is not counted: CpTn 100.0 %."
    )


def test_nothing_is_said_where_there_is_no_such_token(run):
    assert run.remarks() == [run.reading]
