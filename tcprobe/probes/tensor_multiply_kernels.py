"""PTX of tcgen05.mma and tcgen05.cp: write images to shared and tensor memory, run one instruction, read cells back.

A block is a warpgroup. Its warp w accesses lanes 32 w to 32 w + 31 by tcgen05.st and tcgen05.ld.32x32b.x1, column by
column. All 512 columns are POISON first, so that cells that the instruction does not write are noticed. Forms of two
CTAs run in clusters of two; the first CTA issues. The plan has, for each block, which images it takes and their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.instruction import Instruction
from tcprobe.probes import ptx, tensor_memory
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.tensor_multiply_images import PLAN, REGIONS, ROOM_A, ROOM_B
from tcprobe.probes.tensor_multiply_op import TensorCopy, TensorMultiply
from tcprobe.probes.wgmma_input_kernels import copy_to_shared

ALIGNMENT, ALL_COLUMNS = 1024, 512
SLOT, ARRIVED = ROOM_A + ROOM_B, ROOM_A + ROOM_B + 8  # offsets of the allocated address and of the mbarrier
SHARED_BYTES = 120 << 10  # more than half of an SM's: one block allocates its tensor memory at a time
FEW_SCALES = 3  # most scales of a row with blocks of 32 elements; with more, blocks have 16
POINTERS = ("plan", "a", "b", "t", "out")
REGISTERS = (
    ".reg .b32 %warp, %base, %there, %taddr, %own, %cell, %value, %column, %columns, %dcolumns, %abytes, %bbytes, %at;",
    ".reg .b32 %to, %ia, %ib, %it, %idesc, %ta, %meta, %sa, %sb, %rank, %place4, %v<4>;",
    ".reg .b64 %adesc, %bdesc, %low, %place;",
    ".reg .b16 %both;",
    ".reg .pred %p, %first, %one, %done, %never;",
)


@cache
def multiply_kernel(instruction: Instruction, a_in_tensor: bool = False, vector: int = 0) -> Kernel:
    """The probe of a multiply, for any M and N."""
    op = TensorMultiply(instruction, a_in_tensor, vector)
    parts = ["multiply", instruction.id, *["a_tensor"] * a_in_tensor, *([f"{vector}x"] if vector else [])]
    text = tensor_memory.instruction_text(instruction).replace("%p;", "%never;")
    if a_in_tensor:
        text = text.replace("%adesc", "[%ta]")
    if vector > FEW_SCALES:
        text = text.replace(tensor_memory.BLOCK, ".block16")
    since = tensor_memory.SINCE if vector else instruction.target.ptx
    return _kernel(".".join(parts), op, (text, "cta_group::2" in instruction.id, since))


@cache
def copy_kernel(instruction: Instruction, multicast: str = "") -> Kernel:
    """The probe of a copy; the source is where A is."""
    multicasts = instruction.stated.get("multicast", ("",))
    text = tensor_memory.instruction_text(instruction).replace(str(multicasts[0]), multicast)
    return _kernel(
        f"copy.{instruction.id}.{multicast}", TensorCopy(instruction, multicast), (text, False, instruction.target.ptx)
    )


def _kernel(name: str, probe_op: TensorMultiply | TensorCopy, spelled_as: tuple[str, bool, str]) -> Kernel:
    """`spelled_as`: the instruction, whether two CTAs run it, and the PTX version that its spelling needs."""
    text, paired, since = spelled_as
    name = ptx.identifier(name)
    memory = f".extern .shared .align {ALIGNMENT} .b8 {name}_memory[];\n"
    cluster = ".explicitcluster .reqnctapercluster 2, 1, 1" if paired else ""
    body = [*_prologue(name, paired), *_fill(paired), *_issue(text, paired), *_read_back(), *_epilogue(paired)]
    source = memory + ptx.entry(name, POINTERS, REGISTERS, body, cluster)
    return Kernel(name, probe_op, source, probe_op.instruction.target.at_least(since))


def _prologue(name: str, paired: bool) -> list[str]:
    """Load the block's plan, copy images to shared memory, allocate all columns, initialize an mbarrier."""
    group = _group(paired)
    return [
        f"mov.u32 %base, {name}_memory;",
        f"add.u32 %base, %base, {ALIGNMENT - 1};",
        f"and.b32 %base, %base, -{ALIGNMENT};",
        f"add.u32 %there, %base, {ROOM_A};",
        "shr.u32 %warp, %lane, 5;",
        "setp.eq.u32 %first, %warp, 0;",
        "setp.eq.u32 %one, %lane, 0;",
        f"mad.wide.u32 %plan, %x, {4 * PLAN}, %plan;",
        "ld.global.v4.b32 {%ia, %ib, %it, %idesc}, [%plan];",
        "ld.global.v2.b64 {%adesc, %bdesc}, [%plan+16];",
        "ld.global.v4.b32 {%abytes, %bbytes, %columns, %dcolumns}, [%plan+32];",
        "mad.wide.u32 %a, %ia, %abytes, %a;",
        "mad.wide.u32 %b, %ib, %bbytes, %b;",
        *copy_to_shared("%a", "%base", "%abytes", "BRING_A"),
        *copy_to_shared("%b", "%there", "%bbytes", "BRING_B"),
        f"@%first tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [%base+{SLOT}], {ALL_COLUMNS};",
        f"@%first tcgen05.relinquish_alloc_permit.{group}.sync.aligned;",
        f"@%one mbarrier.init.shared::cta.b64 [%base+{ARRIVED}], 1;",
        "fence.mbarrier_init.release.cluster;",
        "fence.proxy.async;",
        *_synchronize(paired),
        f"ld.shared.b32 %taddr, [%base+{SLOT}];",
        "shl.b32 %own, %warp, 21;",  # 32 lanes per warp; the lane is the upper half of an address
        "add.u32 %own, %own, %taddr;",
    ]


