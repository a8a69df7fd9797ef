"""Shared memory that ordinary stores fill and the async proxy reads, without a proxy fence between.

Followed are the stores that no fence has come behind, on some way. Where a wgmma or a bulk copy reads shared memory
with such stores before it, they wrote what it reads if nothing else fills shared memory: no tensor or bulk copy.
Where such copies do, what the reader reads decides; a bulk copy out of shared memory reads what was stored last.

Where one role of a kernel stores and another one multiplies, no way leads from the store to the multiply: then a store
that reaches an arrival at a barrier unfenced counts for readers that come behind a wait without a fence.

Of global memory, stores are held against bulk copies into shared memory where both addresses are sums of the same
parameter, indices and numbers (`sums`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.check.rule import Finding, Severity, undecided
from tcprobe.graph import reached
from tcprobe.sass.flow import at_each, forward
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.requests import width
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
    "PTX ISA, cp.async: it is a weak memory operation performed in the generic proxy; so its data need the "
    "fence, too, before wgmma reads them. Triton's Hopper matmul has none as built by 3.4 and 3.6, and has it "
    "by 3.8 and 3.9.",
    "PTX ISA, async proxy of cp.async.bulk: accessing the same memory across proxies needs a cross-proxy fence.",
    "Measured on an H200, eight blocks per SM, 20 launches (docs/checks_h200.json): st.shared, then wgmma, "
    "4,296,718 to 4,300,732 of 4,325,376 elements wrong a launch; st.shared, then a bulk copy, up to 3,888 of "
    "34,603,008, in some launches none; 0 with the fence. cp.async, then wgmma: none wrong. That is an error "
    "by PTX's text alone; hardware has not shown it.",
)
WRITERS = frozenset(("STS", "STSM", "ATOMS", "LDGSTS", "STAS"))
FILLERS = ("UTMALDG", "UBLKCP.S")
COPIES_OUT = ("UTMASTG", "UTMAREDG", "UBLKCP.G.S", "UBLKCP.S.S", "UBLKRED")
ARRIVALS = ("BAR.", "SYNCS.ARRIVE", "UCGABAR_ARV", "ARRIVES")
WAITS = ("BAR.SYNC", "BAR.RED", "SYNCS.PHASECHK", "UCGABAR_WAIT")
COPIES_IN = ("UBLKCP.S.G",)
LEAST_COPY = 16  # bytes
START = -1  # in the place of a store: a wait, or the kernel's begin, with no fence since

Unfenced = frozenset[int]  # numbers of stores; START


def fences(instruction: Instruction) -> bool:
    """Whether it is a proxy fence for shared memory."""
    return instruction.opcode.startswith("FENCE.VIEW.ASYNC") and not instruction.form.has("G")


def reads_shared(instruction: Instruction) -> bool:
    """Whether the async proxy reads shared memory for it."""
    if instruction.mnemonic.endswith(("GMMA", "MMA")) and instruction.mnemonic[:1] in "HIQBU":
        return any(operand.prefix == "gdesc" and operand.first >= 0 for operand in instruction.operands)
    return instruction.opcode.startswith(COPIES_OUT)


def step(unfenced: Unfenced, instruction: Instruction) -> Unfenced:
    """The stores without a fence since, after an instruction."""
    if instruction.guard == "never":
        return unfenced
    if fences(instruction):
        return unfenced if instruction.guard else frozenset()
    if instruction.mnemonic in WRITERS:
        return unfenced | {instruction.number}
    if instruction.opcode.startswith(WAITS):
        return unfenced | {START}
    return unfenced


def joined(one: Unfenced, other: Unfenced) -> Unfenced:
    """Those of either way."""
    return one | other


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each reader."""
    yield from _of_shared(kernel)
    if {"STG", "UBLKCP"} <= kernel.mnemonics:
        yield from _of_global(kernel)


def _of_global(kernel: Kernel) -> Iterator[Finding]:
    """Bulk copies of global memory that a store wrote with no fence since, by what both addresses are sums of."""
    start: Unfenced = frozenset()

    def after(unfenced: Unfenced, instruction: Instruction) -> Unfenced:
        if _fences_global(kernel, instruction) and not instruction.guard:
            return frozenset()
        return unfenced | {instruction.number} if instruction.mnemonic == "STG" else unfenced

    before = {
        i.number: unfenced
        for i, unfenced in at_each(kernel, forward(kernel, start, after, joined), after)
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
    if not instruction.opcode.startswith("FENCE.VIEW.ASYNC"):
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


def _of_shared(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each reader of shared memory."""
    readers = [i for i in kernel.instructions if reads_shared(i)]
    if not readers or kernel.mnemonics.isdisjoint(WRITERS):
        return
    start: Unfenced = frozenset({START})
    before = {i.number: fact for i, fact in at_each(kernel, forward(kernel, start, step, joined), step)}
    arrivals = [i.number for i in kernel.instructions if i.opcode.startswith(ARRIVALS) and i.number in before]
    published = frozenset[int]().union(*(before[number] for number in arrivals)) - {START}
    filled = any(i.opcode.startswith(FILLERS) for i in kernel.instructions)
    for reader in readers:
        fact = before.get(reader.number, frozenset())
        others = published - ahead(kernel, reader) - behind(kernel, reader) if START in fact else frozenset()
        writers = fact - {START} or others
        if writers:
            writer = kernel.instructions[max(writers)]
            copied = reader.opcode.startswith(COPIES_OUT) and not kernel.mnemonics.isdisjoint(("STS", "STSM"))
            if (
                not fact - {START} and writer.mnemonic == "LDGSTS" and copied
            ):  # another role brings factors, this one results
                yield undecided(
                    NAME, reader, f"whether {reader.opcode} reads what another role's {writer.opcode} brought"
                )
            else:
                yield verdict(kernel, reader, writer, filled)


def ahead(kernel: Kernel, reader: Instruction) -> frozenset[int]:
    """The stores from which a way leads to a reader; they count by that way alone."""
    return frozenset(
        number
        for each in reached(kernel.before, [kernel.block_of[reader.number]])
        for number in range(kernel.blocks[each].first, kernel.blocks[each].end)
        if kernel.instructions[number].mnemonic in WRITERS
    )


def behind(kernel: Kernel, reader: Instruction) -> frozenset[int]:
    """The stores to which a way leads from a reader: they come later, as those of an epilogue."""
    later = reached(kernel.successors, kernel.successors.get(reader.number, ()))
    return frozenset(number for number in later if kernel.instructions[number].mnemonic in WRITERS)


def verdict(kernel: Kernel, reader: Instruction, writer: Instruction, filled: bool) -> Finding:
    """An error where the store wrote what is read, else a note."""
    if filled and not reader.opcode.startswith(COPIES_OUT):
        reason = f"whether {reader.opcode} reads what {writer.opcode} stored without a fence, or what copies brought"
        return undecided(NAME, reader, reason)
    text = f"{reader.opcode} reads shared memory that {writer.opcode} wrote, with no proxy fence between; {FIX}"
    return Finding(NAME, SEVERITY, reader.address, text, {"writer": writer.address})


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
