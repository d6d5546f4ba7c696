"""Streams, events and the legacy default stream order work as CUDA does."""

from engine_harness import Program, play

from sim_server.records import CopyKind, RecordKind, WaitKind


def test_work_of_one_stream_runs_in_order() -> None:
    """A kernel starts when the one before it in its stream is done."""
    program = Program().kernel(100).kernel(50)
    assert play([program]).kernels == [(0, 100), (100, 150)]


def test_work_starts_no_earlier_than_its_issue() -> None:
    """Host time that passed before a launch delays it."""
    program = Program().kernel(100, gap=10).kernel(50, gap=200)
    assert play([program]).kernels == [(10, 110), (210, 260)]


def test_an_event_orders_two_streams() -> None:
    """A stream that waits for an event goes on when it is recorded, whatever follows it there."""
    program = Program().kernel(100, stream=2, demand=0.1)
    event = program.record(stream=2)
    program.kernel(1000, stream=2, demand=0.1).stream_wait(event, stream=3)
    program.kernel(50, stream=3, demand=0.1)
    assert play([program]).kernels == [(0, 100), (100, 150), (100, 1100)]


def test_waiting_for_an_unrecorded_event_is_nothing() -> None:
    """Instances 0 and never recorded ones are done."""
    program = (
        Program()
        .kernel(100, stream=2, demand=0.1)
        .stream_wait(0, stream=3)
        .stream_wait(9, stream=3)
    )
    program.kernel(50, stream=3, demand=0.1)
    assert play([program]).kernels == [(0, 50), (0, 100)]


def test_the_legacy_stream_waits_for_blocking_streams_and_they_for_it() -> None:
    """Blocking stream, then legacy stream, then blocking stream: one after the other."""
    program = Program().kernel(100, stream=1, demand=0.1).kernel(10, stream=0, demand=0.1)
    program.kernel(20, stream=1, demand=0.1)
    assert play([program]).kernels == [(0, 100), (100, 110), (110, 130)]


def test_non_blocking_streams_are_exempt_from_the_legacy_stream() -> None:
    """A non-blocking stream neither waits for the legacy stream nor holds it up."""
    program = Program().kernel(100, stream=2, demand=0.1).kernel(10, stream=0, demand=0.1)
    program.kernel(20, stream=3, demand=0.1)
    assert play([program]).kernels == [(0, 10), (0, 20), (0, 100)]


def test_legacy_streams_of_two_devices_are_independent() -> None:
    """Stream 0 is one stream per device."""
    program = Program().kernel(100, stream=0).kernel(30, stream=0, device=1)
    assert play([program]).kernels == [(0, 30), (0, 100)]


def test_a_host_function_takes_no_time_and_keeps_the_order() -> None:
    """Work after a host function starts when the work before it is done."""
    program = Program().kernel(100).do(RecordKind.HOST_FUNCTION, stream=2).kernel(10)
    assert play([program]).kernels == [(0, 100), (100, 110)]


def test_work_of_a_destroyed_stream_goes_on() -> None:
    """Destroying a stream ends its name; the id may be used again at once."""
    program = Program().kernel(100, stream=2, demand=0.1).do(RecordKind.STREAM_DESTROY, stream=2)
    program.do(RecordKind.STREAM_CREATE, stream=2, flags=1).kernel(10, stream=2, demand=0.1)
    program.wait(WaitKind.DEVICE)
    history = play([program])
    assert history.kernels == [(0, 10), (0, 100)]
    assert history.answers == [(0, 0, 100, 0)]


def test_a_copy_waits_for_its_stream() -> None:
    """Copies take part in stream order."""
    program = Program().kernel(100).copy(90, CopyKind.DEVICE_TO_HOST).kernel(10)
    history = play([program])
    assert history.rows(2) == [(100, 200)]
    assert history.kernels == [(0, 100), (200, 210)]
