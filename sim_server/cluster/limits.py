"""What no cluster exceeds. All are assumed, far beyond what is built: they keep a slip of the pen,
or a product of several, from taking all memory.
"""

MOST_COUNT = 1 << 20
"""Of anything that is counted: nodes, GPUs, NICs, ports."""
MOST_BYTES_PER_S = 10**16
"""Of a link."""
MOST_LATENCY_NS = 10**11
"""Of a link: hundred seconds."""
MOST_VERTICES = 1 << 18
"""GPUs, NICs and switches of a topology together: so many take some 5 s and 400 MiB."""
MOST_MEMORY_BYTES = 1 << 50
"""Of a GPU."""
MOST_CLOCK_KHZ = 10**8
"""Of a GPU: 100 GHz."""
MOST_POWER_W = 10**6
"""Of a GPU."""
