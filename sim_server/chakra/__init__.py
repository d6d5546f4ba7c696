"""Chakra's execution traces: the format alone (docs/traces.md).

A file is a metadata message and then one message a node, each after its length as a varint. What
nodes mean to a simulation is in `sim_server.sources`, how a run becomes nodes in
`phantora_py.traces`.
"""
