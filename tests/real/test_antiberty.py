"""AntiBERTy, a published masked model of antibody sequences with weights from a pickle (`make real`).

Its sequences are the heavy and the light chain that the description of its package shows and variants of them: in each,
one residue in twenty is drawn anew with the chances that the model gives, about as many as change while an antibody
matures. A letter is an amino acid; the other tokens are special ones.
"""

import itertools
import json
import re
import shutil
from dataclasses import replace
from importlib.metadata import metadata

import numpy as np
import pytest
import torch
from negengine.engine.basics.choices import Precision
from negengine.engine.inference.device import choose_device
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.mixed import FIRST_CHOICES, Mixed, calibrate
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.precision import open_models
from transformers import BertForMaskedLM

VARIANTS, COMPARED = 9, 2  # of each chain, the first one as it is; of these, transformers computes the first ones
MASK, FIRST_LETTER = 4, 5


@pytest.fixture(scope="module")
def source(installed, tmp_path_factory):
    """The checkpoint as a folder: the package has the vocabulary one folder above the weights."""
    found = installed("antiberty") / "trained_models"
    folder = shutil.copytree(found / "AntiBERTy_md_smooth", tmp_path_factory.mktemp("antiberty") / "antiberty")
    shutil.copy(found / "vocab.txt", folder)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": False, "tokenizer_class": "BertTokenizer"})
    )
    return folder


@pytest.fixture(scope="module")
def letters(source):
    return (source / "vocab.txt").read_text("utf-8").split()


@pytest.fixture(scope="module")
def network(source):
    """transformers' own classes alone: the package's heads for species and chain are not needed."""
    return BertForMaskedLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def folder(source, command, tmp_path_factory):
    place = tmp_path_factory.mktemp("exported") / "antiberty"
    command("export", source, "--allow-pickle", "-o", place)
    return place


