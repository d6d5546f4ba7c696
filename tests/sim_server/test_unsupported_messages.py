"""What errors say."""

from sim_server.errors import unsupported_message


def test_a_call_is_refused_with_what_to_do() -> None:
    call = {"library": "cudart", "symbol": "cudaIpcGetMemHandle", "detail": ""}
    assert unsupported_message(1, call, "train.py:5 main") == (
        "rank 1 called cudaIpcGetMemHandle of cudart, which is not modelled, at train.py:5 main. "
        "Nothing may be guessed, so the run ends here. "
        "`phantora coverage --library cudart` lists what is; with --unsupported error the call "
        "would fail and the program go on."
    )
