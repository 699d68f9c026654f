"""AntiBERTy, a published masked model of antibody sequences with weights from a pickle (`make real`).

Its sequences begin as the heavy chain of trastuzumab (Protein Data Bank, 1N8Z; its data are CC0), and each residue is
drawn anew once, with the chances that the model gives. A letter is an amino acid; the other tokens are special ones.
"""

import json
import shutil
from dataclasses import replace

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

CHAIN = "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADS"
SEQUENCES, STEP = 32, 9
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
    """Ids without special tokens, int64 [sequences, length]; some residues are drawn at once."""
    random = torch.Generator().manual_seed(0)
    ids = torch.tensor([[letters.index(letter) for letter in CHAIN]] * SEQUENCES)
    for places in torch.randperm(len(CHAIN), generator=random).split(STEP):
        ids[:, places] = MASK
        with torch.inference_mode():
            logits = network(input_ids=around(ids)).logits[:, 1 + places, FIRST_LETTER:]
        drawn = torch.multinomial(logits.softmax(-1).flatten(0, 1), 1, generator=random)
        ids[:, places] = FIRST_LETTER + drawn.reshape(SEQUENCES, -1)
    return ids


def around(ids):
    """With [CLS] and [SEP]."""
    return torch.nn.functional.pad(torch.nn.functional.pad(ids, (1, 0), value=2), (0, 1), value=3)


@pytest.fixture(scope="module")
def masked(sequences):
    """Each sequence with each residue masked: ids int32 [n, length + 2], the mask's position, the residue."""
    rows, columns = (own.ravel() for own in np.indices(sequences.shape))
    ids = around(sequences).numpy()[rows].astype(np.int32)
    expected = sequences.numpy()[rows, columns].astype(np.int32)
    ids[np.arange(len(ids)), columns + 1] = MASK
    return ids, (columns + 1).astype(np.int32), expected


@pytest.fixture(scope="module")
def chances(network, masked):
    """The log-probabilities of transformers at each mask, fp32 [n, 25]."""
    ids, position, _ = masked
    found = []
    for begin in range(0, len(ids), 63):
        part = slice(begin, begin + 63)
        with torch.inference_mode():
            logits = network(input_ids=torch.from_numpy(ids[part].astype(np.int64))).logits
        found.append(logits[torch.arange(len(logits)), torch.from_numpy(position[part]).long()].log_softmax(-1))
    return torch.cat(found).numpy()


def text(ids, letters):
    return " ".join(letters[number] for number in ids)


def test_mixed_and_fp32_have_the_first_choices_of_transformers_and_few_close_calls(folder, masked, chances):
    asked = [tuple(part) for part in zip(*(np.array_split(own, 8) for own in masked), strict=True)]
    opened = open_models(load_exported(folder), choose_device("cpu", is_exact=False), Precision.MIXED)
    fp32 = Decisions.joined(opened.reference.decide_each(asked))
    best = np.sort(chances, axis=1)
    assert len(best) >= 2_000
    clear = best[:, -1] - best[:, -2] > 1e-4
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(fp32.top1[clear], chances.argmax(axis=1)[clear])
    method = replace(FIRST_CHOICES, asked=lambda sample: sample)
    known = calibrate(method, opened.low_precision, opened.reference, asked, seed=0)
    mixed = Mixed(method, opened.low_precision, opened.reference, known)
    np.testing.assert_array_equal(Decisions.joined(mixed.decide_each(asked)).top1, fp32.top1)
    audit, _ = mixed.take_audit()
    # Residues that are drawn from the model are less certain than those of nature: 3.6 % of 504 were close calls.
    assert audit.close <= 0.05 * audit.decided


def test_probe_gives_the_log_probabilities_of_transformers(
    folder, command, sequences, masked, chances, letters, close_to, tmp_path
):
    ids, _, expected = masked
    lines = [f"{text(row[1:-1], letters)},{letters[own]}" for row, own in zip(ids, expected, strict=True)]
    (tmp_path / "own.csv").write_text("\n".join(["sentence,target", *lines]) + "\n", "utf-8")
    command("probe", folder, tmp_path / "own.csv", "-o", tmp_path / "run")
    rows = command("show", tmp_path / "run", "--json")["sentences"]
    assert len(rows) == len(ids)
    for row, logprobs, own in zip(sorted(rows, key=lambda row: row["row"]), chances, expected, strict=True):
        assert close_to(row["logprob"], logprobs[own]), row
        assert close_to(row["answer_logprob"], logprobs.max()), row


def test_predict_shows_the_most_probable_residues(folder, command, masked, chances, letters):
    for number in (20, 500):
        (document,) = command("predict", folder, text(masked[0][number][1:-1], letters), "-k", "3", "--json")
        best = np.argsort(-chances[number])[:3]
        assert [own["token"] for own in document["top"]] == [letters[own] for own in best]
        assert [own["probability"] for own in document["top"]] == pytest.approx(np.exp(chances[number][best]), rel=1e-4)


def test_likelihood_knows_a_mutation(folder, command, sequences, masked, chances, letters, close_to, tmp_path):
    """Pseudo-log-likelihoods are the sums of a plain loop; a residue that the model drew is better than a rare one.

    The cysteine before the first loop binds the second one of the fold: with a serine in its place, a sequence is less
    probable.
    """
    cysteine, serine = letters.index("C"), letters.index("S")
    sums = np.take_along_axis(chances, masked[2][:, None].astype(np.int64), 1).reshape(sequences.shape).sum(axis=1)
    pairs, originals = [], []
    for number, ids in enumerate(sequences.tolist()):
        if cysteine in ids:
            place = ids.index(cysteine)
            pairs.append(f"{text(ids, letters)},{text([*ids[:place], serine, *ids[place + 1 :]], letters)}")
            originals.append(sums[number])
    assert len(pairs) > SEQUENCES / 2
    (tmp_path / "pairs.csv").write_text("\n".join(["sentence_good,sentence_bad", *pairs]) + "\n", "utf-8")
    command("likelihood", folder, tmp_path / "pairs.csv", "-o", tmp_path / "run")
    rows = command("show", tmp_path / "run", "--json")["sentences"]
    for row, wanted in zip(sorted(rows, key=lambda row: int(row["item"])), originals, strict=True):
        assert close_to(row["good_logprob"], wanted), row
    assert np.mean([not row["failed"] for row in rows]) > 0.9
