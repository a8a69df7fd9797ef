"""Data of cp.async that are read before they are there.

Followed is, on every way: how many groups may run that were committed, and of each copy how many groups were committed
since, its own among them. A wait for at most n groups ends the copies of more than n; a barrier then makes them known
to all threads. Found are

- reads on a way where no wait has ended any group yet, of shared memory that nothing else wrote;
- waits that end no group although some run, or part of what a round of a loop commits: they ask for too few. They do
  where a kernel first comes to them whatever way it takes: how many groups a prologue commits may depend on how often
  its loops go round, and on branches that go together;
- loops that commit copies and read shared memory, and go round without a wait;
- reads of bytes that a running copy brings, and reads of bytes that a copy of another warp brought with no barrier
  since, where the addresses of both follow from the thread; of a block whose size nothing states, by the warps that
  there are in any case.

A loop that commits and does not wait may commit any number of groups: of a wait behind it nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np

from tcprobe.check.rule import Finding, Severity, undecided
from tcprobe.graph import reached
from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Ints
from tcprobe.sass.addresses import Reach, reaches
from tcprobe.sass.decode import Form
from tcprobe.sass.flow import at_each, forward
from tcprobe.sass.kernel import Instruction, Kernel

NAME = "unfinished-copy"
SEVERITY: Severity = "error"
SAYS = (
    "data of cp.async are read from shared memory before the wait that ends the copy, or before the barrier behind it"
)
FIX = "cp.async.wait_group of few enough groups, then a barrier, before the data are read"
EVIDENCE = (
    "PTX ISA, cp.async: the copy is complete for the executing thread when cp.async.wait_group or wait_all has "
    "waited for its group; for other threads, once they synchronise with it behind that.",
    "Measured on an H200 (docs/checks_h200.json): read without the wait, 8,650,592 to 8,650,752 of 8,650,752 "
    "words wrong a launch; with it 0. That a barrier is missing was not measured.",
)
OTHER_WRITERS = ("STS", "STSM", "ATOMS", "UTMALDG", "UBLKCP", "STAS")
MANY = 16  # groups from which on they are not counted
WINDOW = 0xFFFFFF  # bits of an address inside a block's shared memory
WORD = 4  # bytes


Way = tuple[int, bool]  # how many groups were committed, and whether a wait has come that ended none of them

NO_WAY = frozenset[Way]()
START = -1  # in the place of a wait, the kernel's begin


class Copies(NamedTuple):
    """What may be the case.

    Ways on which no wait has ended a group: with no copy issued yet (`fresh`), or with some (`waiting`, `issued` the
    last of them). `other`: something else wrote shared memory. `groups`: how many may run, and the number of the last
    wait. `since`: by running copy the ways since then; `alone`: copies that have ended with no barrier since.
    `settled`: how many groups a wait has left with no commit since.
    """

    fresh: frozenset[Way] = frozenset({(0, False)})
    waiting: frozenset[Way] = frozenset()
    issued: int = -1
    other: bool = False
    groups: frozenset[tuple[int, int]] = frozenset({(0, START)})
    since: Mapping[int, frozenset[Way]] = {}
    alone: frozenset[int] = frozenset()
    settled: int | None = None


def reads_shared(instruction: Instruction) -> bool:
    """Whether it reads shared memory."""
    if instruction.guard == "never":
        return False
    if instruction.mnemonic in ("LDS", "LDSM"):
        return True
    return instruction.mnemonic.endswith("GMMA") and any(o.prefix == "gdesc" for o in instruction.operands)


def left_by(instruction: Instruction) -> int | None:
    """How many groups may run behind a wait; None of another instruction.

    A wait for an mbarrier may be the one at which copies arrive: it leaves none.
    """
    return _left_by(instruction.form)


@lru_cache(maxsize=1 << 12)
def _left_by(form: Form) -> int | None:
    if form.guard or form.mnemonic != "DEPBAR":
        return -1 if form.opcode.startswith("SYNCS.PHASECHK") and not form.guard else None
    return next((operand.value for operand in form.operands if operand.kind == "number"), 0)


@lru_cache(maxsize=1 << 14)
def _counts(form: Form) -> bool:
    """Whether `step` looks at an instruction."""
    return (
        form.mnemonic in ("LDGSTS", "LDGDEPBAR", *OTHER_WRITERS)
        or form.opcode.startswith(("BAR.SYNC", "BAR.RED", "UCGABAR_WAIT"))
        or _left_by(form) is not None
    )


def step(filling: frozenset[int], copies: Copies, instruction: Instruction) -> Copies:
    """What may be the case after an instruction; `filling` has the commits of loops that do not wait."""
    mnemonic = instruction.mnemonic
    if mnemonic == "LDGSTS" and instruction.guard != "never":
        return copies._replace(
            fresh=copies.fresh if instruction.guard else frozenset(),
            waiting=copies.fresh | copies.waiting,
            issued=instruction.number,
            since={**copies.since, instruction.number: frozenset({(0, False)})},
        )
    if mnemonic in OTHER_WRITERS:
        return copies._replace(other=True)
    if mnemonic == "LDGDEPBAR":
        more = MANY if instruction.number in filling else 1
        return copies._replace(
            fresh=_committed(copies.fresh, more),
            waiting=_committed(copies.waiting, more),
            groups=frozenset((min(groups + more, MANY), last) for groups, last in copies.groups),
            settled=None,
            since={number: _committed(ways, more) for number, ways in copies.since.items()},
        )
    if instruction.opcode.startswith(("BAR.SYNC", "BAR.RED", "UCGABAR_WAIT")) and not instruction.guard:
        return copies._replace(alone=frozenset())
    left = left_by(instruction)
    return copies if left is None else _waited(copies, instruction.number, left)


def _waited(copies: Copies, number: int, left: int) -> Copies:
    """Behind a wait, by its number, for at most `left` groups, -1: for an mbarrier."""
    running = {number: still for number, ways in copies.since.items() if (still := _not_ended(ways, left))}
    ended = copies.since.keys() - running.keys()
    return copies._replace(
        fresh=_not_ended(copies.fresh, left),
        waiting=_not_ended(copies.waiting, left),
        groups=copies.groups if left < 0 else frozenset((min(groups, left), number) for groups, _ in copies.groups),
        since=running,
        alone=copies.alone | ended if left >= 0 else frozenset(),
        settled=copies.settled if left < 0 else min(left, left if copies.settled is None else copies.settled),
    )


def commits_of_loops(kernel: Kernel) -> frozenset[int]:
    """The commits in loops that have no wait."""
    found = set[int]()
    for loop in kernel.loops:
        inside = [
            kernel.instructions[number]
            for block in loop
            for number in range(kernel.blocks[block].first, kernel.blocks[block].end)
        ]
        if not any(left_by(i) is not None for i in inside):
            found |= {i.number for i in inside if i.mnemonic == "LDGDEPBAR"}
    return frozenset(found)


@lru_cache(maxsize=1 << 12)
def _committed(ways: frozenset[Way], more: int) -> frozenset[Way]:
    return frozenset((min(groups + more, MANY), waited) for groups, waited in ways)


@lru_cache(maxsize=1 << 12)
def _not_ended(ways: frozenset[Way], left: int) -> frozenset[Way]:
    """The ways on which a wait for at most `left` groups ends none.

    Of those that come to their first wait, all or none: which of them is gone is not known here.
    """
    first = max((groups for groups, waited in ways if not waited), default=MANY)
    return frozenset((groups, True) for groups, waited in ways if groups <= left and (waited or first <= left))


def joined(one: Copies, other: Copies) -> Copies:
    """What may be the case on either way."""
    return Copies(
        one.fresh | other.fresh,
        one.waiting | other.waiting,
        max(one.issued, other.issued),
        one.other or other.other,
        one.groups | other.groups,
        {n: one.since.get(n, NO_WAY) | other.since.get(n, NO_WAY) for n in one.since.keys() | other.since.keys()},
        one.alone | other.alone,
        None if one.settled is None or other.settled is None else max(one.settled, other.settled),
    )


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each read that comes too early, each wait that ends nothing."""
    if "LDGSTS" not in kernel.mnemonics or not any(reads_shared(i) for i in kernel.instructions):
        return
    follow = partial(step, commits_of_loops(kernel))
    places = Places(kernel)
    unwaited = reads_of_loops(kernel, places)
    counted = "UTMACMDFLUSH" not in kernel.mnemonics  # groups of bulk copies are waited for alike
    doubted = False
    for instruction, copies in at_each(kernel, forward(kernel, Copies(), follow, joined, _counts), follow, _counts):
        left = left_by(instruction)
        if reads_shared(instruction):
            words = too_early(kernel, places, instruction, copies) or unwaited.get(instruction.number)
            if words:
                text = f"{instruction.opcode} reads shared memory {words[0]}; {FIX}"
                copy = kernel.instructions[words[1]].address
                yield Finding(NAME, SEVERITY, instruction.address, text, {"copy": copy})
            elif not doubted and (reason := in_doubt(places, instruction, copies)):
                doubted = True
                yield undecided(NAME, instruction, reason)
        elif counted and left is not None and left > 0:
            ends = ends_too_few(kernel, instruction, copies.groups, left)
            again = copies.settled is not None and left >= copies.settled  # the wait before has left as few
            if ends is not None and not again:
                text = f"a wait that lets {left} groups run ends {ends or 'none'} where it is first reached; {FIX}"
                yield Finding(
                    NAME, SEVERITY, instruction.address, text, {"groups": min(copies.groups)[0], "left": left}
                )


