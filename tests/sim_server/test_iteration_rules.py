"""Which of a rank's marks end an iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sim_server.errors import UsageError
from sim_server.log.iterations import RankMarks, Rule, choose, period
from sim_server.records import MarkerKind
from sim_server.settings import Choice, parse_choice

KINDS = {
    "B": MarkerKind.BACKWARD,
    "O": MarkerKind.OPTIMIZER_STEP,
    "C": MarkerKind.CLOCK_READ,
    "P": MarkerKind.PROFILER_STEP,
    "S": MarkerKind.SCHEDULER_STEP,
    "I": MarkerKind.ITERATION,
}


def marks_of(words: Sequence[str]) -> RankMarks:
    """Marks 10 ns apart: "Ba" is a backward pass of line a, a number so many launches."""
    marks, issues_ns = RankMarks(), []
    time_ns = 0
    for word in words:
        if word.isdecimal():
            issues_ns += [time_ns + 1] * int(word)
            continue
        time_ns += 10
        marks.hear(time_ns, KINDS[word[0]], word[1:])
    issues = np.array(issues_ns, np.int64)
    marks.add_work(issues, issues + 1)
    while marks.next_time_ns() is not None:
        marks.take()
    return marks


def ends(words: Sequence[str], choice: Choice | None = None) -> tuple[str, list[int]]:
    """By what iterations are found, and after how many words each ends."""
    marks = marks_of(words)
    rule = choose(marks, choice)
    assert rule is not None
    marked = [number for number, word in enumerate(words, 1) if not word.isdecimal()]
    return rule.by, [marked[place] for place in marks.ends(rule)]


@pytest.mark.parametrize(
    ("body", "found_by", "last"),
    [
        ("50 Ba 9 Oadam#0", "optimizer", "Oadam#0"),
        ("50 Ba 50 Ba 50 Ba 9 Oadam#0", "optimizer", "Oadam#0"),
        ("50 Ba 9 Oadam#0 9 Oadam#0 9 Oadam#0", "optimizer", "Oadam#0"),
        ("50 Ba 9 Omuon#0 9 Oadam#1", "optimizer", "Oadam#1"),
        ("50 Ba 9 Od#0 50 Ba 9 Od#0 50 Bb 9 Og#1", "optimizer", "Og#1"),
        # The program does without backward passes of PyTorch.
        ("50 Oadam#0", "optimizer", "Oadam#0"),
        ("50 Ba 9 P", "profiler", "P"),
        ("50 Ba 9 Cbegin 3 Cend", "clock", "Cend"),
        ("50 Ba 9 S", "scheduler", "S"),
        ("50 Ba", "backward", "Ba"),
        ("50 Ba 30 Bb", "backward", "Bb"),
        ("50 Ba 9 Oadam#0 I", "marker", "I"),
    ],
)
def test_what_ends_an_iteration(body: str, found_by: str, last: str) -> None:
    """Once in each pass of the loop, with the last of what ends it."""
    words = body.split()
    assert words.index(last) <= len(words) - 1
    expected = [pass_ * len(words) + _last(words, last) for pass_ in range(8)]
    assert ends(words * 8) == (found_by, expected)


def _last(words: Sequence[str], word: str) -> int:
    return len(words) - list(reversed(words)).index(word)


def test_an_optimizer_that_stops_does_not_count() -> None:
    """A first phase of training has had its own."""
    words = ["50", "Ba", "Ofirst#0"] * 4 + ["50", "Ba", "Osecond#1"] * 12
    assert ends(words)[1] == list(range(15, 49, 3))


def test_passes_that_do_different_work_in_turn_are_one_iteration() -> None:
    """An optimizer's step that is compiled leaves no mark but launches."""
    found = ends(["50", "Ba", "50", "Ba", "50", "Ba", "70"] * 8)
    assert found == ("backward", list(range(6, 56, 7)))


def test_a_clock_that_is_read_for_a_log_of_many_passes() -> None:
    """Once in 100 of them, which is seldomer than so many as are looked at."""
    words = ("50 Ba 9 " * 100 + "Clog ") * 6
    assert ends(words.split())[0] == "backward"


