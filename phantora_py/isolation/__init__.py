"""How far a rank is kept apart from the machine and from the other ranks.

`system` and `netlink` hold the system calls, `probe` finds out which of them this machine permits.
`nodes` makes what the ranks of a simulated node share, `container` moves a process into what is its
own, `readonly` protects files, and `first` keeps a process namespace. `names` answers for the world
outside. `backend` chooses between that and engines of containers, of which there are `bwrap` and
those of `engine_api`; `inside` is what an engine starts. `advice` is for the machine's owner.
"""
