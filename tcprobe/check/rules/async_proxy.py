"""Shared memory that ordinary stores fill and the async proxy reads, without a proxy fence between.

Followed are the stores that no fence has come behind, on some way, and the waits at barriers with no fence since. Where
a wgmma or a bulk copy reads shared memory, stores count that have no fence on a way to it; and of other roles, from
which no way leads, those that come unfenced to an arrival at a barrier at which the reader has waited.

A store wrote what is read if their bytes meet (`shared_bytes`), or if nothing but stores without a fence can have
written it. What cp.async brought is found likewise, by the rule `cp-async-proxy`. All that one fence would mend, stores
and what reads their bytes, is one finding.

Of global memory, stores are compared with bulk copies into shared memory where both addresses are sums of the same
parameter, indices and numbers (`sums`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tcprobe.check.rule import Finding, Severity, undecided
from tcprobe.graph import reached
from tcprobe.sass.barriers import WAITS, arrives, barriers, waits
from tcprobe.sass.decode import Form
from tcprobe.sass.flow import at_each, forward
from tcprobe.sass.iterations import Known, TooManyError, over_rounds, rounds
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.requests import width
from tcprobe.sass.shared_bytes import COPIES_OUT, STORES, Units, open_ended
from tcprobe.sass.shared_bytes import reads as read
from tcprobe.sass.shared_bytes import writes as written
from tcprobe.sass.sums import Sum, sums

NAME = "async-proxy"
SEVERITY: Severity = "error"
SAYS = (
    "shared memory that ordinary stores filled is read by wgmma or a bulk copy without a proxy fence between, or "
    "global memory by a bulk copy"
)
FIX = "fence.proxy.async.shared::cta behind the stores, before the barrier that the reader waits at"
FIX_GLOBAL = "fence.proxy.async.global behind the stores, before the barrier that the copy waits at"
EVIDENCE = (
    "PTX ISA, wgmma.fence: an async proxy fence must be used to establish an ordering between prior writes to shared "
    "memory matrices and subsequent accesses to the same matrices in wgmma.mma_async.",
    "PTX ISA, async proxy of cp.async.bulk: accessing the same memory across proxies needs a cross-proxy fence.",
    "Measured on an H200, eight blocks per SM, 20 launches (docs/checks_h200.json): st.shared, then wgmma, "
    "4,296,718 to 4,300,732 of 4,325,376 elements wrong a launch; st.shared, then a bulk copy, up to 3,888 of "
    "34,603,008, in some launches none; 0 with the fence.",
)
FILLS = ("UTMALDG", "UBLKCP.S")
COPIES_IN = ("UBLKCP.S.G",)
COPIED = "LDGSTS"  # by cp.async
FENCE = "FENCE.VIEW.ASYNC"
LEAST_COPY = 16  # bytes
UNKNOWN = Known(frozenset(), False)


class Unfenced(NamedTuple):
    """Numbers of stores to shared memory, and of waits at barriers, with no fence since on some way."""

    stores: frozenset[int] = frozenset()
    waits: frozenset[int] = frozenset()


class Reading(NamedTuple):
    """A reader, and what may have written what it reads: stores with no fence on a way to it; by store of another role
    the arrivals to which it comes unfenced; and the waits behind which it reads.
    """

    reader: Instruction
    before: frozenset[int]
    others: Mapping[int, tuple[int, ...]]
    waits: frozenset[int]


class Missing(NamedTuple):
    """A fence that is missing: stores, and what reads their bytes."""

    stores: tuple[Instruction, ...]
    readers: tuple[Instruction, ...]


class Found(NamedTuple):
    """Of a kernel: fences that are missing; the first reader of which that is not known, the store, and why."""

    missing: tuple[Missing, ...] = ()
    doubts: tuple[tuple[Instruction, Instruction, str], ...] = ()


def fences(instruction: Instruction) -> bool:
    """Whether it is a proxy fence for shared memory."""
    return instruction.opcode.startswith(FENCE) and not instruction.form.has("G")


def reads_shared(instruction: Instruction) -> bool:
    """Whether the async proxy reads shared memory for it."""
    if instruction.guard == "never":
        return False
    if instruction.mnemonic.endswith(("GMMA", "MMA")) and instruction.mnemonic[:1] in "HIQBU":
        return any(operand.prefix == "gdesc" and operand.first >= 0 for operand in instruction.operands)
    return instruction.opcode.startswith(COPIES_OUT)


@lru_cache(maxsize=1 << 14)
def _counts(form: Form) -> bool:
    """Whether `step` looks at an instruction."""
    looked_at = form.mnemonic in STORES or form.opcode.startswith((FENCE, *WAITS))
    return form.guard != "never" and looked_at


def step(unfenced: Unfenced, instruction: Instruction) -> Unfenced:
    """The stores and waits without a fence since, after an instruction."""
    if fences(instruction):
        return unfenced if instruction.guard else Unfenced()
    if instruction.mnemonic in STORES:
        return unfenced._replace(stores=unfenced.stores | {instruction.number})
    if waits(instruction):
        return unfenced._replace(waits=unfenced.waits | {instruction.number})
    return unfenced


def joined(one: Unfenced, other: Unfenced) -> Unfenced:
    """Those of either way."""
    return Unfenced(one.stores | other.stores, one.waits | other.waits)


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each fence that is missing; at most one note."""
    yield from findings(kernel, NAME, SEVERITY, FIX, copied=False)
    if {"STG", "UBLKCP"} <= kernel.mnemonics:
        yield from _of_global(kernel)


