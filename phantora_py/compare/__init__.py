"""Runs side by side: their figures, and what changed between them (docs/compare.md)."""
