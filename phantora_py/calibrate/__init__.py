"""`phantora calibrate`: a cluster's free constants from logs of nccl-tests.

Owns which constants there are and when a log determines them; the times come from the communication
model.
"""
