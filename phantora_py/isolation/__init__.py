"""How far a rank is kept apart from the machine and from the other ranks.

`system` holds the system calls, `probe` finds out which of them this machine permits, `container`
moves a process into its namespaces. The network namespace stays the machine's own: all ranks share
its loopback interface.
"""
