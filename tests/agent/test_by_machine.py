"""What is counted of a run as depending on the machine."""

from phantora_py.agent.by_machine import ByMachine


def test_a_rank_without_a_process_is_no_guess() -> None:
    """Nobody hears of a GPU that the program does not use; of a process that comes after all, as
    often as the others went on without it.
    """
    notes: list[str] = []
    owners = {1: 7}
    seen = ByMachine(notes.append, lambda rank: owners.get(rank, 0))
    seen.guessed([2, 3])
    seen.guessed([2])
    seen.acts(1)
    assert (seen.rows({}, {}), notes) == ([], [])
    seen.guessed([1, 3])
    assert [note.partition(",")[0] for note in notes] == ["rank 1 seems to wait for others"]
    seen.acts(2)
    seen.acts(2)
    assert [(row["rank"], row["guesses"]) for row in seen.rows({}, {})] == [(1, 1), (2, 2)]
    assert len(notes) == 1


def test_a_process_that_comes_after_a_guess_is_told() -> None:
    """Others went on without it, and when it comes is this machine's."""
    notes: list[str] = []
    seen = ByMachine(notes.append, lambda _: 0)
    seen.guessed([2])
    seen.acts(2)
    assert [note.partition(",")[0] for note in notes] == ["rank 2 has a process now"]
