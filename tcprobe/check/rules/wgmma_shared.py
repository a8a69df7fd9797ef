"""Shared memory that is filled anew while a wgmma in flight reads it through a descriptor.

Followed are the multiplies that run, as by `wgmma-operands`. Where something writes shared memory while one may run, or
arrives at a barrier behind which another role writes, loops are taken apart (`rounds`) and bytes are compared: those of
a multiply by its descriptors, those of stores and cp.async by the addresses of all lanes, of a bulk copy from its first
on, by its size where that is known. A role that fills shared memory behind a wait for an mbarrier fills what the
barrier stands for: who arrives there while a multiply reads that lets it be filled early. An arrival at a barrier at
which bulk copies complete says what these will bring, and frees nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tcprobe.check.rule import Finding, Severity, undecided
from tcprobe.check.rules import wgmma_operands as groups
from tcprobe.isa.shared_memory import MOST_SHARED
from tcprobe.sass.barriers import Barriers, barriers, completes_at
from tcprobe.sass.decode import Form
from tcprobe.sass.flow import at_each, forward
from tcprobe.sass.iterations import ITERATIONS, Iterations, TooManyError, rounds
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.reader import Reader
from tcprobe.sass.shared_bytes import FILLS, UNIT, Units, fills, reads, reads_tiles, writes, writes_tiles

NAME = "wgmma-shared"
SEVERITY: Severity = "error"
SAYS = "shared memory that a wgmma reads through a descriptor is filled anew before the wait that ends its group"
FIX = "wgmma.wait_group of few enough groups, then a barrier, before the tile is filled again"
EVIDENCE = (
    "PTX ISA, wgmma.mma_async: it is asynchronous, and reads its matrices in shared memory through the async proxy; "
    "wgmma.wait_group is what waits for the completion of its group.",
    "Measured on an H200, eight blocks per SM, 20 launches (docs/checks_h200.json): st.shared into A while multiplies "
    "of m64n256k16 read it, up to 17,118,672 of 17,301,504 elements wrong; cp.async, 16,564,171; of m64n64k16 490 to "
    "7,925 of 4,325,376; 0 behind the wait.",
)
ROLE_FILLS = ("STS.", "LDGSTS", *FILLS)  # of a role that does nothing else
ARRIVES, CHECKS = "SYNCS.ARRIVE", "SYNCS.PHASECHK"
MEETS = ("BAR.SYNC", "BAR.RED", "UCGABAR_WAIT")
Waited = frozenset[int | None]  # barriers
Freed = dict[int | None, tuple[Units, Instruction]]  # by barrier, what is filled behind a wait for it, and by what


class Places(NamedTuple):
    """By number of an instruction of the rounds: the units of shared memory that it reads or writes, the barrier that
    it arrives at or waits for; None where they do not follow. `full`: the barriers at which bulk copies complete.
    """

    units: Mapping[int, Units | None]
    barriers: Mapping[int, Barriers | None]
    full: Barriers


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each instruction that writes, or lets another role write; at most one note."""
    early = _early(kernel)
    if early:
        try:
            found = _Compared(kernel, early)
        except TooManyError:
            reason = f"whether {early[0].opcode} writes what a multiply reads, on one of too many ways"
            yield undecided(NAME, early[0], reason)
            return
        yield from found.findings.values()
        if found.doubt and not found.findings:
            yield undecided(NAME, early[0], found.doubt)


def untouched(kernel: Kernel) -> bool:
    """Whether it is known that nothing fills what a multiply in flight reads, nor lets another role do so."""
    early = _early(kernel)
    try:
        found = _Compared(kernel, early) if early else None
    except TooManyError:
        return False
    return found is None or not (found.findings or found.doubt or found.others)


def _early(kernel: Kernel) -> list[Instruction]:
    """What fills shared memory, or arrives at a barrier, on a way where a multiply may run."""
    if not any(writes_tiles(i) for i in kernel.instructions):
        return []
    return [
        i
        for i, running in groups.running_at(kernel)
        if any(reads_tiles(kernel.instructions[number]) for number in running) and i.guard != "never"
        if writes_tiles(i) or i.opcode.startswith(ARRIVES)
    ]


