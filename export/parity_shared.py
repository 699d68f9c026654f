"""Graphs that compute a common beginning of texts once, against PyTorch in fp32."""

from pathlib import Path

import numpy as np
import onnxruntime as ort

from ..engine.basics.errors import InputError
from ..engine.inference.exported import HIDDEN
from ..engine.inference.trees import LONGEST_TREE, trees
from .observe import open_session, told_in_one_line
from .parity import ROWS, Reference, allowed_of, difference_of, some_of, wrong_tokens

_SHARED = 150  # tokens of a text, whose beginning is then longer than a sentence


def samples_of(reference: Reference) -> list[int]:
    """Those of `some_of` that show how beginnings are shared: a third of the shorter ones, and the longest of them.

    Of longer ones the longest that the export takes, and both sides of each length from which a family treats positions
    differently, which are neighbours. All others would show only what the graph without sharing has shown.
    """
    samples, longest = reference.samples, reference.longest
    lengths = {number: len(samples[number].ids) for number in some_of(samples)}
    shorter, there = [number for number, own in lengths.items() if own <= _SHARED], {*lengths.values()}
    longer = (at for at, own in lengths.items() if own > ROWS and (own == longest or there & {own - 1, own + 1}))
    return sorted({*shorter[::3], max(shorter, key=lengths.__getitem__), *longer})


def compare_trees(graph: Path, vocabulary: Path, reference: Reference) -> None:
    """Compare log-probabilities of a graph that reads trees with PyTorch's; an InputError if one is off by too much.

    A text that shares its first half stands beside each sample.
    """
    first, second = (open_session(graph.name, str(path), ort.SessionOptions()) for path in (graph, vocabulary))
    for number in samples_of(reference):
        ids, wanted = reference.samples[number].ids, reference.tokens.get(number)
        if wanted is None or not 2 <= len(ids) <= LONGEST_TREE:
            continue
        texts = sorted([ids[:-1], np.append(ids[: len(ids) // 2], ids[-2])], key=list)
        (run,) = trees(texts, 2 * len(ids))
        own = run.row[[len(text) for text in texts].index(len(ids) - 1), wanted.rows]
        with told_in_one_line(graph.name, f"running the graph on {len(ids)} tokens"):
            (hidden,) = first.run([HIDDEN], run.feeds())
            feeds = {HIDDEN: hidden[0, own], "following_id": ids[wanted.rows + 1]}
            (found,) = second.run(["token_logprobs"], feeds)
        if wrong_tokens(found, wanted, 0, len(ids)):
            floor = reference.floors([number])[number][1]
            if said := wrong_tokens(found, wanted, floor, len(ids)):
                raise InputError(f"{graph.name}: {said}")


def compare_prefixes(graph: Path, reference: Reference) -> None:
    """Compare a graph that computes a common beginning of sentences once with PyTorch's logits.

    Each sample is divided in the middle, or before its row; if it is short, its second half stands in the batch twice.
    """
    session = open_session(graph.name, str(graph), ort.SessionOptions())
    for number in samples_of(reference):
        sample, wanted = reference.samples[number], reference.by_sample[number]
        middle = min(len(sample.ids) // 2, sample.position or 0)
        if middle < 1:
            continue
        times = 2 if len(sample.ids) <= ROWS else 1
        feeds = {
            "prefix_ids": sample.ids[None, :middle],
            "suffix_ids": np.repeat(sample.ids[None, middle:], times, axis=0),
            "mask_position": np.full(times, sample.position, np.int32),
            "expected_id": np.zeros(times, np.int32),
        }
        with told_in_one_line(graph.name, f"running it on {len(sample.ids)} tokens"):
            (logits,) = session.run(["logits"], feeds)
        difference = difference_of(logits, wanted)
        if not (difference <= allowed_of(wanted, reference.has_token)).all():
            said = f"|Δlogit| {difference.max():.2g} on {len(sample.ids)} tokens"
            raise InputError(f"{graph.name} disagrees with PyTorch: {said}")
