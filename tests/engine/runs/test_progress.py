"""Messages and progress: lines in a log, a bar in a terminal and a notebook; a run goes on without stderr."""

import errno
import io
import os
import sys
from unittest.mock import Mock

import pytest
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.stderr import Stderr


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that only the test moves; nothing in the environment speaks of a terminal."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    clock = Mock(side_effect=lambda: clock.now)
    clock.now = 1000.0
    return clock


def lines_of(steps, clock, *, total=1000, done=0, stream=None, **options):
    stream = stream or io.StringIO()
    with Reporter(stream, clock=clock).meter("select", total, done, **options) as meter:
        for seconds, *n in steps:
            clock.now += seconds
            meter.advance(*n)
    return stream.getvalue().splitlines()


def test_lines_go_to_stderr_as_they_are_and_details_if_asked_for(capsys):
    Reporter().say("[/red] :smile: \x1b[2J")
    Reporter().detail("seed: 0")
    Reporter(verbose=True).detail("seed: 1")
    silent = Reporter(silent=True, verbose=True)
    silent.detail("one")
    with silent.meter("select", 10) as meter, meter.doing("loading the model"):
        meter.advance(10)
        silent.say("two")
    assert meter.done == 10
    assert capsys.readouterr() == ("", "[/red] :smile: \\x1b[2J\nseed: 1\n")


def test_the_first_sentences_which_are_slow_foretell_no_time(clock):
    with Reporter(io.StringIO(), clock=clock).meter("select", 1000) as meter:
        told = []
        for seconds, sentences in ((4.5, 7), (1.5, 93)):
            clock.now += seconds
            meter.advance(sentences)
            told.append(meter.line)
    assert told == [
        "select: 7 of 1,000 sentences (0.7 %), 1.6/s",
        "select: 100 of 1,000 sentences (10.0 %), 17/s, 54 s left",
    ]


OF, LAZY = "of 1,000 sentences", "1,000 of 2,000 pairs (50.0 %), 312 sentences, 16/s"
LONG = "999,999 of 1,000,000 sentences (99.9 %), 111,111/s, done in 9 s"


@pytest.mark.parametrize(
    ("steps", "options", "lines"),  # seconds, units and sentences; options; the lines after the first, after `select: `
    [
        # 300 in 10 seconds: 30 a second; 700 left take 23 seconds
        ([(10, 300)], {}, [f"300 {OF} (30.0 %), 30/s, {end}" for end in ("23 s left", "done in 10 s")]),
        (  # what an earlier process did does not count for the rate
            [(10, 10), (490, 490)],
            {"done": 500},
            [f"510 {OF} (51.0 %), 1.0/s, 8 min 10 s left", f"1,000 {OF} (100 %), 1.0/s, done in 8 min 20 s"],
        ),
        ([(9, 999_999)], {"total": 1_000_000}, [LONG]),  # never 100 % before the end
        ([], {"done": 1000}, []),  # nothing to do
        (  # a lazy run: 1,000 of 2,000 pairs took 312 sentences
            [(5, 0, 200), (5, 0, 0), (10, 1000, 112)],
            {"total": 2000, "unit": "pairs"},
            ["0 of 2,000 pairs (0.0 %), 200 sentences, 20/s", f"{LAZY}, 20 s left", f"{LAZY}, done in 20 s"],
        ),
        ([(5, 1200)], {}, ["1,200 of 1,200 sentences (100 %), 240/s, done in 5 s"]),  # more than was said
    ],
)
def test_the_lines_of_a_log(clock, steps, options, lines):
    first = f"{options.get('total', 1000):,} {options.get('unit', 'sentences')}"
    first += ", 500 are done already" if options.get("done") else ""
    assert lines_of(steps, clock, **options) == [f"select: {line}" for line in ([first, *lines] if lines else [])]


def test_lines_are_some_seconds_apart_and_the_log_of_a_long_run_stays_short(clock):
    lines = lines_of([(1, 10)] * 35, clock)
    assert [line.split(" of ")[0] for line in lines[1:]] == [f"select: {n}" for n in (100, 200, 300, 350)]
    lines = lines_of([(1, 1)] * 36_000, clock, total=36_000)  # ten hours
    early, late = (sum(f"({share}." in line for line in lines) for share in (0, 90))
    assert (20 < len(lines) < 200, early > 20, late <= 3) == (True, True, True)


@pytest.mark.parametrize(("after", "share"), [(100, f"100 {OF} (10.0 %), 50/s"), (0, f"0 {OF} (0.0 %)")])
def test_an_interrupted_run_says_how_far_it_got_and_nothing_after_that(clock, after, share):
    """Threads tell of their last batches later, and the last line must be the one with the command that resumes."""
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt), Reporter(stream, clock=clock).meter("select", 1000) as meter:  # noqa: PT012
        clock.now += 2
        meter.advance(after)
        raise KeyboardInterrupt
    clock.now += 20
    meter.advance(100)
    assert meter.done == after + 100
    assert stream.getvalue().splitlines()[-1] == f"select: {share}, stopped after 2 s"


def test_a_terminal_has_a_bar_with_share_count_and_rate_of_which_80_columns_cut_nothing(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    reporter = Reporter(stream := Terminal(), clock=clock)
    with reporter.meter("select", 364_000, unit="pairs") as meter:
        with meter.doing("loading [/red] the model"):
            pass
        clock.now += 2000
        meter.advance(364_000, 7_654_321)
        reporter.say("int8 decides [/red] alone beyond 0.27")
    shown = stream.getvalue()
    for expected in ("100 %", "364,000/364,000", "3,827/s, done in 33 min 20 s", "━", "int8 decides [/red]"):
        assert expected in shown
    assert "…" not in shown


@pytest.mark.parametrize("kind", ["broken", io.StringIO, Terminal, None])
def test_a_run_goes_on_when_stderr_is_broken_or_closed_or_never_was(clock, monkeypatch, kind):
    monkeypatch.setattr(sys, "stderr", None)
    stream = kind and (kind() if kind != "broken" else Terminal())
    if kind == "broken":
        stream.write = Mock(side_effect=OSError(errno.EIO, "Input/output error"))
    reporter = Reporter(stream, clock=clock)
    reporter.say("before")
    with reporter.meter("select", 1000) as meter:
        if kind in {io.StringIO, Terminal}:
            stream.close()
        clock.now += 20
        meter.advance(300)
        reporter.say("still here")
    assert meter.done == 300


def test_a_file_gets_the_text_at_once_and_a_reader_who_has_stopped_or_gone_is_not_waited_for(tmp_path):
    with (tmp_path / "log").open("w", encoding="latin-1") as log:
        Stderr(log).write("≈ é\n" * 1000)  # what the encoding lacks is escaped
        assert (tmp_path / "log").read_bytes() == b"\\u2248 \xe9\n" * 1000
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as target:
        with os.fdopen(reader, "rb", buffering=0) as source:
            stderr = Stderr(target)
            for _ in range(20):
                stderr.write("x" * 100_000)  # more than any pipe holds; would block for ever
            os.set_blocking(reader, False)
            assert set(source.read()) == {ord("x")}
            stderr.write("again\n")
            assert source.read().endswith(b"again\n")
        assert stderr.write("lost") == 4
