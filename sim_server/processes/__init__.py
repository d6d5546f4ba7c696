"""Processes that the simulator starts, and what may interrupt it meanwhile."""
