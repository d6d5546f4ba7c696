"""The server of a run that somebody else started, if the user named one."""

from collections.abc import MutableMapping

from phantora_py.launch.options import RunOptions
from sim_server.access import Endpoint
from sim_server.access.tokens import VARIABLE, take_token
from sim_server.errors import UsageError


def choose_server(options: RunOptions, environment: MutableMapping[str, str]) -> Endpoint | None:
    """None for a server of the run's own. No token stays in `environment`, which ranks inherit.

    Raises: UsageError if it cannot be used as the user says.
    """
    token = take_token(options.token_file, environment)
    has_hosts = options.hosts is not None or options.hosts_file is not None
    if options.server is None and has_hosts:
        if options.token_file is not None:
            raise UsageError("--token-file is for --server; a run on several hosts has its own.")
        return None
    if options.server is None:
        needless = {
            "--listen": options.listen is not None,
            "--token-file": options.token_file is not None,
            "--tls-cert": options.tls is not None,
            "--insecure": options.insecure,
        }
        for name, is_given in needless.items():
            if is_given:
                raise UsageError(f"{name} is for --server or --hosts, which were not given.")
        return None
    if token is None:
        raise UsageError(
            f"--server needs the token that the server was started with: --token-file FILE or the "
            f"variable {VARIABLE}."
        )
    return Endpoint.of(options.server, token, options.tls, options.insecure)
