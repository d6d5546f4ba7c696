"""How far a rank is kept apart from the machine and from the other ranks.

`system` and `netlink` hold the system calls, `probe` finds out which of them this machine permits.
`nodes` makes what the ranks of a simulated node share, `container` moves a process into what is its
own, and `first` keeps a process namespace. `names` answers for the world outside.
"""
