"""Counts of registers at which one block fewer fits an SM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
from typing import NamedTuple

from tcprobe import facts
from tcprobe.check.program import Kernel
from tcprobe.check.rule import Finding, Severity
from tcprobe.isa.arch import ARCHS, WARP

NAME = "registers"
SEVERITY: Severity = "warning"
SAYS = "with a few registers fewer in each thread, one block more would fit an SM"
MEND = "ask for that many by .maxnreg or launch bounds and compare, or leave it where one block an SM is enough"
EVIDENCE = (
    "CUDA programming guide, compute capabilities: 65,536 registers of an SM, the most blocks, warps and shared memory "
    "(isa/archs.csv, check/rules/registers.csv).",
    "Registers are given to warps by 256: a thread's count is rounded up to 8 (CUDA occupancy calculator).",
    "Only kernels whose file states the threads of a block are looked at; shared memory that a launch adds is not seen.",
)
FILE = 65536  # registers of an SM
UNIT = 8  # registers of a thread
RESERVED = 1024  # bytes of shared memory that the system takes of each block, from sm_80 on


class Limits(NamedTuple):
    """What an SM holds at most: threads, blocks, KiB of shared memory."""

    threads: int
    blocks: int
    shared_kib: int


@cache
def limits() -> dict[str, Limits]:
    """By arch."""
    rows = {row["arch"]: row for row in facts.read(__file__, "registers.csv")}
    return {
        arch.name: Limits(int(rows[arch.name]["threads"]), int(rows[arch.name]["blocks"]), arch.shared_kib)
        for arch in ARCHS
        if arch.name in rows
    }


def blocks(limit: Limits, threads: int, registers: int, shared: int) -> int:
    """How many blocks fit an SM."""
    warps = -(-threads // WARP)
    by_registers = FILE // (-(-registers // UNIT) * UNIT * WARP * warps)
    by_shared = (limit.shared_kib << 10) // (shared + RESERVED)
    return min(limit.blocks, limit.threads // (warps * WARP), by_registers, by_shared)


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for a kernel that is one unit of registers above a count with which another block fits."""
    code, limit = kernel.code, limits().get(kernel.arch)
    threads = prod(code.threads) if code.threads else code.most_threads
    if limit is None or not threads or not code.registers or code.parameters is None:
        return
    now = blocks(limit, threads, code.registers, code.shared)
    fewer = (-(-code.registers // UNIT) - 1) * UNIT
    then = blocks(limit, threads, fewer, code.shared) if fewer else now
    if then > now > 0:
        numbers = {"registers": code.registers, "blocks": now, "fewer": fewer, "then": then, "threads": threads}
        text = (
            f"{code.registers} registers: {now} block{'s' * (now > 1)} of {threads} threads fit an SM, with {fewer} "
            f"registers {then} would; {MEND}"
        )
        yield Finding(NAME, SEVERITY, 0, text, numbers)
