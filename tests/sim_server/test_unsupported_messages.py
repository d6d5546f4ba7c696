"""What errors say."""

from sim_server.errors import unsupported_message


def test_managed_memory_is_refused_with_what_to_do() -> None:
    """Users of paged optimizers do not know the call."""
    call = {"library": "cudart", "symbol": "cudaMallocManaged", "detail": ""}
    assert unsupported_message(1, call, "train.py:5 main") == (
        "rank 1 called cudaMallocManaged of cudart, which is not modelled, at train.py:5 main. "
        "Nothing may be guessed, so the run ends here. Memory that host and GPU share is not "
        "simulated: take an optimizer that is not paged, or embedding tables that are not in UVM. "
        "`phantora coverage --library cudart` lists what is; with --unsupported error the call "
        "would fail and the program go on."
    )
