"""What is asked of a model, row by row, and what follows from the answers.

An experiment is a frame of requests, and metrics of their answers. A request is a row: the columns of `items.KEYS` that
say what it belongs to, the columns that its kind asks (`Word`: a text with one mask, and a word), and any others that
metrics read. The answers stand beside it. `RequestStage` is the one stage that asks; an experiment makes no batches.

An experiment is a subclass of `Requested` (`engine/experiments/requested.py`):

    of_kind             the class of the kind
    kind(exported)      `Word(top=5)`, `Span(…)`, `Label(…)`: how the model is asked
    requests(exported)  the frame, one row a request; nothing is read from the model but its tokenizer and its name
    scores              expressions of a request, for the metrics: a score per byte, less the candidate alone
    metrics             expressions of an item, in their order; a later one may read an earlier one. A metric has a
                        value in one row of its item (`metrics.of_item`, `metrics.lead`), and is null in the others
    contrasts(rows)     which two sides are compared, in rows that share a `pair` (`contrast.Contrast`)
    further(rows)       rows of the summary that are not means of items

A kind is a frozen dataclass whose fields are options (`stage.Kind`): `prepare` reads texts as tokens and says why a
request cannot be asked, `answer` asks, `asks` and `answers` name the columns, and `identity` tells two runs apart.

What cannot be asked has its reason in the column `why`; its answers are null, and so are metrics that need them. An
experiment gives a reason itself for an item that is not valid (`metrics.refused`), or refuses such an item.
"""
