"""What is imported before ranks are forked; tests/cli/test_run_torch.py has whole runs."""

import os
import sys
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
    found = [(one.module, one.names) for one in imports._top_level_imports(source)]
    assert found == [("os", ()), ("a.b", ()), ("c", ("d",)), ("f", ())]


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
        with imports._watching_environment() as read:
            exec(f"import os\n{how}", {"__name__": module})
        assert read == found


def test_imports_of_own_modules_are_found(tmp_path: Path) -> None:
    """What the program's modules import is shared although they are not; each is read once."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import numpy\n")
    (tmp_path / "package" / "part.py").write_text("import psutil\nimport package\n")
    source = b"from package import part\nimport json\n"
    sources = imports._sources_of_program(source, tmp_path)
    found = [one.module for source in sources for one in source.imports]
    assert found == ["json", "numpy", "psutil"]


@pytest.mark.parametrize(
    ("program", "may"),
    [
        (b"import torch.distributed as dist\ndist.all_reduce(tensor)\n", False),
        (b"import torch\ntorch.optim.SGD(model.parameters())\n", True),
        (b"from torch.nn.parallel import DistributedDataParallel\n", True),
        (b"import model\n", True),
        (b"import transformers\n", True),
        (b"", True),
    ],
)
def test_what_trains_gets_what_training_loads(program: bytes, may: bool, tmp_path: Path) -> None:
    """Half of the time in which a program starts goes into what only optimizers and wrappers of
    models load, and the compiler.
    """
    (tmp_path / "model.py").write_text("import torch\nstep = torch.compile(forward)\n")
    sources = list(imports._sources_of_program(program, tmp_path))
    assert imports._may_load_later(sources) == may


def test_names_that_a_package_loads_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """transformers and others load a module when a name of it is first asked for."""
    (tmp_path / "late_names.py").write_text(
        "loaded = []\ndef __getattr__(name):\n"
        "    if name != 'Model': raise AttributeError(name)\n"
        "    loaded.append(name)\n    globals()[name] = 1\n    return 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    one = imports.Import("late_names", ("Model",))
    assert not one.is_done()
    assert imports._import(one, []) is None
    assert one.is_done()
    assert sys.modules.pop("late_names").loaded == ["Model"]


@pytest.mark.parametrize(
    ("sets", "value"),
    [
        ("pass", None),
        ("os.environ[{!r}] = '1'", "1"),
        ("os.environ.setdefault({!r}, '1')", "1"),
        ("os.environ.update({{{!r}: '0'}})", "0"),
    ],
)
def test_variables_that_an_import_sets_stay(
    sets: str, value: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ranks find what a package has set, as Lightning does, and nothing that we have set."""
    monkeypatch.delenv(imports._ASK_NVML, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sets_variables.py").write_text(f"import os\n{sets.format(imports._ASK_NVML)}\n")
    with imports._asking_nvml():
        assert os.environ[imports._ASK_NVML] == "1"
        assert imports._import(imports.Import("sets_variables", ()), []) is None
    assert os.environ.get(imports._ASK_NVML) == value
    del sys.modules["sets_variables"]
    imports._written.clear()
