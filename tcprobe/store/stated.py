"""What is documented of a fragment: as a reference states it, or as PTX draws it, read by what was measured.

>>> from tcprobe.isa import arch
>>> from tcprobe.isa.names import resolve
>>> stated(resolve("mma.sp.m16n8k32.row.col.f32.f16.f16.f32.e").fragment, arch.arch("sm_80"))[1].where
'section 9.7.14.6.2 as a figure, which is the table measured live on sm_90'

A figure says the same of every arch, but in no form that could be compared. Where an arch of which tcprobe publishes a
live measurement has the fragment, its table is the one that is drawn.
"""

from __future__ import annotations

from functools import cache

from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.references import claims
from tcprobe.references.claim import Claim
from tcprobe.store.choose import Layers, alone
from tcprobe.store.results import published

FIGURE = " as a figure only"


def stated(fragment: Fragment, arch: Arch) -> tuple[str, Claim] | None:
    """What is documented of a fragment on an arch, and by which reference; None where nothing is."""
    silent = []
    for name, claim in claims(fragment, arch):
        if isinstance(claim, Claim):
            return name, claim
        silent.append((name, claim))
    name, why = silent[0]
    drawn = _claim_of_figure(fragment, arch, why) if why.endswith(FIGURE) else None
    return (name, drawn) if drawn else None


@cache
def _claim_of_figure(fragment: Fragment, arch: Arch, figure: str) -> Claim | None:
    """What the first reference draws in a figure, where no reference states more."""
    others = [other.name for other in ARCHS if other != arch]
    saved = (found for id_ in _alike(fragment) for found in _below().saved(id_, others, ["live"]))
    live = next((found for found in saved if fragment.operand in found.measured.tables), None)
    if live is None:
        return None
    table = live.measured.tables[fragment.operand]
    section = figure.partition(" shows ")[0]
    where = f"{section} as a figure, which is the table measured live on {live.measured.arch}"
    return Claim(table, where, None, table)


def _alike(fragment: Fragment) -> list[str]:
    """The form itself, then those that share its figures: of one opcode and shape, with the same types of A and B."""
    row = inventory.instructions()[fragment.experiment]

    def factors(other: Instruction) -> tuple[object, ...]:
        return other.name.partition(".sync")[0], other.shape, [(f.operand, f.type) for f in other.factors]

    same = [other.id for other in inventory.of_family(row.family) if factors(other) == factors(row)]
    return sorted(same, key=lambda id_: id_ != row.id)


@cache
def _below() -> Layers:
    """What tcprobe publishes."""
    return alone(published())
