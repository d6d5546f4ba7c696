"""Execution traces: a run as others' tools read it, and checks of such traces (docs/traces.md)."""
