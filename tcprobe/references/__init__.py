"""What others published, one module per source, in that source's own terms.

A reference is a module of this package with NAME, SOURCE, FINDINGS and
`claim(fragment, device) -> Claim | str`, the string being the reason why it says nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

from tcprobe.arch import Arch
from tcprobe.instruction import Fragment
from tcprobe.plugins import discover
from tcprobe.references.claim import Claim, Finding

__all__ = ["Claim", "Finding", "Reference", "documented", "references"]


class Reference(Protocol):
    """The names that a reference module has."""

    NAME: str
    SOURCE: str
    FINDINGS: tuple[Finding, ...]

    def claim(self, fragment: Fragment, device: Arch) -> Claim | str:
        """What the source says of `fragment` on `device`, or why nothing."""


@cache
def references() -> tuple[Reference, ...]:
    """All references; PTX ISA first, since its numbering is the one that tables are published in."""
    found = discover(__name__, ("NAME", "SOURCE", "FINDINGS", "claim"), apart=("claim",)).values()
    return tuple(sorted(found, key=lambda module: (module.NAME != "PTX ISA", module.NAME)))


def documented(fragment: Fragment, device: Arch) -> tuple[str, Claim] | None:
    """What the first reference that says anything of `fragment` on `device` says, and its name."""
    claims = ((reference.NAME, reference.claim(fragment, device)) for reference in references())
    return next(((name, claim) for name, claim in claims if isinstance(claim, Claim)), None)
