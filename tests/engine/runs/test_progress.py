import errno
import io
import sys
import threading

import pytest
from negengine.engine.runs import progress
from negengine.engine.runs.progress import Reporter


class Clock:
    """Time passes when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def lines_of(steps, clock, *, total=1000, done=0, **options):
    """The lines of a run that does (seconds, units, or units and sentences) step by step."""
    stream = io.StringIO()
    with Reporter(stream, clock=clock).meter("select", total, done, **options) as meter:
        for seconds, *n in steps:
            clock.now += seconds
            meter.advance(*n)
    return stream.getvalue().splitlines()


# ---------------------------------------------------------------- lines


def test_a_line_is_said_on_stderr(capsys):
    Reporter().say("loading the model")
    assert capsys.readouterr() == ("", "loading the model\n")


def test_details_are_said_if_asked_for(capsys):
    Reporter().detail("seed: 0")
    Reporter(verbose=True).detail("seed: 1")
    assert capsys.readouterr().err == "seed: 1\n"


def test_a_line_is_shown_and_not_obeyed(capsys):
    Reporter().say("[/red] :smile: \x1b[2J")
    assert capsys.readouterr().err == "[/red] :smile: \\x1b[2J\n"


def test_a_silent_reporter_says_and_shows_nothing(capsys):
    reporter = Reporter(silent=True, verbose=True)
    reporter.say("one")
    reporter.detail("two")
    with reporter.meter("select", 10) as meter, meter.doing("loading the model"):
        meter.advance(10)
        reporter.say("three")
    assert capsys.readouterr() == ("", "")
    assert meter.done == 10


# ---------------------------------------------------------------- a meter in a log


def test_a_log_begins_with_what_is_to_be_done(clock):
    assert lines_of([], clock)[0] == "select: 1,000 sentences"


def test_a_resumed_run_says_what_is_done_already(clock):
    assert lines_of([(1, 1)], clock, done=500)[0] == "select: 1,000 sentences, 500 are done already"


def test_a_line_has_share_rate_and_time_left(clock):
    # 300 in 10 seconds: 30 a second; 700 left take 23 seconds.
    assert lines_of([(10, 300)], clock)[1] == "select: 300 of 1,000 sentences (30.0 %), 30/s, 23 s left"


def test_lines_are_ten_seconds_apart(clock):
    lines = lines_of([(1, 10)] * 35, clock)
    assert [line.split(" of ")[0] for line in lines[1:]] == [f"select: {n}" for n in (100, 200, 300, 350)]


def test_the_seconds_between_lines_can_be_chosen(clock):
    stream = io.StringIO()
    with Reporter(stream, every=2, clock=clock).meter("select", 100) as meter:
        for _ in range(4):
            clock.now += 1
            meter.advance(10)
    assert stream.getvalue().count("\n") == 1 + 2 + 1


def test_a_short_run_has_a_line_at_the_start_and_one_at_the_end(clock):
    assert lines_of([(1, 500), (1, 500)], clock) == [
        "select: 1,000 sentences",
        "select: 1,000 of 1,000 sentences (100 %), 500/s, done in 2 s",
    ]


def test_the_end_is_told_once(clock):
    assert len(lines_of([(10, 1000)], clock)) == 2


def test_what_threads_tell_after_the_end_is_counted_and_not_shown(clock):
    """After an interrupt the last line must be the one with the command that resumes."""
    stream = io.StringIO()
    with Reporter(stream, clock=clock).meter("select", 1000) as meter:
        clock.now += 20
        meter.advance(300)
    lines = stream.getvalue()
    clock.now += 20
    meter.advance(100)
    assert meter.done == 400
    assert stream.getvalue() == lines


def test_what_an_earlier_process_did_does_not_count_for_the_rate(clock):
    lines = lines_of([(10, 10)], clock, done=500)
    assert lines[1] == "select: 510 of 1,000 sentences (51.0 %), 1.0/s, 8 min 10 s left"


def test_hours_are_told_in_hours(clock):
    assert lines_of([(10, 100)], clock, total=100_000)[1].endswith("10/s, 2 h 46 min left")


def test_it_is_not_done_before_the_end(clock):
    assert "(99.9 %)" in lines_of([(10, 999_999)], clock, total=1_000_000)[1]


def test_a_run_with_nothing_to_do_says_nothing(clock):
    assert lines_of([], clock, done=1000) == []


def test_an_empty_run_has_no_share_to_divide(clock):
    assert lines_of([(1, 0)], clock, total=0) == []


def interrupted(reporter, clock, *, after):
    with reporter.meter("select", 1000) as meter:
        clock.now += 2
        meter.advance(after)
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("after", "end"),
    [
        (100, "select: 100 of 1,000 sentences (10.0 %), 50/s, stopped after 2 s"),
        (0, "select: 0 of 1,000 sentences (0.0 %), stopped after 2 s"),
    ],
)
def test_an_interrupted_run_says_how_far_it_got(clock, after, end):
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        interrupted(Reporter(stream, clock=clock), clock, after=after)
    assert stream.getvalue().splitlines()[-1] == end


def test_a_line_said_meanwhile_stands_in_a_line_of_its_own(clock):
    stream = io.StringIO()
    reporter = Reporter(stream, clock=clock)
    with reporter.meter("select", 1000):
        reporter.say("int8 decides [/red] alone beyond 0.27")
    assert stream.getvalue().splitlines()[1] == "int8 decides [/red] alone beyond 0.27"


def test_stderr_is_the_default(clock, capsys):
    with Reporter(clock=clock).meter("select", 10) as meter:
        clock.now += 1
        meter.advance(10)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == "select: 10 of 10 sentences (100 %), 10/s, done in 1 s"


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"])
def test_colours_asked_for_make_no_terminal(clock, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert lines_of([(10, 300)], clock)[1] == "select: 300 of 1,000 sentences (30.0 %), 30/s, 23 s left"


# ---------------------------------------------------------------- preparation


def test_it_says_at_once_what_is_prepared(clock):
    stream = io.StringIO()
    with Reporter(stream, clock=clock).meter("select", 1000) as meter, meter.doing("loading the model"):
        assert stream.getvalue().splitlines() == ["select: 1,000 sentences", "select: loading the model"]
        assert meter.speed == "loading the model"


def test_preparation_does_not_count_for_the_rate(clock):
    stream = io.StringIO()
    with Reporter(stream, clock=clock).meter("select", 1000) as meter:
        with meter.doing("loading the model"):
            clock.now += 90
        clock.now += 10
        meter.advance(300)
        assert meter.speed == "30/s, 23 s left"
    assert stream.getvalue().endswith("30/s, done in 1 min 40 s\n")


# ---------------------------------------------------------------- units that take an unknown number of sentences


def test_the_rate_counts_the_sentences_that_were_really_run(clock):
    # A lazy run: 1,000 of 2,000 pairs took 312 sentences in 10 seconds.
    lines = lines_of([(5, 0, 200), (5, 1000, 112)], clock, total=2000, unit="pairs")
    assert lines[0] == "select: 2,000 pairs"
    assert lines[1] == "select: 1,000 of 2,000 pairs (50.0 %), 312 sentences, 31/s, 10 s left"


def test_sentences_that_complete_no_unit_move_the_meter(clock):
    lines = lines_of([(10, 0, 500)], clock, total=60, unit="pairs")
    assert lines[1] == "select: 0 of 60 pairs (0.0 %), 500 sentences, 50/s"


def test_an_estimated_total_is_called_one(clock):
    lines = lines_of([(10, 1200), (10, 12)], clock, total=1000, estimated=True)
    assert lines == [
        "select: about 1,000 sentences",
        "select: 1,200 of about 1,200 sentences (99.9 %), 120/s",
        "select: 1,212 of about 1,212 sentences (99.9 %), 61/s",
        "select: 1,212 sentences (100 %), 61/s, done in 20 s",
    ]


def test_work_that_is_done_again_makes_the_whole_larger(clock):
    stream = io.StringIO()
    with Reporter(stream, clock=clock).meter("select", 100) as meter:
        clock.now += 10
        meter.advance(100)
        meter.extend(50)
        meter.advance(25)
        assert meter.count == "125 of 150 sentences"


def test_several_threads_may_advance():
    with Reporter(silent=True).meter("select", 40_000) as meter:
        threads = [threading.Thread(target=lambda: [meter.advance(1) for _ in range(10_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (meter.done, meter.sentences) == (40_000, 40_000)


# ---------------------------------------------------------------- a terminal


def shown_on_a_terminal(clock, monkeypatch, **options) -> str:
    monkeypatch.setenv("COLUMNS", "140")
    stream = Terminal()
    reporter = Reporter(stream, clock=clock)
    with reporter.meter("select", 1000, **options) as meter:
        with meter.doing("loading [/red] the model"):
            pass
        clock.now += 10
        meter.advance(300)
        reporter.say("int8 decides [/red] alone beyond 0.27")
        clock.now += 10
        meter.advance(700)
    return stream.getvalue()


@pytest.mark.parametrize("expected", ["select", "━", "100 %", "1,000/1,000", "50/s", "done in 20 s"])
def test_a_terminal_has_a_bar_with_share_count_and_rate(clock, monkeypatch, expected):
    assert expected in shown_on_a_terminal(clock, monkeypatch)


def test_a_line_on_a_terminal_is_shown_as_it_is(clock, monkeypatch):
    assert "int8 decides [/red] alone beyond 0.27" in shown_on_a_terminal(clock, monkeypatch)


def test_a_terminal_that_cannot_move_its_cursor_has_lines(clock, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Reporter(stream, clock=clock).meter("select", 1000) as meter:
        clock.now += 10
        meter.advance(300)
    assert stream.getvalue().splitlines()[1] == "select: 300 of 1,000 sentences (30.0 %), 30/s, 23 s left"


# ---------------------------------------------------------------- a notebook


@pytest.mark.parametrize("has_widgets", [True, False])
def test_a_notebook_has_a_bar_where_widgets_are_installed(clock, monkeypatch, capsys, has_widgets):
    """rich shows nothing there without them."""
    shown = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(progress, "find_spec", lambda name: has_widgets or None)
    monkeypatch.setattr(progress.Progress, "update", lambda self, task, **fields: shown.append(fields["speed"]))
    monkeypatch.setattr(progress.Progress, "start", lambda self: None)
    with Reporter(clock=clock).meter("select", 1000) as meter:
        clock.now += 10
        meter.advance(300)
    said = "30/s, done in 10 s"
    assert (shown[-1:] == [said], said in capsys.readouterr().err) == (has_widgets, not has_widgets)


def test_another_stream_in_a_notebook_gets_lines(clock, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert lines_of([(10, 300)], clock)[0] == "select: 1,000 sentences"


# ---------------------------------------------------------------- stderr that is gone


class Broken(io.StringIO):
    def write(self, _):
        raise OSError(errno.EIO, "Input/output error")


class BrokenTerminal(Broken):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Broken, BrokenTerminal])
def test_a_run_goes_on_when_stderr_is_gone(clock, stream):
    reporter = Reporter(stream(), clock=clock)
    reporter.say("before")
    with reporter.meter("select", 1000) as meter:
        clock.now += 20
        meter.advance(300)
        reporter.say("still here")
    assert meter.done == 300


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_run_goes_on_when_stderr_is_closed_on_the_way(clock, stream):
    opened = stream()
    with Reporter(opened, clock=clock).meter("select", 1000) as meter:
        opened.close()
        clock.now += 20
        meter.advance(300)
    assert meter.done == 300


def test_a_run_goes_on_when_stderr_was_closed_from_the_start(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Reporter(clock=clock).meter("select", 1000) as meter:
        meter.advance(300)
    assert meter.done == 300


def test_the_log_of_a_long_run_stays_short(clock):
    """Ten hours, a batch each second."""
    lines = lines_of([(1, 1)] * 36_000, clock, total=36_000)
    early, late = (sum(f"({share}." in line for line in lines) for share in (0, 90))
    assert 20 < len(lines) < 200
    assert early > 20
    assert late <= 3


def test_a_bar_of_80_columns_is_not_cut(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    with Reporter(stream, clock=clock).meter("select", 364_000, unit="pairs", estimated=True) as meter:
        clock.now += 1000
        meter.advance(36_400, 7_654_321)
    assert "7,654/s" in stream.getvalue()
    assert "…" not in stream.getvalue()
