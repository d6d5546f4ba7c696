"""The run as a trace, for Perfetto and for tools of PyTorch's profiler (docs/trace.md)."""
