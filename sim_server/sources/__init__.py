"""Where the records of ranks come from, if not from live ones.

`RankSource` (source.py) is what a rank is to a simulation, `drive` (drive.py) runs a simulation
from sources in one process. Recorded ranks (recorded.py) and synthetic ones (synthetic.py) are
sources. Live ranks are not asked: their agents push the same records into the same calls of
`Simulation` (sim_server/service.py).
"""
