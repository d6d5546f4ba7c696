"""`python -m phantora_py` is `phantora`, whose command line starts here once it heeds signals.

In a checkout Python may find the checkout's packages first, which lack the compiled modules. Then
the installed ones are meant.
"""

import importlib.util
import sys
from pathlib import Path

_PACKAGES = ("phantora_py", "sim_server")


def main() -> int:
    """Runs the command line; returns its exit code."""
    if importlib.util.find_spec("phantora_py._channel") is None:
        _leave_checkout()
    from phantora_py.cli import main as run  # noqa: PLC0415 - of the package that was found

    return run()


def _leave_checkout() -> None:
    """Has Python look for our packages elsewhere."""
    checkout = Path(__file__).resolve().parents[1]
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != checkout]
    for name in [one for one in sys.modules if one.partition(".")[0] in _PACKAGES]:
        del sys.modules[name]
    if importlib.util.find_spec("phantora_py") is None:
        sys.exit(
            f"phantora: usage: {checkout} is a checkout without its compiled modules, and no other "
            "phantora is installed. Install it: pip install ."
        )


if __name__ == "__main__":
    from phantora_py.start import main as begin

    sys.exit(begin())
