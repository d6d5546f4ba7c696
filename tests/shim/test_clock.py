"""libc's clocks, sleeps and timed waits in virtual time."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from fake_run import CLOCK_READ_NS, EPOCH_MONOTONIC_NS, EPOCH_REALTIME_NS, FakeRecord, FakeRun
from native_programs import compile_cxx

MARKER = 3  # ph::RecordKind
WAIT, RESUME, ALARM = 32, 9, 11  # ph::RecordKind, ph::WaitKind
LATEST_NS = 1 << 60  # ph::kLatest
WAIT_NS = 60_000_000
# Reads of a driver between two changes of the host clock or two waits that are free.
FREE_READS = 4000
FARTHEST_LEAD_NS = 499
WAKE_UP_NS = 1000  # of a helper after its deadline
# Clock reads of a case and of the standard library in it, generously.
READS_NS = 100 * CLOCK_READ_NS
SLEEPS = [
    "nanosleep",
    "clock_nanosleep",
    "clock_nanosleep_abstime",
    "usleep",
    "sleep_for",
    "select_sleep",
]
LOCKS = ["mutex_timedlock", "rwlock_timedwrlock"]  # in real time
WAITS = [
    "cond_realtime",
    "cond_monotonic",
    "condition_variable",
    "future",
    "sem_timedwait",
    "sem_clockwait",
    "mutex_timedlock",
    "rwlock_timedwrlock",
    "poll",
    "select",
    "epoll_wait",
]


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    """A run of one rank."""
    return FakeRun(tmp_path)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/shim/clocks.cc, compiled."""
    binary = tmp_path_factory.mktemp("clocks") / "clocks"
    source = Path(__file__).with_name("clocks.cc")
    return compile_cxx([source], binary, "-O1")


def run_cases(
    run: FakeRun, program: Path, thread: str, cases: list[str]
) -> dict[str, tuple[int, int, int]]:
    """Per case: nanoseconds seen by the thread, on the host clock, in real time."""
    result = run.start(str(program), thread, *cases)
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    return {name: (int(seen), int(host), int(real)) for name, seen, host, real in lines}


def test_driver_sleeps_in_virtual_time_only(run: FakeRun, program: Path) -> None:
    """A driver's sleep moves the host clock by just its duration and takes no real time."""
    for name, (seen, host, real) in run_cases(run, program, "driver", SLEEPS).items():
        assert WAIT_NS < seen <= WAIT_NS + FARTHEST_LEAD_NS, name
        assert host == WAIT_NS, name
        assert real < WAIT_NS, name


def test_driver_wait_that_runs_out_moves_the_clock(run: FakeRun, program: Path) -> None:
    """To its deadline, whether that comes in virtual time or, for locks, in real time."""
    for name, (seen, host, _) in run_cases(run, program, "driver", WAITS).items():
        assert WAIT_NS <= seen <= WAIT_NS + READS_NS, name
        assert WAIT_NS <= host <= WAIT_NS + READS_NS, name
    deadlines = [record.arguments[0] for record in alarms(run)]
    assert len(deadlines) == len(WAITS) - len(LOCKS)
    assert deadlines == sorted(deadlines)


def test_helper_waits_and_moves_no_clock(run: FakeRun, program: Path) -> None:
    """It sets an alarm for its deadline and then sees that it has come."""
    for name, (seen, host, _) in run_cases(run, program, "helper", SLEEPS + WAITS).items():
        assert WAIT_NS <= seen <= WAIT_NS + WAKE_UP_NS, name
        assert host == 0, name
    assert len(alarms(run)) == len(SLEEPS) + len(WAITS) - len(LOCKS)


def alarms(run: FakeRun) -> list[FakeRecord]:
    """Those that were set and not withdrawn."""
    told = [record for record in run.records() if (record.kind, record.id) == (WAIT, ALARM)]
    assert all(record.arguments[1] == 0 for record in told)
    return told


def test_notified_wait_takes_no_virtual_time(run: FakeRun, program: Path) -> None:
    """What another thread signals before the deadline does not move the host clock: the alarm is
    withdrawn.
    """
    _, host, _ = run_cases(run, program, "driver", ["notified"])["notified"]
    assert host <= READS_NS
    told = [record for record in run.records() if (record.kind, record.id) == (WAIT, ALARM)]
    set_ns = [record.arguments[0] for record in told if record.arguments[1] == 0]
    withdrawn_ns = [record.arguments[0] for record in told if record.arguments[1] == 1]
    assert withdrawn_ns == [max(set_ns)]


