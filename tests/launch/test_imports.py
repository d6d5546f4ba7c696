"""What is imported before ranks are forked; tests/cli/test_run_torch.py has whole runs."""

from pathlib import Path

import pytest

from phantora_py.launch import imports


def test_imports_of_the_program_are_found() -> None:
    """Imports at the top level count, also in `try`; those in functions do not."""
    source = (
        b"import os, a.b\nfrom c import d\nfrom . import e\n"
        b"try:\n    import f\nexcept ImportError:\n    f = None\n"
        b"def main():\n    import g\n"
    )
    assert list(imports._top_level_imports(source)) == ["os", "a.b", "c", "f"]


def test_own_modules_are_left_to_the_ranks(tmp_path: Path) -> None:
    """What lies beside the script may look at a rank's environment when it is imported."""
    (tmp_path / "model.py").touch()
    (tmp_path / "package").mkdir()
    assert imports._is_own("model", tmp_path)
    assert imports._is_own("package.part", tmp_path)
    assert not imports._is_own("numpy.linalg", tmp_path)


def test_a_program_that_cannot_be_read_is_left_to_the_ranks() -> None:
    """Python's own message is the best one."""
    assert list(imports._top_level_imports(b"this is no Python")) == []


@pytest.mark.parametrize(
    "how", ["os.environ.get('RANK')", "os.getenv('RANK')", "'RANK' in os.environ"]
)
def test_who_reads_a_variable(how: str) -> None:
    """What PyTorch's modules ask for is none of a rank's role, however they ask."""
    for module, found in (("torch.cuda", set()), ("library", {"RANK"})):
        with imports._watching_environment(["RANK"]) as read:
            exec(f"import os\n{how}", {"__name__": module})
        assert read == found
