"""Many configurations of one command, run and compared (docs/compare.md)."""
