"""How a rank's process has ended, in words."""

import signal


def describe_end(status: int, oom_killed: bool) -> str:
    """How a process ended, as the second half of a sentence. `status`: exit code or minus the
    signal. `oom_killed`: the kernel has killed some process meanwhile for lack of memory.
    """
    if status >= 0:
        return f"ended with exit code {status}."
    names = {one.value: one.name for one in signal.Signals}
    reason = f"was killed by signal {-status} ({names.get(-status, 'real-time')})."
    if -status == signal.SIGKILL and oom_killed:
        reason += " The kernel has just killed a process for lack of memory (see dmesg)."
    if -status == signal.SIGBUS:
        reason += " Shared memory (/dev/shm) is full, or a file that it has mapped was cut short."
    return reason
