"""A message is one that a person reads, whatever it quotes."""

import pickle

import pytest
from negengine.engine.basics.errors import InputError, check_number, first_line, shortened


def test_a_message_of_any_length_keeps_what_and_what_to_do_also_in_another_process():
    message = "/home/me/runs/roberta-base/triplets.parquet: missing, or changed since the run wrote it"
    assert str(InputError(message)) == message
    error = InputError(f"no exported model {'x' * 5_000}: run `negengine export` first")
    assert str(error) == f"no exported model {'x' * 106}…{'x' * 52}: run `negengine export` first"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301
    said = shortened("the file: " + "word " * 10_000 + "; give another one")
    assert (said[:14], said[-18:], len(said)) == ("the file: word", "; give another one", 600)
    assert shortened(said) == said


def test_a_number_beyond_its_bounds_is_told_with_them():
    for value in (1, 10, None):
        check_number("--draws", value, 1, 10)
    for value, said in {0: "0", 11: "11", 10**5_000: "of more than 20 digits"}.items():
        with pytest.raises(InputError, match=f"^--draws {said}: give a number from 1 to 10$"):
            check_number("--draws", value, 1, 10)

    assert (first_line(ValueError("\n  what\nmore")), first_line(ValueError())) == ("what", "ValueError")