def ends_too_few(kernel: Kernel, wait: Instruction, groups: frozenset[tuple[int, int]], left: int) -> int | None:
    """How many groups a wait ends at least, where that is none although some run, or a part of a round; else None.

    In a loop as many groups run at a wait, from the second round on, as it leaves and a round commits.
    """
    most = max((number for number, last in groups if last != wait.number), default=0)
    if 0 < most <= left:
        return 0
    # a loop that waits for all in its last round has a way, never gone, from there to its next round
    some = {number for number, last in groups if number and (last == START or left_by(kernel.instructions[last]))}
    a_round, fewest = max(some, default=0) - left, min(some, default=0)
    part = len(some) == 2 and max(some) < MANY and a_round > 1 and fewest % a_round == 0
    return fewest - left if part and 0 < fewest - left < a_round else None


def too_early(kernel: Kernel, places: Places, read: Instruction, copies: Copies) -> tuple[str, int] | None:
    """Why a read comes too early, and the copy; None if nothing says so."""
    if copies.waiting and not copies.other:
        name = kernel.instructions[copies.issued].opcode
        return f"on a way where no wait has ended a copy of {name}", copies.issued
    met = places.first_met(read.number, copies.since)
    if met is not None:
        return f"that {kernel.instructions[met].opcode} still fills", met
    for number in copies.alone:
        crossing = places.of_others(read.number, number)
        if crossing or (crossing is None and places.shared and places.unlike(read.number, number)):
            return f"that {kernel.instructions[number].opcode} of another warp filled, with no barrier since", number
    return None


