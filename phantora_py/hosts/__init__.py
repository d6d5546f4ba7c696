"""Runs on several hosts: what starts the agents of the others, and what they are told."""
