"""Packets that the kernel has yet to hand to their receiver.

What a thread sends to another network namespace or over the loopback interface goes into a queue of
the processor it runs on. The kernel empties that queue at once, as a rule; on a busy machine a
kernel thread does it later. Meanwhile sender and receiver may both sleep.
"""

from pathlib import Path

# One line for each processor, fields in hexadecimal; this one is the length of the queue.
# Source: softnet_seq_show in the kernel's net/core/net-procfs.c, Linux 5.10 and later.
QUEUES = Path("/proc/net/softnet_stat")
_LENGTH = 11


def are_under_way() -> bool:
    """Whether any packet of this machine waits in a queue. Kernels before 5.10 do not tell: False.

    Raises: OSError or ValueError if the kernel shows something else.
    """
    for line in QUEUES.read_text().splitlines():
        fields = line.split()
        if len(fields) > _LENGTH and int(fields[_LENGTH], 16):
            return True
    return False