def in_doubt(places: Places, read: Instruction, copies: Copies) -> str:
    """Why it is not known whether a read comes too early; empty if it is known."""
    if copies.alone and not places.own_only:
        return f"whether other warps copied what {read.opcode} reads behind a wait with no barrier since"
    if places.first_met(read.number, copies.since, every=True) is not None:
        return f"whether a block has so many threads that {read.opcode} reads what a copy still brings"
    return ""


def reads_of_loops(kernel: Kernel, places: Places) -> dict[int, tuple[str, int]]:
    """The reads in loops that commit copies and go round without a wait, with why they come too early, and a copy.

    Where something else than copies wrote shared memory before, as a table that is looked up, those of tiles, by
    ldmatrix and wgmma, unless it is written in the loop, and those of which bytes say that they are a copy's.
    """
    waits = {
        number
        for number, block in enumerate(kernel.blocks)
        if any(left_by(kernel.instructions[j]) is not None for j in range(block.first, block.end))
    }
    found = {}
    for number in range(len(kernel.blocks)):
        inside = [] if number in waits else _of(kernel, number, "LDGDEPBAR")
        circle = _circle(kernel, number, waits) if inside else set()
        members = [i for block in sorted(circle) for i in _instructions(kernel, block)]
        filled = [i for i in members if i.mnemonic == "LDGSTS"]
        if filled:
            ahead = [i for block in reached(kernel.before, circle) for i in _instructions(kernel, block)]
            stored_inside, stored = (any(i.mnemonic in OTHER_WRITERS for i in each) for each in (members, ahead))
            for i in members:
                plain = not stored or (not stored_inside and i.mnemonic != "LDS")
                if reads_shared(i) and (plain or places.first_met(i.number, [copy.number for copy in filled])):
                    words = f"in a loop that copies with {filled[0].opcode} and goes round without a wait"
                    found[i.number] = words, filled[0].number
    return found


