"""The tables of lm-diagnostics, and what is wrong with a bad one, in one line."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.diagnostics.files import read_diagnostics


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("CPRAG_102", "\tconstraint\n", "\tlevel\n", r"CPRAG-102\.tsv:1: no column 'constraint'; the header has item"),
        ("CPRAG_102", "\tH\n", "\tM\n", r"CPRAG-102\.tsv:2: constraint is 'M'; it must be H or L"),
        ("CPRAG_102", "\tdog\t", "\t \t", r"CPRAG-102\.tsv:2: expected is ' '; a text is needed"),
        ("CPRAG_102", "1\tThe", "0\tThe", r"CPRAG-102\.tsv:3: item 0 is also in .*CPRAG-102\.tsv:2"),
        ("CPRAG_102", "The dog", "The \udce9", r"CPRAG-102\.tsv:2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        ("CPRAG_102", "\tShe\t", "\tShe [MASK]\t", r"CPRAG-102\.tsv:3: context_s2 has a \[MASK\]; it must end"),
        ("CPRAG_102", "\tL\n", "\n", r"CPRAG-102\.tsv:3: 6 fields, but the header has 7"),
        ("ROLE_88", "1-a", "2-a", r"ROLE-88\.tsv:2: item 1-b has no counterpart 1-a"),
        ("ROLE_88", "1-a", "1", r"ROLE-88\.tsv:3: item is '1'; it must be a number and -a or -b"),
        ("ROLE_88", "0.6\tserved", "0.6\tfed", r"ROLE-88\.tsv:2: target is 'served', but that of 1-a is 'fed'"),
        ("ROLE_88", "0.2", "nan", r"ROLE-88\.tsv:2: exp_cloze is 'nan'; a number is needed"),
        ("ROLE_88", "tipped|", "|", r"ROLE-88\.tsv:2: expected is '\|paid for'; there must be words on both sides of"),
        ("ROLE_88", "which waitress", "a waitress", r"ROLE-88\.tsv:2: context is .*; it must end in `which … the … ha"),
        ("NEG_136_NAT", "\tN\n", "\tno\n", r"NEG-136-NAT\.tsv:3: licensing is 'no'; it must be Y or N"),
    ],
)
def test_a_bad_table_is_refused_with_its_place(write, tmp_path, name, old, new, message):
    with pytest.raises(InputError, match=message) as caught:
        read_diagnostics(write(tmp_path, **{name: (old, new)}))
    assert "\n" not in str(caught.value)


def test_one_file_or_one_name_reads_one_data_set(write, tmp_path):
    write(tmp_path)
    one, other = read_diagnostics(tmp_path / "ROLE-88.tsv"), read_diagnostics(tmp_path, ["ROLE-88"])
    assert one == other
    assert len(one.reversals) == 2
    assert (one.pragmatic, one.simple, one.natural) == ((), (), ())
    (tmp_path / "ROLE-88.tsv").rename(tmp_path / "items.tsv")
    with pytest.raises(InputError, match=r"items\.tsv: the file must be named CPRAG-102\.tsv or ROLE-88\.tsv"):
        read_diagnostics(tmp_path / "items.tsv")
    with pytest.raises(InputError, match=r"there is no ROLE-88\.tsv in it; give the folder of lm-diagnostics"):
        read_diagnostics(tmp_path)
