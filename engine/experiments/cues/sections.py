"""What a report says about negation cues in texts: how common they are, by either detector, and which are frequent."""

import polars as pl

from ...views import Figure, Section, Table
from ...views.charts import Points
from .runs import CuesRun
from .tables import cue_table, paper_shares, share_table


def sections(run: CuesRun) -> list[Section]:
    """Shares of sentences with a cue, and the most frequent cues."""
    return [
        Section(
            "How many sentences have a negation cue?",
            ["The list of words and the trained detector read the same sentences."],
            figures=[_shares(share_table(run.summary, run.model_name))],
            notes=[paper_shares()],
        ),
        Section("Which cues are frequent?", tables=[cue_table(run.counts(), run.model_name)]),
    ]


def _shares(table: Table) -> Figure:
    """The share of sentences with a cue of each text, by detector."""
    data = table.frame.select("text", "detector", value=pl.col("share") * 100)
    return Figure(
        "shares",
        Points(data, x="value", y="text", series="detector", title="sentences with a negation cue (%)"),
        table,
        "Points for the share of sentences with a negation cue, for each text and each detector.",
        "Sentences with a negation cue, of all sentences of a text.",
    )