def _instructions(kernel: Kernel, number: int) -> list[Instruction]:
    block = kernel.blocks[number]
    return [kernel.instructions[j] for j in range(block.first, block.end)]


def _of(kernel: Kernel, number: int, mnemonic: str) -> list[Instruction]:
    return [i for i in _instructions(kernel, number) if i.mnemonic == mnemonic]


def _circle(kernel: Kernel, start: int, without: set[int]) -> set[int]:
    """The blocks on ways from a block back to itself that avoid others."""
    ahead = reached([block.after for block in kernel.blocks], kernel.blocks[start].after, without)
    return ahead & reached(kernel.before, kernel.before[start], without) if start in ahead else set()


class Places:
    """Which words of shared memory the copies and reads of a kernel reach, where that follows from the thread."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._reaches: dict[int, Reach] | None = None
        self._words: dict[int, Ints | None] = {}
        self._sets: dict[tuple[int, int | None], frozenset[int]] = {}

    @cached_property
    def _stated(self) -> bool:
        """Whether the kernel states how many threads a block has, or has at most."""
        return bool(self._kernel.code.threads or self._kernel.code.most_threads)

    def _reach(self, number: int) -> Reach | None:
        if self._reaches is None:
            self._reaches = {reach.instruction.number: reach for reach in reaches(self._kernel)}
        return self._reaches.get(number)

    def _of(self, number: int) -> Ints | None:
        """Words by warp, (warps, n); -1 where a lane takes no part. None where they do not follow."""
        if number not in self._words:
            reach = self._reach(number)
            self._words[number] = _words(reach) if reach is not None else None
        return self._words[number]

    @cached_property
    def shared(self) -> bool:
        """Whether some warp reads what another one copies, by those copies and reads of which both follow."""
        reads = self._union(i.number for i in self._kernel.instructions if i.mnemonic in ("LDS", "LDSM"))
        copies = self._union(i.number for i in self._kernel.instructions if i.mnemonic == "LDGSTS")
        return len(reads) == len(copies) and self._crossing(reads, copies)

    @cached_property
    def own_only(self) -> bool:
        """Whether a block is one warp."""
        threads = self._kernel.code.threads
        most = int(np.prod(threads)) if threads else self._kernel.code.most_threads
        return most is not None and 0 < most <= WARP

    def _union(self, numbers: Iterator[int]) -> list[Ints]:
        """By warp, the words of all instructions of which they follow."""
        found = [words for number in numbers if (words := self._of(number)) is not None]
        counts = {len(words) for words in found}
        if len(counts) != 1:
            return []
        return [np.unique(np.concatenate([words[warp] for words in found])) for warp in range(counts.pop())]

    def first_met(self, read: int, copies: Iterable[int], every: bool = False) -> int | None:
        """The first of copies that brings words of a read; `every`: by all warps that a block may have."""
        warps = None if self._stated or every else 1
        own = self._set(read, warps)
        return next((copy for copy in copies if not own.isdisjoint(self._set(copy, warps))), None) if own else None

    def _set(self, number: int, warps: int | None) -> frozenset[int]:
        """The words of the first warps, or all; none where they do not follow."""
        if (number, warps) not in self._sets:
            words = self._of(number)
            own = None if words is None else words[:warps]
            self._sets[number, warps] = frozenset(() if own is None else own[own >= 0].tolist())
        return self._sets[number, warps]

    def of_others(self, read: int, copy: int) -> bool | None:
        """Whether some warp reads words that another one's copy brought; None where they do not follow."""
        ours, theirs = self._of(read), self._of(copy)
        if ours is None or theirs is None or len(ours) != len(theirs):
            return None
        return self._crossing(list(ours), list(theirs))

    def unlike(self, read: int, copy: int) -> bool:
        """Whether the addresses of a read and a copy do not differ by the same in all lanes, as where each reads its
        own.
        """
        ours, theirs = (self._reach(number) for number in (read, copy))
        if ours is None or theirs is None:
            return False
        both = ours.active & theirs.active
        apart = np.broadcast_to(ours.address.known - theirs.address.known, both.shape)[both]
        return bool(ours.address.unknown | theirs.address.unknown) or len(np.unique(apart)) > 1

    def _crossing(self, reads: Sequence[Ints], copies: Sequence[Ints]) -> bool:
        """Whether some warp has words among its reads that other warps copied and it did not."""
        if not copies:
            return False
        if not self._stated:
            reads, copies = reads[:2], copies[:2]
        brought = np.unique(np.concatenate(copies))
        brought = brought[brought >= 0]
        return any(
            bool(np.setdiff1d(np.intersect1d(read, brought), own).size) for read, own in zip(reads, copies, strict=True)
        )


