"""Answers to ranks that make communicators."""

from sim_server.communicators.meetings import Meetings

__all__ = ["Meetings"]
