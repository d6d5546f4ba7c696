"""A sim_server of our own, for one run.

It is forked, for it imports what we have imported already. Where we have threads (a line that is
redrawn on a terminal, gRPC's after a first attempt) that may end in a deadlock, and it is executed.
"""

import subprocess
from collections.abc import Mapping

from phantora_py.launch.forked import Forked, may_fork
from phantora_py.launch.module import module_command
from phantora_py.launch.rundir import RunDirectory
from sim_server.__main__ import main
from sim_server.access import Endpoint
from sim_server.access.offer import Offer
from sim_server.access.tokens import make_token_file, take_token
from sim_server.errors import InternalError

START_LIMIT_S = 60.0
# It ends by itself after the last agent has left; the limit is for one that hangs (assumed).
_END_LIMIT_S = 5.0
_SHOWN_LINES = 20


def new_token_of(directory: RunDirectory) -> str:
    """A new token, in the file that only this user can read."""
    make_token_file(directory.token)
    token = take_token(directory.token, {})
    assert token is not None
    return token


class Server:
    """The server process. Its output is shown only if it fails."""

    def __init__(
        self,
        directory: RunDirectory,
        offer: Offer,
        environment: Mapping[str, str],
        endpoint: Endpoint,
        agents: int = 1,
    ) -> None:
        """`offer`: what it simulates, and with what. `endpoint`: where it listens, with the token
        of `new_token_of`. `agents`: how many it waits for.
        """
        self.endpoint = endpoint
        address = endpoint.address.text
        access = []
        if endpoint.tls is not None:
            tls = endpoint.tls
            access += ["--tls-cert", str(tls.cert), "--tls-key", str(tls.key)]
            access += ["--tls-ca", str(tls.ca)]
        elif not endpoint.address.is_local:
            access.append("--insecure")
        directory.offer.write_text(offer.to_json(), encoding="utf-8")
        self._output = directory.server_output
        words = [
            *("--listen", address, "--token-file", str(directory.token)),
            *("--offer", str(directory.offer), "--agents", str(agents), *access),
        ]
        with self._output.open("wb") as output:
            self._process = (
                Forked(main, ["sim_server", *words], environment, output.fileno())
                if may_fork()
                else subprocess.Popen(
                    [*module_command("sim_server"), *words],
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def check(self) -> None:
        """Raises: InternalError with the server's last words if it has ended with a failure."""
        status = self._process.poll()
        if status:
            lines = self._output.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
            said = "\n  ".join(["Its last words:", *lines]) if lines else "It said nothing."
            raise InternalError(f"sim_server ended with status {status}. {said}")

    def close(self) -> None:
        """Waits for its end, or brings it about."""
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "Server":
        """It may be entered again; what is inner ends it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.terminate()
        self.close()
