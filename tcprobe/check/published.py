"""What is published of an arch's machine instructions, for rules: the forms behind opcodes, and their rates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.sass.lowering import Lowering
from tcprobe.store.choose import Layers, layers

_CALL = re.compile(
    r"^\s*(?:@!?%?\w+\s+)?((?:w?mma|wgmma|tcgen05\.mma)\.[\w.:]{1,200})", re.MULTILINE
)  # a multiply in PTX
_HEAD = re.compile(r"\.(?:entry|func)\s+(?:\([^()]{0,2000}\)\s*)?([\w$%]{1,1000})")


class Share(NamedTuple):
    """Multiply-adds a cycle of an opcode's best form, and what its arch can do with that type of A, with sources."""

    macs: float
    most: float
    source: str


@cache
def _layers() -> Layers:
    return layers(None, False)


def row_of(name: str) -> Arch | None:
    """The arch of a name, None where it is not known."""
    return next((row for row in ARCHS if row.name == name), None)


@cache
def lowerings(arch: str) -> Mapping[str, Lowering]:
    """What each multiply becomes on an arch, by id."""
    found: dict[str, Lowering] = {}
    for body, _ in _layers().lowerings(arch):
        for id_, saved in body["instructions"].items():
            if id_ in inventory.instructions():
                found.setdefault(id_, Lowering(**saved))
    return found


@cache
def forms(arch: str, opcode: str) -> tuple[Instruction, ...]:
    """The native multiplies that become an opcode."""
    rows = inventory.instructions()
    found = ((rows[id_], lowering) for id_, lowering in lowerings(arch).items() if opcode in lowering.opcodes)
    return tuple(row for row, lowering in found if row.multiplies and lowering.native(row))


@cache
def share(arch: str, opcode: str) -> Share | None:
    """What an opcode's best form does of what the arch states; None where one of the two is not known."""
    row = row_of(arch)
    measured = _layers().findings("cost", arch) if row else {}
    best: Share | None = None
    for form in forms(arch, opcode):
        cost, most = measured.get(form.id), row.peak(form.type("a")) if row else None
        macs = getattr(cost.finding.body, "macs_per_cycle", None) if cost and not cost.rivals else None
        if row and macs and most and (best is None or macs / most > best.macs / best.most):
            best = Share(macs, most, f"measured on the {arch}; peak: {row.peaks_source}")
    return best


@cache
def _ids() -> Mapping[str, str]:
    return {row.name: row.id for row in inventory.instructions().values()}


@cache
def calls(ptx: str) -> Mapping[str, tuple[str, ...]]:
    """The multiplies in each function of a PTX text, by id, in the order of the text."""
    heads = list(_HEAD.finditer(ptx))
    ends = [head.start() for head in heads[1:]] + [len(ptx)]
    found = {}
    for head, end in zip(heads, ends, strict=True):
        names = dict.fromkeys(_CALL.findall(ptx, head.end(), end))
        found[head[1]] = tuple(_ids()[name] for name in names if name in _ids())
    return found
