"""What an opcode of a kernel's main loop costs, one finding for each, and the constants of an SM beside them.

`opcodes` are what one copy becomes in the machine code that was timed; `covers` are patterns of the opcodes whose price
this is. `latency` is by operand, to the result, null where no chain of it can be written; those `at_most` have another
opcode in the chain, or the cycles that the compiler leaves behind another one. `interval` is of an SM at its best,
`one_warp` of one warp, `curve` by warps and chains. `reads` has the interval by how many registers each of the two
banks reads for one. `beside` has, by the opcode that stands for a pipe, both alone and together; `pipe` follows: the
one whose opcode adds its cycles. `by` has numbers along one axis, such as cycles of an instruction by the length of its
loop. `modes` are as those of costs.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from tcprobe.errors import DataError
from tcprobe.isa.arch import arch
from tcprobe.store.finding import Finding, how
from tcprobe.store.kinds.cost import MOST_SPREAD, Cycles, MHz, Modes, Overlap, PerCopy, Point, check_modes

METHODS = ("live",)
WITHIN = 0.05  # of one another are the cycles of two devices that agree
WHAT = "times the opcodes of main loops: latency by operand, interval, and the pipe that they need"
Register = Literal["a", "b", "c"]  # an operand by its place in the machine code
REGISTERS: tuple[Register, ...] = ("a", "b", "c")
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
# pipes by the names that profilers print; "issue" needs none beyond its slot, "other" none of those that were tried
PIPES = ("fma", "fmaheavy", "alu", "fp16", "xu", "lsu", "uniform", "adu", "fp64", "tensor", "cbu", "issue", "other")
CONSTANTS = ("instruction-cache", "register-ports")  # subjects that are no opcode
OLDEST = "sm_90"  # whose machine code the loops have


class Reads(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Cycles an SM needs for one opcode that reads so many registers of the first and the second bank."""

    banks: Annotated[list[Annotated[float, msgspec.Meta(ge=0, le=8)]], msgspec.Meta(min_length=2, max_length=2)]
    cycles: Cycles


class Sample(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A number at a place of an axis."""

    at: Count
    cycles: Cycles


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What was found of an opcode."""

    opcodes: dict[str, PerCopy]
    covers: list[str]
    pipe: str
    spread: Annotated[float, msgspec.Meta(ge=0)]
    latency: dict[Register, Cycles | None] = {}
    at_most: list[Register] = []
    interval: Point | None = None
    one_warp: Cycles | None = None
    curve: list[Point] = []
    reads: list[Reads] = []
    beside: dict[str, Overlap] = {}
    by: dict[str, list[Sample]] = {}
    modes: Modes = {}
    mhz: MHz | None = None
    refused: dict[str, str] = {}


def check(finding: Finding) -> None:
    """DataError for a pipe that no profiler names, runs that differ much, or points that contradict each other."""
    try:
        msgspec.convert(msgspec.to_builtins(finding.body), Body)
    except msgspec.ValidationError as error:
        raise DataError(f"{finding.subject}: {error}") from None
    body, stems = finding.body, {pattern.split(".")[0].rstrip("*") for pattern in finding.body.covers}
    if arch(finding.arch).number < arch(OLDEST).number:
        raise DataError(f"{finding.subject}: the loops of opcodes are of {OLDEST} and later, not of {finding.arch}.")
    if finding.subject not in CONSTANTS and finding.subject.split(".")[0] not in stems:
        raise DataError(f"{finding.subject} is not an opcode that its own patterns cover.")
    seen = [opcode for opcode in body.opcodes if any(fnmatch.fnmatchcase(opcode, one) for one in body.covers)]
    if not body.opcodes or (body.covers and not seen):
        raise DataError(f"{finding.subject}: no opcode of it was seen in the loop.")
    if body.pipe not in PIPES:
        raise DataError(f"{finding.subject}: {body.pipe!r} is no pipe; pipes are {', '.join(PIPES)}.")
    if not 0 <= body.spread <= MOST_SPREAD:
        raise DataError(
            f"{finding.subject}: the median run and the nearest to it differ by {body.spread:.0%}, more than "
            f"{MOST_SPREAD:.0%}: is the GPU used by others?"
        )
    check_modes(finding, numbers(body))
    if body.interval and body.curve and body.interval not in body.curve:
        raise DataError(f"{finding.subject}: its interval is not a point of its curve.")


def covering(opcode: str, bodies: Mapping[str, Body]) -> str | None:
    """The subject whose price covers an opcode as nvdisasm prints it; of several the one with the longest pattern."""
    found = [(len(one), id_) for id_, body in bodies.items() for one in body.covers if fnmatch.fnmatchcase(opcode, one)]
    return max(found)[1] if found else None


def essence(body: Body) -> object:
    """What stands in the loop, the pipe, and every number of cycles by what it is of."""
    return {"opcodes": {o: f"{n:g}" for o, n in body.opcodes.items()}, "pipe": body.pipe, **numbers(body)}


def numbers(body: Body) -> dict[str, float]:
    """What is measured of an opcode, by name."""
    one_each = {f"latency {operand}": cycles for operand, cycles in body.latency.items()}
    one_each |= {"interval": body.interval.cycles if body.interval else None, "one_warp": body.one_warp}
    one_each |= {f"reads {row.banks[0]:g} {row.banks[1]:g}": row.cycles for row in body.reads}
    one_each |= {f"beside {other}": pair.together for other, pair in body.beside.items()}
    one_each |= {f"{axis} {point.at}": point.cycles for axis, points in body.by.items() for point in points}
    return {name: cycles for name, cycles in one_each.items() if cycles is not None}


def also(body: Body, other: Body) -> dict[str, list[float]]:
    """What a number may be besides, by name, for another device's to agree with it: another of its modes."""
    del other
    return body.modes


def words(findings: Sequence[Finding]) -> str:
    """What the prices of an arch rest on."""
    spread = max(f.body.spread for f in findings)
    runs = f"the median run of each number and the nearest to it differ by at most {spread:.1%}"
    return f"{how(findings[0])}: {len(findings)} opcodes, {runs}"
