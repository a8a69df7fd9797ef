"""Timing one access to shared memory: the cycles that an SM spends on a warp's pattern of addresses.

A block times one pattern. It takes so much shared memory that no second block fits on the SM. Its 16 warps repeat the
access, UNROLL accesses per iteration, between two barriers; the clock is read after each barrier. The cost of one
access follows from the difference between a short and a long run, which cancels what is outside the loop.

Each access of an iteration has its own address register. These registers grow by a step that is zero but comes from
memory: otherwise ptxas would merge accesses or hoist them out of the loop. Lanes with IDLE_LANE skip the loop. Loaded
values go into a sum that is stored, so no load is dead code.

Phases come from the *swap test*: two lanes of a conflict-free pattern exchange their addresses. The pattern stays
conflict-free exactly if both lanes are in one phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP
from tcprobe.isa.shared_memory import SharedAccess
from tcprobe.layout.arrays import Bools, Bytes, Floats, Ints, Words
from tcprobe.probes.ptx import EmulatedCore, Kernel, Launch, entry, identifier

WARPS = 16
UNROLL = 8
REPEATS = (8, 40)  # iterations of the short and the long run
IDLE_LANE = 0xFFFFFFFF
AREA = 32 << 10  # bytes of shared memory that patterns may address
ARENA = 2 << 20  # bytes of global memory that cp.async reads
NEAR = 16 << 10  # the first bytes of the arena, which patterns of banks read
ALIGNED = 1 << 20  # the images before the arena take a multiple of so many bytes
LINE = 128  # bytes of all banks
STEADY = 0.25  # cycles by which runs of a pattern may differ from each other and from a whole number
POINTERS = ("address", "source", "arena", "zero", "out")


class Cases(NamedTuple):
    """Patterns to time: addresses in AREA, -1 for idle lanes, and sources in ARENA; both of shape (patterns, 32)."""

    address: Ints
    source: Ints


@dataclass(frozen=True)
class Timing:
    """The op of a timing kernel. Only a GPU can run it."""

    access: str
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Raises ProbeError: layouts do not determine timing."""
        raise ProbeError(f"{launch.kernel.name}: how long {self.access} takes cannot be emulated.")


def kernel(access: SharedAccess) -> Kernel:
    """The kernel that times an access; `ldm` of a launch is the number of iterations."""
    name = f"banks_{identifier(access.name)}"
    memory = f".extern .shared .align 1024 .b8 {name}_memory[];\n"
    registers = [
        f".reg .u32 %a<{UNROLL}>, %v<{UNROLL * _values(access)}>, %s, %grow, %step, %sum, %n;",
        ".reg .u64 %w, %start, %end;",
        ".reg .pred %active, %more, %first;",
    ]
    text = memory + entry(name, POINTERS, registers, _body(access, name))
    return Kernel(name, Timing(access.name), text, access.target, optimised=True)


def _body(access: SharedAccess, name: str) -> list[str]:
    values = range(UNROLL * _values(access))
    return [
        "and.b32 %n, %lane, 31;",
        "mad.lo.u32 %image, %x, 32, %n;",
        *(f"mad.wide.u32 %{pointer}, %image, 4, %{pointer};" for pointer in ("address", "source")),
        "ld.global.u32 %a0, [%address];",
        "ld.global.u32 %s, [%source];",
        "ld.global.u32 %grow, [%zero];",
        f"setp.ne.u32 %active, %a0, {IDLE_LANE};",
        "cvt.u64.u32 %w, %s;",
        "add.u64 %arena, %arena, %w;",
        f"mov.u32 %n, {name}_memory;",
        "add.u32 %a0, %a0, %n;",
        *(f"add.u32 %a{k}, %a{k - 1}, %grow;" for k in range(1, UNROLL)),
        f"mul.lo.u32 %step, %grow, {UNROLL};",
        *(f"mov.u32 %v{j}, %lane;" for j in values),
        "mov.u32 %sum, 0;",
        "mov.u32 %n, 0;",
        "bar.sync 0;",
        "mov.u64 %start, %clock64;",
        *([] if access.is_matrix else ["@!%active bra DONE;"]),
        "AGAIN:",
        *(_access(access, k) for k in range(UNROLL)),
        *(f"xor.b32 %sum, %sum, %v{j};" for j in values if _gives(access)),
        *(f"add.u32 %a{k}, %a{k}, %step;" for k in range(UNROLL)),
        "add.u32 %n, %n, 1;",
        "setp.lt.u32 %more, %n, %ldm;",
        "@%more bra AGAIN;",
        "DONE:",
        *(["cp.async.wait_all;"] if access.has_source else []),
        "bar.sync 0;",
        "mov.u64 %end, %clock64;",
        "sub.u64 %end, %end, %start;",
        "cvt.u32.u64 %n, %end;",
        "mad.wide.u32 %out, %x, 8, %out;",
        "setp.eq.u32 %first, %lane, 0;",
        "@%first st.global.v2.u32 [%out], {%n, %sum};",
    ]


def _values(access: SharedAccess) -> int:
    """Registers that one access loads or stores."""
    return access.lanes // 8 if access.is_matrix else max(1, access.bytes // 4)


def _gives(access: SharedAccess) -> bool:
    return access.name.startswith(("ld", "atom"))