def findings(kernel: Kernel, rule: str, severity: Severity, fix: str, copied: bool) -> Iterator[Finding]:
    """The fences that are missing behind cp.async, or behind stores."""
    found = missing_fences(kernel)
    own = [each for each in found.missing if (each.stores[0].mnemonic == COPIED) == copied]
    for each in own:
        reader, store = each.readers[0], each.stores[0]
        text = f"{reader.opcode} reads shared memory that {store.opcode} wrote, with no proxy fence between; {fix}"
        yield Finding(rule, severity, reader.address, text, {"writer": store.address, "readers": len(each.readers)})
    for reader, store, reason in [] if own else found.doubts:
        if (store.mnemonic == COPIED) == copied:
            yield undecided(rule, reader, reason)
            return


@lru_cache(maxsize=1)
def missing_fences(kernel: Kernel) -> Found:
    """The fences for shared memory that a kernel lacks."""
    _reached.cache_clear()  # of the kernel before
    _stores.cache_clear()
    _unfilled.cache_clear()
    _meeting.cache_clear()
    readings = list(_readings(kernel))
    if not readings:
        return Found()
    try:
        bytes_of = _Bytes(kernel, readings)
    except TooManyError:
        reader = readings[0].reader
        store = kernel.instructions[max([*readings[0].before, *readings[0].others])]
        return Found((), ((reader, store, f"what {reader.opcode} reads, on one of too many ways"),))
    pairs: list[tuple[frozenset[int], int]] = []
    doubts = []
    for reading in readings:
        shown, doubt = _judged(kernel, bytes_of, reading)
        for copied in (False, True):
            if own := frozenset(n for n in shown if (kernel.instructions[n].mnemonic == COPIED) == copied):
                pairs.append((own, reading.reader.number))
        if doubt is not None:
            doubts.append((reading.reader, *doubt))
    return Found(tuple(_by_fence(kernel, pairs)), tuple(doubts))


def _readings(kernel: Kernel) -> Iterator[Reading]:
    """The readers that some store without a fence may have written for."""
    readers = [i for i in kernel.instructions if reads_shared(i) and i.number in kernel.block_of]
    if not readers or kernel.mnemonics.isdisjoint(STORES):
        return
    every = at_each(kernel, forward(kernel, Unfenced(), step, joined, _counts), step, _counts)
    facts = {i.number: fact for i, fact in every if reads_shared(i) or arrives(i)}
    arrivals: dict[int, tuple[int, ...]] = {}
    for i in kernel.instructions:
        if arrives(i) and i.number in facts:
            for store in facts[i.number].stores:
                arrivals[store] = *arrivals.get(store, ()), i.number
    published: dict[int, dict[int, tuple[int, ...]]] = {}  # by block, of stores from and to which no way leads
    for reader in readers:
        block = kernel.block_of[reader.number]
        if block not in published:
            related = _stores(kernel, _ahead(kernel, reader.number)) | _stores(kernel, _behind(kernel, reader.number))
            published[block] = {n: behind for n, behind in arrivals.items() if n not in related}
        before, waited = facts[reader.number]
        others = published[block] if waited else {}
        if before or others:
            yield Reading(reader, before, others, waited)