def test_clocks_are_epoch_plus_host_clock(run: FakeRun) -> None:
    """All of Python's wall clocks follow the host clock; CPU time does not."""
    output = run.python("""
h = host_clock_ns()
print(time.monotonic_ns() - h, time.time_ns() - h, time.perf_counter_ns() - h)
print(*(time.clock_gettime_ns(c) - h for c in (time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC_RAW)))
print(time.process_time() < 100)
""")
    monotonic, realtime, counter, boot, raw = (int(word) for word in output.split()[:5])
    first = monotonic - EPOCH_MONOTONIC_NS
    assert 0 < first < FARTHEST_LEAD_NS
    assert realtime == EPOCH_REALTIME_NS + first + 1
    assert (counter, boot, raw) == tuple(EPOCH_MONOTONIC_NS + first + n for n in (2, 3, 4))
    assert output.endswith("True")


def test_only_drivers_pay_for_clock_reads(run: FakeRun) -> None:
    """Many reads by a driver move the host clock, so that polling ends; others do not."""
    output = run.python("""
def moved():
    h = host_clock_ns()
    for _ in range(10000):
        time.monotonic()
    return host_clock_ns() - h
def in_thread():
    time.sleep(0.05)  # until the main thread, which reads a clock in join, rests there
    print(moved())
print(moved())
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
""")
    paid = int(output.split()[0]) / CLOCK_READ_NS
    assert abs(paid - (10000 - FREE_READS)) <= 2
    assert output.split()[1] == "0"


def test_polling_for_long_does_not_run_away(run: FakeRun) -> None:
    """Two million reads in a row take seconds, and a deadline a minute ahead is met to the
    microsecond in some millions; marks of them are few.
    """
    output = run.python("""
h = host_clock_ns()
for _ in range(2_000_000):
    time.perf_counter()
print(host_clock_ns() - h)
time.sleep(1)
reads, h, end = 0, host_clock_ns(), time.monotonic() + 60
while time.monotonic() < end:
    reads += 1
print(host_clock_ns() - h, reads)
""")
    two_million_ns, minute_ns, reads = (int(word) for word in output.split())
    assert 10**8 <= two_million_ns < 20 * 10**9
    assert abs(minute_ns - 60 * 10**9) < 100_000
    assert reads < 10**7
    assert sum(record.kind == MARKER for record in run.records()) < 100


def test_the_last_read_of_a_loop_is_marked(run: FakeRun) -> None:
    """What polls a clock leaves a mark where it ended, as whoever times his loop by it does."""
    run.python("""
for _ in range(20):
    end = time.monotonic() + 0.001
    while time.monotonic() < end:
        pass
    time.sleep(0.001)
""")
    marks = [record for record in run.records() if record.kind == MARKER]
    assert len(marks) >= 40, len(marks)


def test_locks_of_python_cost_nothing(run: FakeRun) -> None:
    """Python reads a clock for every lock that it takes, and takes many when it imports."""
    output = run.python("""
h = host_clock_ns()
lock = threading.Lock()
for _ in range(10000):
    with lock:
        pass
print(host_clock_ns() - h)
""")
    assert output == "0"


def test_a_short_wait_turns_no_reading_back(run: FakeRun) -> None:
    """Readings run ahead of the host clock a little; the host clock may move by less than that."""
    output = run.python("""
advance = shim["_ZN2ph18advance_host_clockEl"]
reads = []
for turn in range(3000):
    reads.append(time.monotonic_ns())
    if turn % 400 == 399:
        advance(ctypes.c_uint64(3))
print(all(a <= b for a, b in zip(reads, reads[1:])))
""")
    assert output.strip() == "True"


def test_readings_do_not_lengthen_a_sleep(run: FakeRun) -> None:
    """Python sleeps until a deadline that it computes from a reading: none of its lead counts."""
    output = run.python("""
for reads in (0, 7, 300):
    for _ in range(reads):
        time.monotonic()
    h = host_clock_ns()
    time.sleep(0.001)
    print(host_clock_ns() - h)
""")
    assert output.split() == ["1000000"] * 3


