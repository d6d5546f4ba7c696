"""The run as a trace, in the format of PyTorch's profiler (docs/trace.md)."""