def _ahead(kernel: Kernel, number: int) -> frozenset[int]:
    """The blocks from which a way leads to an instruction, its own too."""
    return _reached(kernel, kernel.block_of[number], True)


def _behind(kernel: Kernel, number: int) -> frozenset[int]:
    """The blocks to which a way leads from an instruction, its own too."""
    return _reached(kernel, kernel.block_of[number], False)


@lru_cache(maxsize=1 << 12)
def _reached(kernel: Kernel, block: int, back: bool) -> frozenset[int]:
    follows = kernel.before if back else [block.after for block in kernel.blocks]
    return frozenset(reached(follows, [block]))


@lru_cache(maxsize=1 << 12)
def _stores(kernel: Kernel, blocks: frozenset[int]) -> frozenset[int]:
    """The stores in blocks."""
    return frozenset(
        number
        for each in blocks
        for number in range(kernel.blocks[each].first, kernel.blocks[each].end)
        if kernel.instructions[number].mnemonic in STORES
    )


class _Bytes:
    """The bytes that readers, stores and bulk copies touch, and the barriers of arrivals and waits, where known."""

    def __init__(self, kernel: Kernel, readings: Sequence[Reading]) -> None:
        every = [i for i in kernel.instructions if i.number in kernel.block_of and i.guard != "never"]
        self.stores = frozenset(i.number for i in every if i.mnemonic in STORES)
        self.fills = frozenset(i.number for i in every if i.opcode.startswith(FILLS))
        self.generic = any(i.mnemonic == "ST" for i in every)
        self.bare = not any(fences(i) for i in every)
        readers = {reading.reader.number for reading in readings}
        meeting = {n for reading in readings if reading.others for n in reading.waits}
        roles = {kernel.block_of[reading.reader.number]: reading.others for reading in readings if reading.others}
        meeting |= {n for others in roles.values() for arrivals in set(others.values()) for n in arrivals}
        found, reader = rounds(kernel, self.stores | self.fills | readers | meeting)
        self.written = over_rounds(found, self.stores | self.fills, lambda i, state: written(i, reader, state))
        self.read = over_rounds(found, readers, lambda i, state: read(i, reader, state))
        self.barriers = over_rounds(found, meeting, lambda i, state: barriers(i, reader, state))
        self._alike: dict[Known, list[int]] = {}  # stores by what they write
        for store in self.stores:
            self._alike.setdefault(self.written.get(store, UNKNOWN), []).append(store)
        self.come: dict[tuple[int, frozenset[int]], dict[int, bool]] = {}  # by block of a reader, and its waits
        self._meet: dict[tuple[Known, bool], dict[int, bool | None]] = {}
        self._same: dict[tuple[tuple[int, ...], tuple[int, ...]], bool | None] = {}

    def meet(self, reader: Instruction) -> Mapping[int, bool | None]:
        """By store, whether it writes what is read; None where that is not known."""
        key = self.read.get(reader.number, UNKNOWN), open_ended(reader)
        if key not in self._meet:
            self._meet[key] = {n: met for to, alike in self._alike.items() for met in [_met(to, *key)] for n in alike}
        return self._meet[key]

    def filling(self, reader: Instruction) -> frozenset[int]:
        """The bulk copies that may bring what is read: those that begin at or before the last of it."""
        units, whole = self.read.get(reader.number, UNKNOWN)
        last, copies = max(units, default=0), {copy: self.written.get(copy, UNKNOWN) for copy in self.fills}
        return frozenset(
            copy for copy, to in copies.items() if not (whole and to.whole) or min(to.units, default=0) <= last
        )

    def same_barrier(self, arrivals: tuple[int, ...], meeting: tuple[int, ...]) -> bool | None:
        """Whether one of some arrivals is at a barrier that one of some waits is for; None where that is not known."""
        if (arrivals, meeting) not in self._same:
            arrived, waited = ([self.barriers.get(n, UNKNOWN) for n in each] for each in (arrivals, meeting))
            units = frozenset[int]().union(*(each.units for each in arrived))
            whole = not (arrived and waited) or all(each.whole for each in (*arrived, *waited))
            met = any(not units.isdisjoint(each.units) for each in waited)
            self._same[arrivals, meeting] = met or (False if whole else None)
        return self._same[arrivals, meeting]