def test_the_clock_never_goes_back(run: FakeRun) -> None:
    """A wait that ends at once between reads does not turn it back."""
    output = run.python("""
import select
empty, _ = os.pipe()
reads = []
for turn in range(2000):
    reads += [time.monotonic_ns(), time.perf_counter_ns()]
    select.select([empty], [], [], 0)
print(all(a <= b for a, b in zip(reads, reads[1:])))
""")
    assert output.strip() == "True"


def test_forked_child_reads_and_does_not_move(run: FakeRun) -> None:
    """A DataLoader worker sees the rank's clock, sleeps really and drives nothing."""
    output = run.python("""
time.sleep(3)
h = host_clock_ns()
if os.fork() == 0:
    real = real_s()
    start = time.monotonic_ns()
    time.sleep(0.1)
    took = time.monotonic_ns() - start
    print(start, took, host_clock_ns() - h, real_s() - real >= 0.09, flush=True)
    os._exit(0)
os.wait()
""")
    start, took, moved, slept = output.split()
    assert int(start) - EPOCH_MONOTONIC_NS >= 3 * 10**9
    # The parent may read a clock on its way to wait.
    assert 10**8 - READS_NS <= int(took) <= 10**8 + WAKE_UP_NS
    assert int(moved) <= READS_NS
    assert slept == "True"


def test_every_driver_sleep_waits_for_the_simulation(run: FakeRun) -> None:
    """The rank asks for its time after each sleep: others may do what it polls for."""
    run.python("""
for _ in range(5):
    time.sleep(0.05)
""")
    waits = [record for record in run.records() if record.kind == WAIT]
    assert [record.id for record in waits] == [RESUME] * 5
    assert [record.host_gap_ns // 10**6 for record in waits] == [50] * 5


def test_python_time_outs_end(run: FakeRun) -> None:
    """Queue.get, Event.wait, multiprocessing and asyncio reach their deadlines, on any thread."""
    output = run.python("""
import asyncio, multiprocessing, queue
pipe = multiprocessing.Pipe()
def end_all():
    for wait in (
        lambda: threading.Event().wait(0.05),
        lambda: queue.Queue().get(timeout=0.05),
        lambda: multiprocessing.Queue().get(timeout=0.05),
        lambda: pipe[0].poll(0.05),
    ):
        try:
            wait()
        except queue.Empty:
            pass
end_all()
asyncio.run(asyncio.sleep(0.05))
thread = threading.Thread(target=end_all)
thread.start()
thread.join()
print(host_clock_ns())
""")
    assert 250_000_000 <= int(output) < 350_000_000


def test_a_time_out_of_centuries(run: FakeRun) -> None:
    """The alarm is at the latest time that the engine knows; the wait ends when it is ended."""
    output = run.python("""
event = threading.Event()
threading.Timer(0.05, event.set).start()
print(event.wait(threading.TIMEOUT_MAX))
""")
    assert output == "True"
    told = [record for record in run.records() if (record.kind, record.id) == (WAIT, ALARM)]
    assert max(record.arguments[0] for record in told) == LATEST_NS


def test_waiting_for_the_gil_moves_no_clock(run: FakeRun) -> None:
    """Python takes turns by timed waits; their number differs from run to run."""
    output = run.python("""
def hold_gil():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass
thread = threading.Thread(target=hold_gil)
thread.start()
h = host_clock_ns()
end = time.thread_time() + 0.3
while time.thread_time() < end:
    pass
print(host_clock_ns() - h)
""")
    assert output == "0"


def test_helper_loop_with_deadline_ends_while_the_rank_stands_still(run: FakeRun) -> None:
    """Its own sleeps count for a helper as long as the host clock does not move."""
    output = run.python("""
def loop():
    end, turns = time.monotonic() + 0.2, 0
    while time.monotonic() < end:
        time.sleep(0.05)
        turns += 1
    print(turns)
thread = threading.Thread(target=loop)
thread.start()
thread.join()
""")
    assert output == "4"


def test_process_outside_a_run_sees_real_time(run: FakeRun) -> None:
    """The shim is preloaded but nothing is attached: a tool, the zygote."""
    code = """
import time
start = time.time()
time.sleep(0.05)
print(start, time.time() - start)
"""
    result = run.start(sys.executable, "-c", code)
    now, slept = (float(word) for word in result.stdout.split())
    assert abs(now - time.time()) < 60
    assert 0.05 <= slept < 5
