"""The simulation server: virtual time, collectives, network and kernel times of one run.

`service` speaks gRPC with the host agents, `simulation` owns virtual time. Everything that a rank
says arrives as its record stream (`sim_server/records/schema.py`); nothing here knows how ranks are
launched.
"""
