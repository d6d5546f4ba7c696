"""The host agent: stands between the rank processes of one host and sim_server.

`agent` is its loop, `simulation` its connection to the server, `idle` tells whether a rank waits
outside, `datafile` keeps what the run leaves, `server` is the server it starts if none is given.
"""
