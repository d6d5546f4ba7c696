"""Who may talk to a simulation server, over what, and what it may ask for."""

from sim_server.access.addresses import Address
from sim_server.access.endpoint import Endpoint
from sim_server.access.tls import Tls

__all__ = ["Address", "Endpoint", "Tls"]
