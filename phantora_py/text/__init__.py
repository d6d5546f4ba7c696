"""How figures are written for persons."""