def test_the_clock_tells_several_steps_of_an_iteration_from_evaluation() -> None:
    """Rollouts before every three steps: the program reads its clock once in so many."""
    steps = ["400", "Ba", "Oadam#0", "50", "Ba", "Oadam#0", "50", "Ba", "Oadam#0"]
    assert ends([*steps, "C"] * 8)[1] == list(range(9, 80, 10))
    assert len(ends(steps * 8)[1]) == 24
    timed = ["400", "Ba", "Oadam#0", "C", "50", "Ba", "Oadam#0", "C", "50", "Ba", "Oadam#0", "C"]
    assert len(ends(timed * 8)[1]) == 24


def test_an_evaluation_after_a_short_epoch_makes_no_iteration_of_it() -> None:
    """A program times its epochs, each with an evaluation; rollouts of a policy do make one."""

    def rule(between: int) -> Rule | None:
        return choose(marks_of(f"Ce {'50 Ba 9 Oadam#0 ' * 7} {between} Ce ".split() * 5))

    assert rule(30) == Rule("optimizer", "adam#0", 1, 0)
    seven = rule(300)
    assert seven is not None
    assert seven.every == 7


def test_what_is_logged_now_and_then_makes_no_iteration_of_several_steps() -> None:
    """A few means are read back with the clock every five steps."""
    steps = ["50", "Ba", "Oadam#0"] * 4 + ["56", "Ba", "Oadam#0", "C"]
    assert len(ends(steps * 8)[1]) == 40


def test_a_line_that_times_parts_of_the_work_is_no_iteration() -> None:
    """Layers are timed by one line, the whole by another."""
    words = ["Clayer", "9", "Clayer", "9", "Clayer", "9", "Clayer", "200", "Cstep"]
    assert ends(words * 8) == ("clock", list(range(9, 73, 9)))


def test_nothing_marked() -> None:
    """Nothing is made up."""
    assert choose(RankMarks()) is None


def test_what_is_asked_for() -> None:
    """Comes before everything else; what there is not is not found."""
    words = ["50", "Ba", "Omuon#0", "Oadam#1", "P"] * 4
    assert ends(words, Choice("optimizer", "0")) == ("optimizer", [3, 8, 13, 18])
    assert ends(words, Choice("profiler")) == ("profiler", [5, 10, 15, 20])
    assert choose(marks_of(words), Choice("optimizer", "2")) is None
    assert choose(marks_of(words), Choice("nvtx", "step")) is None


@pytest.mark.parametrize("text", ["optimizer:0", "profiler", "nvtx:a b", "call:my.loop:Loop.step"])
def test_forms_of_the_option(text: str) -> None:
    assert parse_choice(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "optimizer", "optimizer:", "optimizer:-1", "optimizer:x", "profiler:", "profiler:1"),
        *("nvtx", "nvtx:", "call", "call:a", "call::b", "call:a:", "call:__main__:f", "clock"),
        f"optimizer:{'9' * 5000}",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    """With one sentence that says what is allowed."""
    with pytest.raises(UsageError, match=f"^--iteration {text}:"):
        parse_choice(text)


def test_period() -> None:
    """The least number of intervals after which the work repeats."""
    assert period([5, 5, 9, 5, 5, 9]) == 3
    assert period([50, 51, 50, 49]) == 1
    assert period([1, 20, 300, 4000]) == 1


def test_marks_are_forgotten_and_not_counted_anew() -> None:
    """A run that never settles keeps a bounded number of marks, and goes on where it was."""
    marks = RankMarks()
    rule = Rule("marker", "", 3, 1)
    for number in range(200_000):
        marks.hear(10 * number, MarkerKind.ITERATION, "")
        marks.take()
        marks.forget()
    assert len(marks.times_ns) <= 1 << 16
    assert marks.count(rule) == len(range(1, 200_000, 3))
    assert marks.ends(rule)[-1] == max(range(1, 200_000, 3))
    assert marks.end_ns(marks.ends(rule)[-1]) == 10 * max(range(1, 200_000, 3))
