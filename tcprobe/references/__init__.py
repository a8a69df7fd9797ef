"""What others published, one module for each source, in that source's own terms; numbers and atoms in CSV files.

    claim                                                  how a source states something
    ptx_isa                                                PTX ISA
    cute                                                   CuTe
    register_mapping                                       others' tables of wmma
    tensor_memory                                          tensor memory and scale factors
    numerics, cost                                         published arithmetic and cost
    shared_memory                                          layouts of shared memory
    newer_forms                                            what newer compilers accept

A reference is a module of this package with NAME, SOURCE, ERRATA and `claim(fragment, device) -> Claim | str`, where a
string is the reason why it states nothing. PER_ARCH = False means that its claims are the same for every arch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Protocol

from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.plugins import discover
from tcprobe.references.claim import Claim, Erratum

__all__ = ["Claim", "Erratum", "Reference", "claim_of", "claims", "references"]


class Reference(Protocol):
    """The names that a reference module has."""

    NAME: str
    SOURCE: str
    ERRATA: tuple[Erratum, ...]

    def claim(self, fragment: Fragment, device: Arch) -> Claim | str:
        """What the source states of `fragment` on `device`, or why nothing."""


# modules that are parts of references, or references of other kinds
APART = (
    "claim",
    "cost",
    "newer_forms",
    "numerics",
    "shared_memory",
    "tensor_memory",
)
_SAID: dict[tuple[str, str, str], Claim | str] = {}


@cache
def references() -> tuple[Reference, ...]:
    """All references. PTX ISA is first, since published tables use its numbering."""
    modules = discover(__name__, ("NAME", "SOURCE", "ERRATA", "claim"), APART).values()
    return tuple(sorted(modules, key=lambda module: (module.NAME != "PTX ISA", module.NAME)))


def claims(fragment: Fragment, device: Arch) -> Iterator[tuple[str, Claim | str]]:
    """(name, `claim_of`) of one reference after the other."""
    return ((reference.NAME, claim_of(reference, fragment, device)) for reference in references())


def claim_of(reference: Reference, fragment: Fragment, device: Arch) -> Claim | str:
    """`reference.claim`, called once for each fragment, and for each arch if the source distinguishes archs."""
    key = (reference.NAME, fragment.id, device.name if getattr(reference, "PER_ARCH", True) else "")
    if key not in _SAID:
        _SAID[key] = reference.claim(fragment, device)
    return _SAID[key]
