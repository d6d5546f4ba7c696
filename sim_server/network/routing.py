"""Which spine a flow takes.

The ECMP hash is BLAKE2b with a digest of 8 bytes over three little-endian 32-bit words: seed,
number of the source NIC, number of the destination NIC; the spine is the digest, read as a
little-endian number, modulo the number of spines. It depends on nothing else, so equal inputs take
equal paths on every machine and in every run, and all flows between two NICs share a path. Unlike
the CRCs of many switches it has no structure: collisions are those of chance.
"""

from __future__ import annotations

import hashlib
import struct


def ecmp_spine(seed: int, source_nic: int, destination_nic: int, spines: int) -> int:
    """Spine of a flow under hashed routing. NICs are numbered through the cluster.

    In other fabrics than leaves and spines, which of several next hops; the seed is then that of
    the fabric plus the number of hops before it.
    """
    words = struct.pack("<3I", seed & 0xFFFFFFFF, source_nic, destination_nic)
    digest = hashlib.blake2b(words, digest_size=8).digest()
    return int.from_bytes(digest, "little") % spines


def single_path_spine(destination_nic: int, spines: int) -> int:
    """Spine of every flow to this NIC under destination-based routing."""
    return destination_nic % spines
