"""What machine opcodes do: a line an opcode in opcodes.csv, which everything that reads machine code asks.

    opcode     a mnemonic; or one with modifiers, a line of its own where these change what it does, or what is stated
               of its price: IMAD.WIDE; `X.*` are the forms of X with modifiers, `U*` what no other line has
    kind       compute, load, store, reduction, atomic, copy, prefetch, multiply, matrix move, exchange (between lanes),
               special register, barrier, mbarrier, group (of what is in flight), fence, elect, grant,
               dependent launch, branch, indirect branch, call, return, exit, converge, filler, other
    reads, writes
               memory spaces, as PTX names them, generic where the address decides; "predicates" where all of them are
    proxy      async where the memory is accessed through it (PTX ISA, async proxy)
    outputs    "" where the first operands are written; none; granted: a predicate that comes first, if one does;
               predicate: one, whatever follows; votes: all but the last operand
    widths     what decides how many registers operands take: see `sass.widths`
    lanes      warp: PTX has it as .sync.aligned; alike: its results are alike in all lanes if what it reads is
    ablated    the class of `ablate`
    modelled   by `predict`: request, through the queue of shared memory; ruled, by a rule of its own; by probes of
               prices: banks, of 32 bits, its reads of registers are counted
    pipe, cycles, latency, ports
               of sm_90, where nobody measured it: the pipe of a scheduler, cycles that it is held, cycles to the
               result, cycles that each bank of registers is held
    source     of these

A line without a kind states a price alone. Kinds and spaces follow the instruction set reference of the CUDA Binary
Utilities 13.0 and what ptxas makes of PTX.

>>> opcode("LDS.128").reads, opcode("UBLKCP.S.G").writes, opcode("TEX.SCR").kind
(('shared',), ('shared',), '')
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from tcprobe import facts

KINDS = (
    *("compute", "load", "store", "reduction", "atomic", "copy", "prefetch", "multiply", "matrix move", "exchange"),
    *("special register", "barrier", "mbarrier", "group", "fence", "elect", "grant", "dependent launch"),
    *("branch", "indirect branch", "call", "return", "exit", "converge", "filler", "other"),
)
BY_LANE = ("load", "store", "reduction", "atomic", "copy", "matrix move")  # each lane names an address


class Opcode(NamedTuple):
    """A line of opcodes.csv."""

    opcode: str
    kind: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    proxy: str
    outputs: str
    widths: tuple[str, ...]
    lanes: str
    ablated: str
    modelled: str
    pipe: str
    cycles: float | None
    latency: float | None
    ports: int | None
    source: str

    @property
    def stores(self) -> bool:
        """Whether lanes store registers to memory of the block, of the GPU or of their own, by the generic proxy."""
        stored = {"shared", "global", "local", "generic"}.intersection(self.writes)
        return bool(stored) and self.outputs == "none" and self.kind != "copy" and not self.proxy

    @property
    def accesses(self) -> bool:
        """Whether lanes access memory, each at an address of its own, by the generic proxy."""
        return self.kind in BY_LANE and not self.proxy


UNLISTED = Opcode("", "", (), (), "", "", ("",), "", "", "", "", None, None, None, "")


@cache
def rows() -> tuple[Opcode, ...]:
    """All lines."""
    return facts.read(
        __file__,
        "opcodes.csv",
        Opcode,
        reads=_spaces,
        writes=_spaces,
        widths=lambda cell: tuple(cell.split("|")),
        cycles=facts.optional(float),
        latency=facts.optional(float),
        ports=facts.optional(int),
    )


def _spaces(cell: str) -> tuple[str, ...]:
    return tuple(cell.split("|")) if cell else ()


@cache
def _by_name() -> dict[str, Opcode]:
    return {row.opcode: row for row in rows() if row.kind}


@cache
def opcode(name: str) -> Opcode:
    """What an opcode does, as "LDG.E.128": the line of most of its modifiers; UNLISTED where there is none."""
    while name:
        if name in _by_name():
            return _by_name()[name]
        name = name.rpartition(".")[0]
    return UNLISTED


@cache
def mnemonics(is_one: Callable[[Opcode], bool]) -> frozenset[str]:
    """The mnemonics of which something holds."""
    return frozenset(row.opcode for row in rows() if row.kind and "." not in row.opcode and is_one(row))


@cache
def of_kind(*kinds: str) -> frozenset[str]:
    """The mnemonics of some kinds."""
    return frozenset(row.opcode for row in rows() if row.kind in kinds and "." not in row.opcode)


@cache
def of_space(space: str) -> frozenset[str]:
    """The mnemonics that read or write a memory space."""
    return mnemonics(lambda row: space in row.reads + row.writes)


def multiplies(name: str) -> bool:
    """Whether an opcode multiplies matrices: also one that no line says anything of, by its name."""
    mnemonic = name.partition(".")[0]
    return mnemonic in of_kind("multiply") or (mnemonic.isalpha() and mnemonic.endswith("MMA") and mnemonic != "MMA")


@cache
def stated(name: str) -> Opcode | None:
    """The line that states a price of an opcode: that of most of its modifiers; None where there is none."""
    found = [row for row in rows() if row.pipe and _fits(row.opcode, name)]
    return max(found, key=lambda row: len(row.opcode.rstrip(".*")), default=None)


def _fits(line: str, name: str) -> bool:
    if line.endswith("*"):
        return name.startswith(line[:-1]) and len(name) > len(line) - 1
    return name == line or name.startswith(f"{line}.")