def _met(written: Known, read: Known, goes_on: bool) -> bool | None:
    """Whether units of both are the same, or behind the first one that is read where it is not known how many are."""
    if not written.units.isdisjoint(read.units):
        return True
    behind = goes_on and written.units and read.units and max(written.units) > min(read.units)
    return False if written.whole and read.whole and not behind else None


def _judged(
    kernel: Kernel, bytes_of: _Bytes, reading: Reading
) -> tuple[frozenset[int], tuple[Instruction, str] | None]:
    """The stores without a fence that wrote what is read; else one that may have, and why that is not known."""
    reader = reading.reader
    fills = bytes_of.filling(reader)
    comes = dict.fromkeys(_last(kernel, reading, fills), True) | _come(kernel, bytes_of, reading)
    meets = bytes_of.meet(reader)
    earlier = bytes_of.stores - (
        _stores(kernel, _behind(kernel, reader.number)) - _stores(kernel, _ahead(kernel, reader.number))
    )
    fenced = frozenset[int]().union(*(bytes_of.written.get(n, UNKNOWN).units for n in earlier - comes.keys()))
    shown = frozenset(
        n
        for n, sure in comes.items()
        if sure and meets[n] and (n in reading.before or not _common(bytes_of, n, reader) <= fenced)
    )
    if shown and (not fills or reader.opcode.startswith(COPIES_OUT)):
        return shown, None
    may = frozenset(n for n in earlier if meets[n] is not False)
    unfenced = bytes_of.bare or (not bytes_of.generic and all(comes.get(n) for n in may))
    if may and unfenced and not fills:  # whichever of them wrote it
        return frozenset(n for n in may if kernel.instructions[n].mnemonic == COPIED) or may, None
    doubted = shown or frozenset(n for n in comes if meets[n] is not False)
    if not doubted:
        return frozenset(), None
    store = kernel.instructions[min(doubted, key=lambda n: (kernel.instructions[n].mnemonic != COPIED, n))]
    reason = f"whether {reader.opcode} reads what {store.opcode} stored without a fence"
    return frozenset(), (store, f"{reason}, or what copies brought" if fills else reason)


def _last(kernel: Kernel, reading: Reading, fills: frozenset[int]) -> frozenset[int]:
    """The stores before a reader from which a way leads to it with no bulk copy into shared memory on it."""
    number = reading.reader.number
    if not fills or not reading.before or number in fills:
        return reading.before if number not in fills else frozenset()
    block = kernel.blocks[kernel.block_of[number]]
    first = max((n + 1 for n in fills if block.first <= n < number), default=block.first)
    own = frozenset(n for n in reading.before if first <= n < number)
    if first > block.first:
        return own
    return own | reading.before & _unfilled(kernel, kernel.block_of[number], fills)


@lru_cache(maxsize=1 << 12)
def _unfilled(kernel: Kernel, block: int, fills: frozenset[int]) -> frozenset[int]:
    """The stores from which a way leads to a block with none of `fills` on it."""
    last = {}
    for n in sorted(fills):
        last[kernel.block_of[n]] = n
    seen = reached({n: () if n in last else before for n, before in kernel.before.items()}, kernel.before[block])
    places = ((last.get(n, kernel.blocks[n].first - 1) + 1, kernel.blocks[n].end) for n in seen)
    return frozenset(n for start, end in places for n in range(start, end) if kernel.instructions[n].mnemonic in STORES)


def _come(kernel: Kernel, bytes_of: _Bytes, reading: Reading) -> dict[int, bool]:
    """The stores of other roles that the reader has waited for; False where it is not known at which barrier."""
    key = kernel.block_of[reading.reader.number], reading.waits
    if key not in bytes_of.come:
        found = bytes_of.come[key] = {}
        for store, arrivals in reading.others.items():
            same = bytes_of.same_barrier(arrivals, _meeting(kernel, kernel.block_of[store], reading.waits))
            if same is not False:
                found[store] = same is True
    return bytes_of.come[key]


