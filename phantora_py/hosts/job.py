"""What the agent of another host is told, on its standard input.

One line of JSON, with the token, which no command line and no environment has.
"""

import json
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.launch.options import RunOptions
from phantora_py.launch.prepared import Prepared
from phantora_py.launch.shares import Share
from phantora_py.launch.spool import Stream
from phantora_py.machine.installation import own_build
from sim_server.access import Endpoint, Tls
from sim_server.access.offer import PROTOCOL_VERSION
from sim_server.errors import UsageError

# They belong to the host, or to how an agent was started there.
_OWN_VARIABLES = ("HOSTNAME", "PWD", "OLDPWD", "TMPDIR", "XDG_RUNTIME_DIR", "PHANTORA_TOKEN")
_OWN_PREFIXES = ("SLURM", "SSH_", "SRUN_", "RAY_")
BEGUN = "begun"
"""The line that an agent prints when this host can take its part, before it joins the others."""


@dataclass(frozen=True)
class Job:
    """A run, as told to the agent of one of its hosts. `versions`: of what the ranks run, on the
    first host. `directory`: the one the command is started in.
    """

    options: RunOptions
    share: Share
    endpoint: Endpoint
    insecure: bool
    directory: Path
    environment: Mapping[str, str]
    streams: tuple[Stream, ...]
    epoch: Mapping[str, str]
    restarts: tuple[str, ...]
    versions: Mapping[str, str]

    def to_json(self) -> str:
        """One line, the inverse of `read_job`."""
        tls = self.endpoint.tls
        return json.dumps(
            {
                "protocol": PROTOCOL_VERSION,
                "options": _plain(self.options),
                "share": asdict(self.share),
                "address": self.endpoint.address.text,
                "token": self.endpoint.token,
                "tls": tls and [str(tls.cert), str(tls.key), str(tls.ca)],
                "insecure": self.insecure,
                "directory": str(self.directory),
                "environment": dict(self.environment),
                "streams": [asdict(one) for one in self.streams],
                "epoch": dict(self.epoch),
                "restarts": self.restarts,
                "versions": dict(self.versions),
            }
        )


def job_of(prepared: Prepared, endpoint: Endpoint, environment: Mapping[str, str]) -> Job:
    """That of the first host; the others differ by their share. `environment`: what its ranks
    inherit, and theirs.
    """
    inherited = {name: value for name, value in environment.items() if not _is_own(name)}
    assert prepared.share is not None
    return Job(
        options=prepared.options,
        share=prepared.share,
        endpoint=endpoint,
        insecure=prepared.options.insecure,
        directory=Path.cwd(),
        environment=inherited,
        streams=prepared.streams,
        epoch=prepared.epoch,
        restarts=tuple(prepared.restarts),
        versions=versions_of(prepared),
    )


def adopt(environment: Mapping[str, str], own: MutableMapping[str, str]) -> None:
    """Gives `own`, of another host, the variables of a job, and takes what that has not: a program
    may ask for any.
    """
    for name in [name for name in own if name not in environment and not _is_own(name)]:
        del own[name]
    own.update(environment)


def _is_own(name: str) -> bool:
    return name in _OWN_VARIABLES or name.startswith(_OWN_PREFIXES)


def versions_of(prepared: Prepared) -> dict[str, str]:
    """What has to be the same on all hosts."""
    return {
        "phantora": f"{__version__}, build {own_build()}",
        **prepared.command.program.versions,
        "isolation": prepared.isolation.tier,
    }


def read_job(line: str) -> Job:
    """Raises: UsageError if it is none of this version's."""
    try:
        values = json.loads(line)
        if values["protocol"] != PROTOCOL_VERSION:
            raise UsageError(
                f"This host has another version of phantora ({__version__}) than the run's first "
                "host; install the same on all."
            )
        share = values["share"]
        tls = values["tls"] and Tls(*map(Path, values["tls"]))
        return Job(
            options=_options(values["options"]),
            share=Share(share["host"], share["index"], tuple(share["ranks"])),
            endpoint=Endpoint.of(values["address"], values["token"], tls, values["insecure"]),
            insecure=values["insecure"],
            directory=Path(values["directory"]),
            environment=values["environment"],
            streams=tuple(Stream(**one) for one in values["streams"]),
            epoch=values["epoch"],
            restarts=tuple(values["restarts"]),
            versions=values["versions"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "An agent reads its job on its standard input; `phantora run --hosts` starts agents."
        ) from error


def _plain(options: RunOptions) -> dict[str, Any]:
    """Without what only the first host needs."""
    values = {one.name: getattr(options, one.name) for one in fields(options)}
    for name in ("tls", "token_file", "server", "hosts", "hosts_file", "listen", "output"):
        values[name] = None
    values |= {"log_dir": None, "insecure": False, "engine": "ssh"}
    return {name: _encoded(value) for name, value in values.items()}


def _encoded(value: Any) -> Any:
    match value:
        case Path():
            return {"path": str(value)}
        case tuple():
            return {"tuple": [_encoded(one) for one in value]}
        case frozenset():
            return {"set": sorted(value)}
    return value


def _decoded(value: Any) -> Any:
    match value:
        case {"path": text}:
            return Path(text)
        case {"tuple": items}:
            return tuple(_decoded(one) for one in items)
        case {"set": items}:
            return frozenset(items)
    return value


def _options(values: Mapping[str, Any]) -> RunOptions:
    return RunOptions(**{name: _decoded(value) for name, value in values.items()})
