"""Certificates for tests of TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sim_server.access import Tls


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


def make_authority(directory: Path, name: str) -> None:
    """Whose certificate is NAME.pem."""
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    _openssl(directory, *words, "-keyout", f"{name}.key", "-out", f"{name}.pem")


def make_certificate(directory: Path, name: str, authority: str, address: str = "127.0.0.1") -> Tls:
    """For this machine, of an authority in the same directory."""
    words = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
    _openssl(directory, *words, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (directory / "names").write_text(f"subjectAltName=DNS:localhost,IP:{address}\n")
    words = ["x509", "-req", "-in", f"{name}.csr", "-days", "2", "-CAcreateserial"]
    words += ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-extfile", "names"]
    _openssl(directory, *words, "-out", f"{name}.pem")
    files = (directory / f"{one}" for one in (f"{name}.pem", f"{name}.key", f"{authority}.pem"))
    return Tls(*files)