@pytest.fixture(scope="module")
def sequences(network, letters):
    """Ids without special tokens, int64 [length]: both chains, then both in a variant, and so on."""
    random = torch.Generator().manual_seed(0)
    chains = dict.fromkeys(re.findall(r'"([A-Z]{100,})"', metadata("antiberty").get_payload()))
    found = [torch.tensor([letters.index(letter) for letter in chain]) for chain in itertools.islice(chains, 2)]
    for chain in found * (VARIANTS - 1):
        ids, places = chain.clone(), torch.randperm(len(chain), generator=random)[: len(chain) // 20]
        ids[places] = MASK
        with torch.inference_mode():
            logits = network(input_ids=around(ids[None])).logits[0, 1 + places, FIRST_LETTER:]
        ids[places] = FIRST_LETTER + torch.multinomial(logits.softmax(-1), 1, generator=random)[:, 0]
        found.append(ids)
    return found


def around(ids):
    """With [CLS] and [SEP]."""
    return torch.nn.functional.pad(torch.nn.functional.pad(ids, (1, 0), value=2), (0, 1), value=3)


@pytest.fixture(scope="module")
def masked(sequences):
    """For each sequence, with each residue masked: ids int32 [length, length + 2], the mask's position, the residue."""
    parts = []
    for own in sequences:
        ids = around(own).repeat(len(own), 1).to(torch.int32).numpy()
        position = np.arange(1, len(own) + 1, dtype=np.int32)
        ids[np.arange(len(own)), position] = MASK
        parts.append((ids, position, own.to(torch.int32).numpy()))
    return parts


@pytest.fixture(scope="module")
def chances(network, masked):
    """The log-probabilities of transformers at each mask of the first sequences, fp32 [length, 25] each."""
    found = []
    for ids, position, _ in masked[: 2 * COMPARED]:
        with torch.inference_mode():
            logits = network(input_ids=torch.from_numpy(ids.astype(np.int64))).logits
        found.append(logits[torch.arange(len(logits)), torch.from_numpy(position).long()].log_softmax(-1).numpy())
    return found


def text(ids, letters):
    return " ".join(letters[number] for number in ids)


def test_mixed_and_fp32_have_the_first_choices_of_transformers_and_few_close_calls(folder, masked, chances):
    assert sum(len(ids) for ids, _, _ in masked) >= 2_000
    opened = open_models(load_exported(folder), choose_device("cpu", is_exact=False), Precision.MIXED)
    fp32 = list(opened.reference.decide_each(masked))
    for found, wanted in zip(fp32, chances, strict=False):
        best = np.sort(wanted, axis=1)
        clear = best[:, -1] - best[:, -2] > 1e-4
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(found.top1[clear], wanted.argmax(axis=1)[clear])
    method = replace(FIRST_CHOICES, asked=lambda sample: sample)
    known = calibrate(method, opened.low_precision, opened.reference, masked, seed=0)
    mixed = Mixed(method, opened.low_precision, opened.reference, known)
    np.testing.assert_array_equal(Decisions.joined(mixed.decide_each(masked)).top1, Decisions.joined(fp32).top1)
    audit, _ = mixed.take_audit()
    assert audit.close <= 0.03 * audit.decided


def test_probe_gives_the_log_probabilities_of_transformers(
    folder, command, sequences, masked, chances, letters, close_to, tmp_path
):
    wanted = [
        (text(ids[1:-1], letters), own, logprobs)
        for part, found in zip(masked, chances, strict=False)
        for ids, own, logprobs in zip(part[0], part[2], found, strict=True)
    ]
    lines = [f"{sentence},{letters[own]}" for sentence, own, _ in wanted]
    (tmp_path / "own.csv").write_text("\n".join(["sentence,target", *lines]) + "\n", "utf-8")
    command("probe", folder, tmp_path / "own.csv", "-o", tmp_path / "run")
    rows = command("show", tmp_path / "run", "--json")["sentences"]
    assert len(rows) == len(wanted)
    for row, (_, own, logprobs) in zip(sorted(rows, key=lambda row: row["row"]), wanted, strict=True):
        assert close_to(row["logprob"], logprobs[own]), row
        assert close_to(row["answer_logprob"], logprobs.max()), row


def test_predict_shows_the_most_probable_residues(folder, command, masked, chances, letters):
    for (ids, _, _), logprobs in zip(masked, chances, strict=False):
        (document,) = command("predict", folder, text(ids[20][1:-1], letters), "-k", "3", "--json")
        best = np.argsort(-logprobs[20])[:3]
        assert [own["token"] for own in document["top"]] == [letters[own] for own in best]
        assert [own["probability"] for own in document["top"]] == pytest.approx(np.exp(logprobs[20][best]), rel=1e-4)


def test_likelihood_knows_a_mutation(folder, command, sequences, masked, chances, letters, close_to, tmp_path):
    """Pseudo-log-likelihoods are the sums of a plain loop; what the fold needs is better than its nearest neighbour.

    The first cysteine binds the second one of the fold: with a serine in its place, a sequence is less probable.
    """
    cysteine, serine = letters.index("C"), letters.index("S")
    pairs, sums = [], []
    for own, (_, position, residue), logprobs in itertools.islice(zip(sequences, masked, chances, strict=False), 2):
        ids = own.tolist()
        place = ids.index(cysteine)
        pairs.append(f"{text(ids, letters)},{text([*ids[:place], serine, *ids[place + 1 :]], letters)}")
        sums.append(logprobs[position - 1, residue].sum())
    (tmp_path / "pairs.csv").write_text("\n".join(["sentence_good,sentence_bad", *pairs]) + "\n", "utf-8")
    command("likelihood", folder, tmp_path / "pairs.csv", "-o", tmp_path / "run")
    rows = command("show", tmp_path / "run", "--json")["sentences"]
    for row, wanted in zip(sorted(rows, key=lambda row: int(row["item"])), sums, strict=True):
        assert close_to(row["good_logprob"], wanted), row
        assert not row["failed"], row
