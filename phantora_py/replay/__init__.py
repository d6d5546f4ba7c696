"""Benchmarks made of execution traces: built, replayed with PyTorch, scored (docs/traces.md)."""
