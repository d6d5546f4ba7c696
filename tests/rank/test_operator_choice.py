"""Which operators get a second kernel, for values."""

from __future__ import annotations

import pytest

from phantora_py.rank.grouped_products import OPERATORS
from phantora_py.rank.operator_choice import is_frequent


@pytest.mark.parametrize("name", OPERATORS)
def test_products_of_groups_have_one_kernel_of_ours(name: str) -> None:
    """PyTorch refuses a second one, and some releases have a kernel for the CPU that would do."""
    assert is_frequent(name, name)
