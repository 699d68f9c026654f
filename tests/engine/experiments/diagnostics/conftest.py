"""Small tables made by hand, and the real ones."""

import pytest
from negengine.engine.experiments.diagnostics.contexts import read_diagnostics

TABLES = {
    "CPRAG-102": """\
item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint
0\tThe dog ran.\tAt last it came to the\tdog\tcat\tcar\tH
1\tThe red car. It was new.\tShe\ttree\tdog\thouse\tL
""",
    "ROLE-88": """\
item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)
1-b\tthe man forgot which waitress the customer had \ttipped|paid for\t0.2\tserved\t0\t0
1-a\tthe man forgot which customer the waitress had \tserved\t0.6\tserved\t0.6\t0.6
""",
    "NEG-136-SIMP": """\
item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg
0\tA hammer is (a|an)\tA hammer is not (a|an)\ttool\tinsect
""",
    "NEG-136-NAT": """\
item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\tlicensing
0\tOld cars are\tOld cars aren't\tslow\tfast\tY
1\tNew cars are\tNew cars aren't\tfast\tslow\tN
""",
}


def write_tables(folder, **changes):
    """The tables above in a folder, some of them with other text: (old, new) by their names with underscores."""
    for name, text in TABLES.items():
        old, new = changes.get(name.replace("-", "_"), ("", ""))
        assert old in text
        (folder / f"{name}.tsv").write_bytes(text.replace(old, new, 1).encode("utf-8", "surrogateescape"))
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    return read_diagnostics(write_tables(tmp_path_factory.mktemp("small")))
