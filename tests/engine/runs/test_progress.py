import errno
import io

import pytest
from negengine.engine.runs.progress import metered


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


def lines_of(steps, clock, *, total=1000, done=0):
    """The lines of a run that does (seconds, sentences) step by step."""
    stream = io.StringIO()
    with metered("select", total, done, stream=stream, clock=clock) as meter:
        for seconds, n in steps:
            clock.now += seconds
            meter.advance(n)
    return stream.getvalue().splitlines()


# ---------------------------------------------------------------- plain lines


def test_a_line_tells_share_rate_and_time_left(clock):
    # 300 in 10 seconds: 30 a second; 700 left take 23 seconds.
    assert lines_of([(10, 300)], clock) == ["select: 300 of 1,000 (30.0 %), 30/s, 23 s left"]


def test_lines_are_ten_seconds_apart(clock):
    lines = lines_of([(1, 10)] * 35, clock)
    assert [line.split(" of ")[0] for line in lines] == [f"select: {n}" for n in (100, 200, 300, 350)]


def test_a_short_run_tells_its_end_alone(clock):
    assert lines_of([(1, 500), (1, 500)], clock) == ["select: 1,000 of 1,000 (100 %), 500/s, done in 2 s"]


def test_the_end_is_told_once(clock):
    assert len(lines_of([(10, 1000)], clock)) == 1


def test_what_an_earlier_process_did_does_not_count_for_the_rate(clock):
    assert lines_of([(10, 10)], clock, done=500) == ["select: 510 of 1,000 (51.0 %), 1.0/s, 8 min 10 s left"]


def test_hours_are_told_in_hours(clock):
    assert lines_of([(10, 100)], clock, total=100_000)[0].endswith("10/s, 2 h 46 min left")


def test_it_is_not_done_before_the_end(clock):
    assert "(99.9 %)" in lines_of([(10, 999_999)], clock, total=1_000_000)[0]


def test_a_run_with_nothing_to_do_says_nothing(clock):
    assert lines_of([], clock, done=1000) == []


def test_an_empty_run_has_no_share_to_divide(clock):
    assert lines_of([(1, 0)], clock, total=0) == []


def test_an_interrupted_run_tells_how_far_it_got(clock):
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        interrupted(stream, clock)
    assert stream.getvalue() == "select: 100 of 1,000 (10.0 %), 50/s, 18 s left\n"


def interrupted(stream, clock):
    with metered("select", 1000, stream=stream, clock=clock) as meter:
        clock.now += 2
        meter.advance(100)
        raise KeyboardInterrupt


def test_a_note_stands_in_a_line_of_its_own(clock):
    stream = io.StringIO()
    with metered("select", 1000, stream=stream, clock=clock) as meter:
        meter.note("int8 decides [/red] alone beyond 0.27")
    assert stream.getvalue() == "int8 decides [/red] alone beyond 0.27\n"


def test_stderr_is_the_default(clock, capsys):
    with metered("select", 10, clock=clock) as meter:
        clock.now += 1
        meter.advance(10)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "select: 10 of 10 (100 %), 10/s, done in 1 s\n")


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"])
def test_colours_asked_for_make_no_terminal(clock, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert lines_of([(10, 300)], clock) == ["select: 300 of 1,000 (30.0 %), 30/s, 23 s left"]


# ---------------------------------------------------------------- a terminal


def test_a_terminal_has_a_bar_with_share_count_rate_and_time_left(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with metered("select", 1000, stream=stream, clock=clock) as meter:
        clock.now += 10
        meter.advance(300)
    for expected in ("select", "━", "30.0 %", "300/1,000", "30/s, 23 s left"):
        assert expected in stream.getvalue()


def test_a_note_on_a_terminal_is_shown_as_it_is(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with metered("select", 1000, stream=stream, clock=clock) as meter:
        meter.note("int8 decides [/red] alone beyond 0.27")
    assert "int8 decides [/red] alone beyond 0.27" in stream.getvalue()


def test_a_terminal_that_cannot_move_its_cursor_has_lines(clock, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with metered("select", 1000, stream=stream, clock=clock) as meter:
        clock.now += 10
        meter.advance(300)
    assert stream.getvalue() == "select: 300 of 1,000 (30.0 %), 30/s, 23 s left\n"


# ---------------------------------------------------------------- stderr that is gone


class Broken(io.StringIO):
    def write(self, _):
        raise OSError(errno.EIO, "Input/output error")


class BrokenTerminal(Broken):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Broken, BrokenTerminal])
def test_a_run_goes_on_when_stderr_is_gone(clock, stream):
    with metered("select", 1000, stream=stream(), clock=clock) as meter:
        clock.now += 20
        meter.advance(300)
        meter.note("still here")
    assert meter.done == 300


def test_a_run_goes_on_when_stderr_is_closed_on_the_way(clock):
    stream = io.StringIO()
    with metered("select", 1000, stream=stream, clock=clock) as meter:
        stream.close()
        clock.now += 20
        meter.advance(300)
    assert meter.done == 300