@lru_cache(maxsize=1 << 12)
def _meeting(kernel: Kernel, block: int, waits: frozenset[int]) -> tuple[int, ...]:
    """The waits that may be for a store in a block.

    One that comes before the store and not behind it, as that for the kernel's begin, is for none of its.
    """
    ahead, behind = _reached(kernel, block, True), _reached(kernel, block, False)
    return tuple(n for n in waits if kernel.block_of[n] in behind or kernel.block_of[n] not in ahead)


def _common(bytes_of: _Bytes, store: int, reader: Instruction) -> Units:
    return bytes_of.written[store].units & bytes_of.read[reader.number].units


def _by_fence(kernel: Kernel, pairs: Iterable[tuple[frozenset[int], int]]) -> Iterator[Missing]:
    """Stores that have a reader in common, or stand in one block, want one fence."""
    groups: list[tuple[frozenset[int], frozenset[int]]] = []
    for stores, reader in pairs:
        blocks, whole, readers = {kernel.block_of[n] for n in stores}, stores, frozenset({reader})
        for group in [group for group in groups if any(kernel.block_of[n] in blocks for n in group[0])]:
            groups.remove(group)
            whole, readers = whole | group[0], readers | group[1]
        groups.append((whole, readers))
    at = kernel.instructions
    for stores, readers in sorted(groups, key=lambda group: min(group[1])):
        yield Missing(tuple(at[n] for n in sorted(stores)), tuple(at[n] for n in sorted(readers)))


def _of_global(kernel: Kernel) -> Iterator[Finding]:
    """Bulk copies of global memory that a store wrote with no fence since, by what both addresses are sums of."""
    start = frozenset[int]()

    def after(unfenced: frozenset[int], instruction: Instruction) -> frozenset[int]:
        if _fences_global(kernel, instruction) and not instruction.guard:
            return frozenset()
        return unfenced | {instruction.number} if instruction.mnemonic == "STG" else unfenced

    def counts(form: Form) -> bool:
        return form.mnemonic == "STG" or form.opcode.startswith(FENCE)

    before = {
        i.number: unfenced
        for i, unfenced in at_each(kernel, forward(kernel, start, after, frozenset.union, counts), after, counts)
        if i.opcode.startswith(COPIES_IN) and i.guard != "never" and unfenced
    }
    places = sums(kernel, [*before, *frozenset[int]().union(*before.values())]) if before else {}
    for number, unfenced in before.items():
        reader = kernel.instructions[number]
        for store in (kernel.instructions[j] for j in sorted(unfenced)):
            if _hits(places.get(store.number), width(store.form), places.get(number)):
                text = (
                    f"{reader.opcode} reads global memory that {store.opcode} wrote, with no proxy fence between; "
                    f"{FIX_GLOBAL}"
                )
                yield Finding(NAME, SEVERITY, reader.address, text, {"writer": store.address})
                break


def _fences_global(kernel: Kernel, instruction: Instruction) -> bool:
    """Whether it is a proxy fence for global memory: its own, or that of all, with a membar of the GPU before."""
    if not instruction.opcode.startswith(FENCE):
        return False
    before = kernel.instructions[max(0, instruction.number - 4) : instruction.number]
    return instruction.form.has("G") or any(i.opcode == "MEMBAR.ALL.GPU" for i in before)


def _hits(store: Sum | None, size: int, copy: Sum | None) -> bool:
    """Whether the stores of a warp's first lanes lie where a copy of at least LEAST_COPY bytes begins."""
    if store is None or copy is None or not any(name.startswith("c[") for name in copy.terms):
        return False
    apart = store.less(copy)
    return (
        set(apart.terms) <= {"SR_TID.X"} and apart.terms.get("SR_TID.X", 0) >= 0 and -size < apart.number < LEAST_COPY
    )


_MULTIPLY = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out) .maxntid 128 {
  .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .f32 %f<4>;
  .shared .align 128 .b8 tile[2048];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;
  st.shared.v4.u32 [%r1], {%r0, %r0, %r0, %r0};
  <fence>bar.sync 0;
  shr.u32 %r3, %r2, 4; cvt.u64.u32 %d0, %r3; or.b64 %d0, %d0, 0x1000080000;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r0, 16; add.u64 %d1, %d1, %d2;
  st.global.v4.f32 [%d1], {%f0, %f1, %f2, %f3};
  ret;
}"""
FAILS = _MULTIPLY.replace("<fence>", "")
PASSES = _MULTIPLY.replace("<fence>", "fence.proxy.async.shared::cta; ")