def _fill(paired: bool) -> list[str]:
    """Write POISON to all columns, then the operands' image to theirs."""
    store = ["tcgen05.st.sync.aligned.32x32b.x1.b32 [%cell], {%value};", "tcgen05.wait::st.sync.aligned;"]
    return [
        f"mov.b32 %value, {ptx.POISON * 0x01010101:#x};",
        f"mov.b32 %to, {ALL_COLUMNS};",
        *_columns("POISON", "%to", ["add.u32 %cell, %own, %column;", *store]),
        "mul.lo.u32 %at, %columns, 4;",
        f"mad.lo.u32 %place4, %it, {WARPGROUP}, %lane;",
        "mad.wide.u32 %t, %place4, %at, %t;",
        f"add.u32 %to, %own, {min(REGIONS.values())};",
        *_columns(
            "OPERANDS",
            "%columns",
            ["add.u32 %cell, %to, %column;", "ld.global.b32 %value, [%t];", "add.u64 %t, %t, 4;", *store],
        ),
        *_synchronize(paired),
    ]


def _issue(instruction: str, paired: bool) -> list[str]:
    """One thread, of the first CTA, issues the instruction and commits it; all threads wait."""
    arrive = "mbarrier::arrive::one.shared::cluster"
    to = f"{arrive}.multicast::cluster.b64 [%base+{ARRIVED}], %both" if paired else f"{arrive}.b64 [%base+{ARRIVED}]"
    rank = ["mov.u32 %rank, %cluster_ctarank;", "setp.eq.and.u32 %first, %rank, 0, %first;"] if paired else []
    return [
        *(
            f"add.u32 %{name}, %taddr, {REGIONS[region]};"
            for name, region in zip(("ta", "meta", "sa", "sb"), REGIONS, strict=True)
        ),
        *(
            line
            for name, where in (("adesc", "base"), ("bdesc", "there"))
            for line in (f"shr.u32 %to, %{where}, 4;", "cvt.u64.u32 %low, %to;", f"add.u64 %{name}, %{name}, %low;")
        ),
        "setp.ne.u32 %never, %lane, %lane;",
        "mov.b16 %both, 3;",
        *rank,
        "@!%first bra.uni ISSUED;",
        "elect.sync _|%one, 0xffffffff;",
        f"@%one {instruction}",
        f"@%one tcgen05.commit.{_group(paired)}.{to};",
        "ISSUED:",
        "WAIT:",
        f"mbarrier.try_wait.parity.shared::cta.b64 %done, [%base+{ARRIVED}], 0;",
        "@!%done bra WAIT;",
        "tcgen05.fence::after_thread_sync;",
    ]


def _read_back() -> list[str]:
    """Store the first columns of all lanes, lane by lane."""
    return [
        f"mad.lo.u32 %place4, %x, {WARPGROUP}, %lane;",
        "mul.lo.u32 %at, %dcolumns, 4;",
        "mad.wide.u32 %out, %place4, %at, %out;",
        *_columns(
            "READ",
            "%dcolumns",
            [
                "add.u32 %cell, %own, %column;",
                "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%value}, [%cell];",
                "tcgen05.wait::ld.sync.aligned;",
                "st.global.b32 [%out], %value;",
                "add.u64 %out, %out, 4;",
            ],
        ),
    ]


def _epilogue(paired: bool) -> list[str]:
    return [
        *_synchronize(paired),
        "setp.eq.u32 %first, %warp, 0;",
        f"@%first tcgen05.dealloc.{_group(paired)}.sync.aligned.b32 %taddr, {ALL_COLUMNS};",
    ]


def _synchronize(paired: bool) -> list[str]:
    """Synchronize the block or the cluster, and order accesses to tensor memory around that."""
    barrier = ["barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"] if paired else ["bar.sync 0;"]
    return ["tcgen05.fence::before_thread_sync;", *barrier, "tcgen05.fence::after_thread_sync;"]


def _group(paired: bool) -> str:
    return f"cta_group::{1 + paired}"


def _columns(label: str, count: str, ptx_lines: Sequence[str]) -> list[str]:
    """`ptx_lines` for %column from 0 to `count` - 1."""
    return [
        "mov.u32 %column, 0;",
        f"{label}:",
        f"setp.ge.u32 %p, %column, {count};",
        f"@%p bra.uni {label}_DONE;",
        *ptx_lines,
        "add.u32 %column, %column, 1;",
        f"bra.uni {label};",
        f"{label}_DONE:",
    ]
