"""Which build of phantora this is."""

import hashlib
from functools import cache
from importlib.metadata import distribution


@cache
def own_build() -> str:
    """A digest of our installed files: between two releases, too, models and defaults change. What
    is installed from one wheel has the same.
    """
    lines = (distribution("phantora").read_text("RECORD") or "").splitlines()
    own = [line for line in lines if line.startswith(("phantora_py/", "sim_server/"))]
    installed = sorted(line for line in own if "/__pycache__/" not in line)
    return hashlib.sha256("\n".join(installed).encode()).hexdigest()[:16]