def _access(access: SharedAccess, k: int) -> str:
    """PTX of access `k` of an iteration."""
    names = [f"%v{j}" for j in range(k * _values(access), (k + 1) * _values(access))]
    several = f"{{{', '.join(names)}}}"
    operation, *rest = access.name.split(".")
    if access.is_matrix:
        form = f"{operation}.sync.aligned.m8n8.{'.'.join(rest)}.shared.b16"
        return f"{form} {several}, [%a{k}];" if _gives(access) else f"{form} [%a{k}], {several};"
    if access.has_source:
        return f"cp.async.ca.shared.global [%a{k}], [%arena], {access.bytes};"
    if operation in ("atom", "red"):
        return f"{access.name} {names[0] + ', ' if operation == 'atom' else ''}[%a{k}], %lane;"
    form = f"{operation}.shared.u{8 * access.bytes}" if access.bytes < 8 else f"{operation}.shared.v{len(names)}.u32"
    operand = several if len(names) > 1 else names[0]
    return f"{form} {operand}, [%a{k}];" if _gives(access) else f"{form} [%a{k}], {operand};"


def launches(access: SharedAccess, bank_cases: Cases, shared_bytes: int) -> list[Launch]:
    """The short and the long run of all patterns; `shared_bytes` keeps a second block off an SM.

    The bank of a source's tag depends on its absolute address. So the images before the arena are padded: the arena is
    as aligned as the allocation, up to ALIGNED.
    """
    address = np.where(bank_cases.address < 0, IDLE_LANE, bank_cases.address).astype(np.uint32)
    arena = ARENA if access.has_source else LINE
    images = (
        _padded_image(address, access),
        _padded_image(bank_cases.source.astype(np.uint32), access),
        np.zeros(arena, np.uint8),
        np.zeros(4, np.uint8),
    )
    inputs = tuple(np.ascontiguousarray(image).view(np.uint8).reshape(1, -1) for image in images)
    grid, size = (len(address), 1, 1), 8 * len(address)
    timed = kernel(access)
    return [Launch(timed, grid, inputs, repeats, size, WARPS * WARP, shared_bytes) for repeats in REPEATS]


def _padded_image(pattern_words: Words, access: SharedAccess) -> Words:
    """An image of 32 words per pattern; if sources matter, padded to a multiple of ALIGNED bytes."""
    if not access.has_source:
        return pattern_words
    whole = np.zeros((-(-pattern_words.nbytes // ALIGNED) * ALIGNED // (4 * WARP), WARP), np.uint32)
    whole[: len(pattern_words)] = pattern_words
    return whole


def decode(outputs: Sequence[Bytes]) -> Floats:
    """Cycles of one access by pattern, shape (patterns,), from the outputs of the short and the long run."""
    short, long = (raw.view(np.uint32).reshape(-1, 2)[:, 0].astype(np.float64) for raw in outputs)
    cycles: Floats = (long - short) / (WARPS * UNROLL * (REPEATS[1] - REPEATS[0]))
    return cycles


def least_and_steady(runs: Sequence[Floats]) -> tuple[Floats, Bools]:
    """(least cycles over all runs, whether a pattern was timed without ambiguity), both (patterns,).

    A pattern is unambiguous if its runs differ by at most STEADY, and are that close to a whole number.
    """
    all_runs = np.array(runs)
    least: Floats = all_runs.min(axis=0)
    spread = all_runs.max(axis=0) - least
    return least, (spread <= STEADY) & (np.abs(least - least.round()) <= STEADY)


def _swaps(lane_bytes: Ints, count: int) -> Iterator[Ints]:
    """A pattern, then the same with each two of its first `count` lanes exchanged."""
    yield lane_bytes
    for i, j in combinations(range(count), 2):
        swapped = lane_bytes.copy()
        swapped[[i, j]] = lane_bytes[[j, i]]
        yield swapped


def swaps(access: SharedAccess) -> Cases:
    """Two conflict-free patterns, each followed by all exchanges of two of its lanes.

    The first has addresses in order. In the second, each line of 128 bytes is rotated by one place more than the line
    before: two lanes that share banks in one pattern do not share them in the other.
    """
    step = max(4, access.bytes)
    line, place = np.divmod(step * np.arange(WARP), LINE)
    bases = (line * LINE + place, line * LINE + (place + line * step) % LINE)
    patterns = [pattern for base in bases for pattern in _swaps(base, access.lanes)]
    source = np.tile(step * np.arange(WARP), (len(patterns), 1))
    return Cases(np.array(patterns), source)


def phases(access: SharedAccess, cycles: Floats) -> list[tuple[int, ...]]:
    """The lanes of each phase, from the cycles of `swaps`; ProbeError if they do not partition the lanes."""
    pairs = list(combinations(range(access.lanes), 2))
    bases = cycles.reshape(2, -1)
    free = (bases[:, 1:].round() == bases[:, :1].round()).all(axis=0)
    together = np.eye(access.lanes, dtype=np.bool_)
    for (i, j), stays in zip(pairs, free, strict=True):
        together[i, j] = together[j, i] = stays
    parts = list(dict.fromkeys(tuple(np.flatnonzero(lanes).tolist()) for lanes in together))
    if sorted(lane for phase in parts for lane in phase) != list(range(access.lanes)):
        raise ProbeError(f"{access.name}: exchanging lanes does not part them into phases: {parts[:4]}.")
    return parts
