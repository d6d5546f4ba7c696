"""`phantora bench`: what nccl-tests would print on a simulated cluster.

Runs the communication model alone: no ranks, no engine. Owns nccl-tests' definitions of size and
bandwidth and its tables; knows nothing about how a time comes about.
"""
