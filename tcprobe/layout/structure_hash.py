"""The saved form of a structure tensor."""

from typing import NamedTuple


class StructureHash(NamedTuple):
    """The structure tensor of a multiply: number of triples, and the hash of all (a, b, d) slot numbers.

    The hash is the SHA-256 of the triples, sorted by a, then d, each as three little-endian 32-bit numbers. `anchor` is
    the hash of all tables, for what the triples leave open (`layout.predicted`); None in results of earlier versions.
    """

    triples: int
    sha256: str
    anchor: str | None = None