def _words(reach: Reach) -> Ints | None:
    """The words of an access by warp; None where they do not follow, or it may not be known which lanes take part."""
    address = reach.address
    if (
        (address.xor_unknown | address.unknown | address.add_unknown) & WINDOW
        or len(set(reach.shapes)) > 1
        or not reach.sure
    ):
        return None
    form = reach.instruction.form
    lanes, size = 32, next((int(bits) // 8 for bits in ("64", "128") if form.has(bits)), WORD)
    if form.mnemonic == "LDSM":
        lanes, size = {"4": 32, "2": 16}.get(form.opcode.rpartition(".")[2], 8), 16
    known, active = np.broadcast_arrays(address.known & np.uint32(WINDOW), reach.active)
    places = known[:, :lanes].astype(np.int64)[:, :, None] // WORD + np.arange(size // WORD)
    found: Ints = np.where(active[:, :lanes, None], places, -1).reshape(len(known), -1)
    return found


_COPY = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out) .maxntid 128 {
  .reg .b32 %r<8>; .reg .b64 %d<4>;
  .shared .align 16 .b8 tile[2048];
  ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; cvt.u64.u32 %d2, %r1; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
  mov.u32 %r2, tile; add.u32 %r3, %r2, %r1;
  cp.async.cg.shared.global [%r3], [%d0], 16;
  cp.async.commit_group;
  <wait>bar.sync 0;
  xor.b32 %r1, %r1, 2032; add.u32 %r3, %r2, %r1;
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];
  st.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7};
  ret;
}"""
FAILS = _COPY.replace("<wait>", "")
PASSES = _COPY.replace("<wait>", "cp.async.wait_group 0; ")