class _Compared:
    """What the rounds of a kernel show: a finding for each instruction; why some of it does not follow, "" if it does.

    `others`: arrivals at barriers of which no role is seen that fills shared memory behind a wait for them.
    """

    def __init__(self, kernel: Kernel, early: Sequence[Instruction]) -> None:
        self.findings: dict[int, Finding] = {}
        self.doubt, self.others = "", set[int]()
        every = {i.number: i for i in kernel.instructions if i.number in kernel.block_of and i.guard != "never"}
        wanted = {number for number, i in every.items() if reads_tiles(i)} | {i.number for i in early}
        if any(i.opcode.startswith(ARRIVES) for i in early):
            wanted |= {number for number, i in every.items() if i.opcode.startswith((*ROLE_FILLS, CHECKS))}
        left = max((groups.groups_left(i) or 0 for i in kernel.instructions), default=0)
        found, reader = rounds(kernel, frozenset(wanted), max(ITERATIONS, left + 2), _counts)
        places = _places(found, reader)
        if any(units and max(units) >= MOST_SHARED // UNIT for units in places.units.values()):
            self.doubt = "it needs more shared memory than an SM has, and descriptors name none there"
            return
        freed = _freed(found, places)
        for i, running in groups.running_at(found):
            if i.number not in found.states or found.first[i.number] in self.findings:
                continue
            readers = [reader for reader in running if reads_tiles(found.instructions[reader])]
            if readers:
                self._compare(kernel, found, places, freed, i, readers)

    def _compare(  # noqa: PLR0913, PLR0917
        self, kernel: Kernel, found: Iterations, places: Places, freed: Freed, i: Instruction, readers: Sequence[int]
    ) -> None:
        """Hold an instruction of the rounds against the multiplies that run before it."""
        number = found.first[i.number]
        if writes_tiles(i):
            units, by = places.units.get(i.number), i
        elif i.opcode.startswith(ARRIVES):
            arrived = places.barriers.get(i.number)
            if arrived is not None and arrived <= places.full:  # nobody, or who issues a copy says what it brings
                return
            barrier = _only(arrived)
            self.others |= {number} - ({number} if barrier in freed else set())
            units, by = freed.get(barrier, (frozenset(), i))
        else:
            return
        hit = next((r for r in readers if units and not units.isdisjoint(places.units.get(r) or ())), None)
        if hit is not None:
            self.findings[number] = _finding(kernel.instructions[number], by, found.instructions[hit], found.first[hit])
        elif units is None or any(places.units.get(reader) is None for reader in readers):
            self.doubt = self.doubt or f"whether {i.opcode} writes shared memory that a multiply in flight reads"


def _finding(at: Instruction, by: Instruction, reader: Instruction, of: int) -> Finding:
    does = (
        f"{at.opcode} writes shared memory that {reader.opcode} reads"
        if by.number == at.number or writes_tiles(at)
        else f"{at.opcode} lets {by.opcode} fill shared memory that {reader.opcode} reads"
    )
    text = f"{does}, before the wait that ends its group; {FIX}"
    return Finding(NAME, SEVERITY, at.address, text, {"reader": 16 * of})


@lru_cache(maxsize=1 << 14)
def _meets(form: Form) -> bool:
    """Whether it waits for other roles."""
    return form.opcode.startswith((CHECKS, *MEETS))


@lru_cache(maxsize=1 << 14)
def _counts(form: Form) -> bool:
    """Whether it is looked at in rounds, if it is asked for or not."""
    return groups.counts(form) or _meets(form) or fills(form)


def _freed(found: Iterations, places: Places) -> Freed:
    """By barrier, what is filled behind a wait for it, and by what."""

    def step(waited: Waited, i: Instruction) -> Waited:
        if i.opcode.startswith(CHECKS) and i.guard != "never":
            return frozenset({_only(places.barriers.get(i.number))})
        return frozenset() if i.opcode.startswith(MEETS) else waited

    freed: Freed = {}
    start: Waited = frozenset()
    for i, waited in at_each(found, forward(found, start, step, frozenset.union, _meets), step, _meets):
        if writes_tiles(i) and len(waited) == 1:
            for barrier in waited - {None}:
                units, by = freed.get(barrier, (frozenset(), i))
                freed[barrier] = units | (places.units.get(i.number) or frozenset()), by
    return freed


def _only(named: Barriers | None) -> int | None:
    """The barrier that all lanes name; None where it is not known, or they name several."""
    return next(iter(named)) if named and len(named) == 1 else None


def _places(found: Iterations, reader: Reader) -> Places:
    units: dict[int, Units | None] = {}
    named: dict[int, Barriers | None] = {}
    full: Barriers = frozenset()
    for number, state in found.states.items():
        instruction = found.instructions[number]
        if reads_tiles(instruction):
            units[number] = reads(instruction, reader, state)
        elif instruction.opcode.startswith((ARRIVES, CHECKS)):
            named[number] = barriers(instruction, reader, state)
        else:
            units[number] = writes(instruction, reader, state)
            if instruction.opcode.startswith(FILLS):
                full |= completes_at(instruction, reader, state) or frozenset()
    return Places(units, named, full)


_LOOP = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 steps) .maxntid 128 {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .f32 %f<4>;
  .shared .align 128 .b8 tile[2048];
  ld.param.u64 %d1, [out]; ld.param.u32 %r0, [steps];
  mov.u32 %r1, %tid.x; shl.b32 %r3, %r1, 4; mov.u32 %r2, tile; add.u32 %r3, %r3, %r2;
  and.b32 %r2, %r2, 262143; shr.u32 %r2, %r2, 4; cvt.u64.u32 %d0, %r2; or.b64 %d0, %d0, 0x1000080000;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
STEP:
  .pragma "nounroll";
  st.shared.v4.u32 [%r3], {%r0, %r0, %r0, %r0};
  fence.proxy.async.shared::cta; bar.sync 0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  <wait>bar.sync 0;
  sub.u32 %r0, %r0, 1; setp.ne.u32 %p, %r0, 0; @%p bra STEP;
  wgmma.wait_group.sync.aligned 0;
  mul.wide.u32 %d2, %r1, 16; add.u64 %d1, %d1, %d2; st.global.v4.f32 [%d1], {%f0, %f1, %f2, %f3};
  ret;
}"""
FAILS = _LOOP.replace("<wait>", "")
PASSES = _LOOP.replace("<wait>", "wgmma.wait_group.sync.aligned 0; ")
