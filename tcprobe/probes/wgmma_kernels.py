"""PTX of warpgroup multiplies: one matrix in shared memory runs through images; D is packed, or stored raw.

The *coded* matrix (B, or A behind a descriptor) is all ones; then it encodes each bit of its elements' numbers; then it
is all zeros. There are three kinds of kernel:

- registers: A is in registers, and the slot with the block's number alone is one. For every D slot that answers (FEW:
  of the first slots of each thread) a word with the D slot and the number of the element of B that it met. SHARED_A: A
  is coded, in shared memory, and the output is as for codes
- codes: the other matrix is fixed (A in registers, B in shared memory); for every D slot what it answered
- raw: one image of both, and all of D: products

If A is sparse, image y of the metadata is used. Shared memory has, from a base aligned to 1024: the coded matrix, the
other one, the answers. Start addresses in descriptors count from their own matrix. Every thread that writes shared
memory fences its writes towards the asynchronous proxy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Array, Bits, Bytes, Ints
from tcprobe.layout.descriptor import PERIOD, decode
from tcprobe.probes import ptx
from tcprobe.probes.ptx import POISON, EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import encode, from_slots, into_slots, unpack
from tcprobe.probes.sparse import columns

KernelKind = Literal["registers", "codes", "raw"]
# fields of a launch's leading dimension: bytes of an image, number of images, flags of a kernel of kind registers
IMAGES_SHIFT, FEW, SHARED_A = 20, 1 << 30, 1 << 31
FEW_SLOTS = 4  # of each thread
FEW_MEETINGS = 8  # words of each A slot: 4 threads hold a row, each in 2 of these slots
BAD = 1 << 16  # in a word of meetings: a product of zeros and ones cannot give these answers
SLOT_SHIFT = 17
ODD = 1 << 31  # in a word of codes: an answer was neither zero nor one
VALUES = range(-8, 9)  # factors that occur in products
UNTOUCHED = int.from_bytes(bytes([POISON] * 4), "little")


@dataclass(frozen=True)
class Warpgroup(FormOp):
    """The op of a kernel: `coded` is the operand whose image changes, `majors` are those of A and B."""

    kind: KernelKind
    coded: str
    majors: tuple[str, str]
    selector: int = 0

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """The output of the launch."""
        return _Run(self, launch, tables).answers().reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class _Run:
    """A launch on a tensor core with these layouts."""

    op: Warpgroup
    launch: Launch
    tables: EmulatedCore

    @property
    def instruction(self) -> Instruction:
        return self.op.instruction

    @property
    def coded(self) -> str:
        """The operand whose image changes in this launch."""
        return "a_smem" if self.op.kind == "registers" and self.launch.ldm & SHARED_A else self.op.coded

    def answers(self) -> Bits:
        """By block, what a kernel of this kind stores."""
        if self.op.kind == "registers" and not self.launch.ldm & SHARED_A:
            return self._meetings()
        return self._raw() if self.op.kind == "raw" else self._codes()

    def _meetings(self) -> Bits:
        row, few = self.instruction, bool(self.launch.ldm & FEW)
        a, d, n = row.fragment("a"), row.fragment("d"), row.shape.n
        acc = np.zeros((row.shape.k, n), np.int64)
        for number, image in enumerate(self.launch.inputs[0]):
            acc |= self._matrix_behind("b_smem", image, _descriptors(self.launch)[0, 0]) << number
        bad = (acc & (1 | 1 << len(self.launch.inputs[0]) - 1)) != 1
        words = (acc >> 1 & BAD - 1) | np.where(bad, BAD, 0)
        holder = np.array([[self.tables.table(d).inverse[m, c][0] for c in range(n)] for m in range(row.shape.m)])
        out = np.full((self.launch.grid[1], a.slots, 1 + (FEW_MEETINGS if few else n)), UNTOUCHED, np.uint32)
        for y in range(self.launch.grid[1]):
            columns = self._columns(y)
            for slot, (m, s) in enumerate(self.tables.table(a).cells):  # type: ignore[misc]
                words_met = holder[m] << SLOT_SHIFT | words[columns[m, s]]
                if few:
                    words_met = words_met[holder[m] % d.elements < FEW_SLOTS]
                out[y, slot, 0] = len(words_met)
                out[y, slot, 1 : 1 + len(words_met)] = words_met[: out.shape[2] - 1]
        return out

    def _codes(self) -> Bits:
        images, others, descriptors = self.launch.inputs[0], self.launch.inputs[1], _descriptors(self.launch)
        descriptors = descriptors[1:] if self.op.kind == "registers" else descriptors
        out = np.zeros((self.launch.grid[1], self.launch.grid[0], self.instruction.fragment("d").slots), np.uint32)
        for y, other in enumerate(others):
            columns = self._columns(y)
            for x, (first, second) in enumerate(descriptors):
                still = self._still(other, second)
                for number, image in enumerate(images):
                    product = self._product(self._matrix_behind(self.coded, image, first), still, columns)
                    slots = self._slots(product)
                    out[y, x] |= np.where(slots == 1, np.uint32(1) << np.uint32(number), 0).astype(np.uint32)
                    out[y, x] |= np.where((slots != 0) & (slots != 1), ODD, 0).astype(np.uint32)
        return out

    def _raw(self) -> Bits:
        d, out = self.instruction.fragment("d"), []
        for x, (image, other, (first, second)) in enumerate(
            zip(*self.launch.inputs[:2], _descriptors(self.launch), strict=True)
        ):
            still = self._still(other, second)
            matrix = self._matrix_behind(self.coded, image, first)
            slots = self._slots(self._product(matrix, still, self._columns(x)))
            out.append(encode(slots[None], d.type, d.slot_bits)[0])
        return np.stack(out)

    def _product(self, matrix: Ints, still: Ints, columns: Ints) -> Ints:
        """D of the coded matrix and the other; `columns` are the columns of A of its stored elements."""
        a, b = (matrix, still) if self.coded == "a_smem" else (still, matrix)
        d: Ints = np.einsum("ms,msn->mn", a, b[columns])
        return d

    def _columns(self, image: int) -> Ints:
        """The column of A of each stored element: (rows, stored columns)."""
        row, e = self.instruction, self.instruction.metadata
        if e is None:
            return np.broadcast_to(np.arange(row.shape.k), (row.shape.m, row.shape.k))
        table = self.tables.table(e).selection(self.op.selector)
        of_image: Ints = columns(e, table, self.launch.inputs[3][image][None])[0]
        return of_image

    def _still(self, memory_image: Bytes, descriptor: int) -> Ints:
        """The matrix that is not coded."""
        if self.coded == "a_smem":
            return self._matrix_behind("b_smem", memory_image, descriptor)
        a = self.instruction.fragment("a")
        slots = values(a.type, unpack(memory_image[None], a.slot_bits)[0])
        return from_slots(self.tables.table(a), a, slots).reshape(a.rows, a.cols)

    def _matrix_behind(self, name: str, memory_image: Bytes, descriptor: int) -> Ints:
        """The matrix behind a descriptor."""
        operand = shared_operand(self.instruction, name)
        major = self.op.majors[name == "b_smem"]
        bits = self.tables.behind(operand, decode(int(descriptor)), major)
        return values(operand.held.type, unpack(memory_image[None], operand.held.slot_bits)[0])[
            bits // operand.held.slot_bits
        ]

    def _slots(self, matrix: Ints) -> Ints:
        d = self.instruction.fragment("d")
        return into_slots(self.tables.table(d), d, matrix.reshape(-1))


def shared_operand(instruction: Instruction, name: str) -> SharedOperand:
    """The operand `name`, "a_smem" or "b_smem"."""
    return next(operand for operand in instruction.described if operand.held.name == name)


def values(kind: str, raw: Array) -> Ints:
    """Bit patterns as whole numbers; 99 if the number is not in VALUES."""
    row = dtype(kind)
    held = (0, 1) if kind == "b1" else [v for v in VALUES if v >= 0 or not kind.startswith("u")]
    value_of_bits = {row.pattern(v, row.bits): v for v in held}
    patterns = np.array(sorted(value_of_bits))
    places = np.searchsorted(patterns, raw).clip(max=len(patterns) - 1)
    numbers = np.array([value_of_bits[p] for p in patterns.tolist()])
    return np.where(patterns[places] == raw, numbers[places], 99)


def _descriptors(launch: Launch) -> NDArray[np.uint64]:
    """By x: (descriptor of the coded matrix, descriptor of the other)."""
    return launch.inputs[2].view(np.uint64).reshape(-1, 2)


def descriptors(coded_matrix: str, other_matrix: str, offset: str) -> list[str]:
    """Load two descriptors; their start addresses count from the coded matrix, and from the other one."""
    return [
        f"ld.global.v2.b64 {{{coded_matrix}, {other_matrix}}}, [%desc+{offset}];",
        *(
            line
            for name, where in ((coded_matrix, "%base"), (other_matrix, "%there"))
            for line in (f"shr.u32 %t, {where}, 4;", "cvt.u64.u32 %low, %t;", f"add.u64 {name}, {name}, %low;")
        ),
    ]


def metadata(image: str) -> list[str]:
    """Load the register of metadata from an image."""
    return [
        f"mov.u32 %image, {image};",
        f"mad.lo.u32 %image, %image, {WARPGROUP}, %lane;",
        "mad.wide.u32 %e, %image, 4, %e;",
        "ld.global.b32 %meta, [%e];",
    ]


def one_slot(instruction: Instruction) -> list[str]:
    """Set A in registers: the slot with the block's number is one, all others are zero."""
    a = instruction.fragment("a")
    each = 32 // a.slot_bits
    return [
        f"div.u32 %t, %x, {a.elements};",
        f"rem.u32 %i, %x, {a.elements};",
        f"rem.u32 %at, %i, {each};",
        f"mul.lo.u32 %at, %at, {a.slot_bits};",
        f"mov.b32 %w, {a.one:#x};",
        "shl.b32 %w, %w, %at;",
        f"div.u32 %i, %i, {each};",
        "setp.eq.u32 %q, %t, %lane;",
        *(line for r in range(4) for line in (f"setp.eq.and.u32 %p, %i, {r}, %q;", f"selp.b32 %a{r}, %w, 0, %p;")),
    ]


def a_image(image: str) -> list[str]:
    """Load A's registers from an image."""
    return [
        f"mad.lo.u32 %image, {image}, {WARPGROUP}, %lane;",
        "mad.wide.u32 %other, %image, 16, %other;",
        "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%other];",
    ]


def b_image(image: str, size: str) -> list[str]:
    """Copy B to shared memory, where it stays as it is."""
    return [
        f"mov.u32 %size, {size};",
        f"mad.wide.u32 %other, {image}, %size, %other;",
        *copy_to_shared("%other", "%there", "%size", "OTHER"),
    ]


def copy_to_shared(source: str, target: str, size: str, begin: str, end: str = "") -> list[str]:
    """All threads copy `size` bytes, a multiple of 16, into shared memory; `begin` and `end` label the loop."""
    end = end or f"{begin}_DONE"
    return [
        "mul.lo.u32 %at, %lane, 16;",
        f"{begin}:",
        f"setp.ge.u32 %p, %at, {size};",
        f"@%p bra {end};",
        "cvt.u64.u32 %low, %at;",
        f"add.u64 %place, {source}, %low;",
        "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%place];",
        f"add.u32 %to, {target}, %at;",
        "st.shared.v4.b32 [%to], {%v0, %v1, %v2, %v3};",
        f"add.u32 %at, %at, {16 * WARPGROUP};",
        f"bra {begin};",
        f"{end}:",
    ]


POINTERS = ("coded", "other", "desc", "out")
ANSWER_BYTES = 4 * WARPGROUP
COUNT_BYTES = 16
FEW_BIT, SHARED_BIT = 30, 31


def other_bytes(instruction: Instruction) -> int:
    """Bytes of B in shared memory where it is fixed: packed without gaps."""
    b = shared_operand(instruction, "b_smem").held
    return b.rows * b.cols * b.slot_bits // 8


def shared_bytes(instruction: Instruction, kind: KernelKind, image_bytes: int, few: bool = False) -> int:
    """Dynamic shared memory of a launch, in bytes."""
    slots = FEW_SLOTS if few else instruction.fragment("d").elements
    answers = 0 if kind == "raw" else _image(instruction, slots) + slots * ANSWER_BYTES
    other = image_bytes if kind == "raw" else other_bytes(instruction)
    return PERIOD + _whole_periods(image_bytes) + _whole_periods(other) + answers + COUNT_BYTES


@lru_cache(maxsize=16)  # launches of a form share a kernel
def kernel(
    instruction: Instruction,
    kind: KernelKind,
    coded: str = "b_smem",
    majors: tuple[str, str] = ("k", "k"),
    selector: int = 0,
) -> Kernel:
    """`coded` is the operand that is coded, "b_smem" or "a_smem"; `majors` are those of A and B."""
    major_suffix = "".join(f".{name}.mn" for name, major in zip(FACTORS, majors, strict=True) if major == "mn")
    selector_suffix = f".selector{selector}" if instruction.metadata else ""
    name = ptx.identifier(f"{kind}.{instruction.id}.{coded}{major_suffix}{selector_suffix}")
    memory = f".extern .shared .align 1024 .b8 {name}_memory[];\n"
    pointers = POINTERS[:3] + (("e",) if instruction.metadata else ()) + POINTERS[3:]
    op = Warpgroup(instruction, kind, coded, majors, selector)
    text = memory + ptx.entry(name, pointers, _registers(instruction), [*_layout(instruction, kind, name), *_body(op)])
    return Kernel(name, op, text, instruction.target)


def _registers(instruction: Instruction) -> list[str]:
    return [
        ptx.declare("d", instruction.fragment("d")),
        ".reg .b32 %a<4>, %v<4>, %w, %acc, %meta;",
        ".reg .u32 %base, %bytes, %size, %images, %there, %answers, %found, %count, %n, %s, %at, %own, %t, %i, %to;",
        ".reg .u32 %slots, %most;",
        ".reg .u64 %da, %db, %place, %low;",
        ".reg .pred %p, %q, %never, %few, %shared;",
    ]


def _body(warpgroup_op: Warpgroup) -> list[str]:
    instruction, by_descriptor = warpgroup_op.instruction, warpgroup_op.coded == "a_smem"
    raw, still = warpgroup_op.kind == "raw", str(other_bytes(instruction))
    image = "%x" if raw else "%y"
    both = {False: multiply(warpgroup_op, by_descriptor=False), True: multiply(warpgroup_op, by_descriptor=True)}
    if warpgroup_op.kind == "registers":
        brought = [
            *descriptors("%db", "%da", "0"),
            "@!%shared bra.uni HOT;",
            *descriptors("%da", "%db", "16"),
            *b_image("%y", still),
            "HOT:",
            *one_slot(instruction),
        ]
        work = ["@%shared bra.uni BEHIND;", *both[False], "bra.uni DONE;", "BEHIND:", *both[True], "DONE:"]
        output = ["@%shared bra.uni TELL;", *_meetings(instruction), "TELL:", *_codes(instruction)]
    else:
        other = b_image(image, "%bytes" if raw else still) if by_descriptor else a_image(image)
        pair = ("%da", "%db") if by_descriptor else ("%db", "%da")
        brought = ["mad.wide.u32 %desc, %x, 16, %desc;", *descriptors(*pair, "0"), *other]
        work, output = both[by_descriptor], _raw(instruction) if raw else _codes(instruction)
    following = [
        "add.u32 %n, %n, 1;",
        "cvt.u64.u32 %low, %bytes;",
        "add.u64 %coded, %coded, %low;",
        "setp.lt.u32 %p, %n, %images;",
        "@%p bra.uni NEXT;",
    ]
    clear = ["mov.u32 %s, 0;", "mov.u32 %at, %found;", "mov.b32 %w, 0;"]
    clear += _each("%slots", "CLEAR", ["st.shared.b32 [%at], %w;"])
    return [
        *brought,
        *(metadata(image) if instruction.metadata else []),
        *([] if raw else clear),
        "mov.u32 %n, 0;",
        *(["mad.wide.u32 %coded, %x, %bytes, %coded;"] if raw else []),
        "setp.ne.u32 %never, %n, 0;",
        "NEXT:",
        *copy_to_shared("%coded", "%base", "%bytes", "CODED"),
        "fence.proxy.async;",
        "bar.sync 0;",
        *work,
        *([] if raw else [*_answers(instruction), *following]),
        *output,
    ]


def multiply(warpgroup_op: Warpgroup, by_descriptor: bool) -> list[str]:
    """D = A x B, waited for. Scales are one; 16-bit types have immediates that say whether A and B are transposed."""
    instruction = warpgroup_op.instruction
    a = "%da" if by_descriptor else "{%a0, %a1, %a2, %a3}"
    scales = [] if instruction.type("d") == "s32" else ["1", "1"]
    transposable = len(instruction.described[0].held.majors) > 1
    transposed = ["1" if major == "mn" else "0" for major in warpgroup_op.majors] if transposable else []
    sparse = ["%meta", str(warpgroup_op.selector)] if instruction.metadata else []
    operands = [a, "%db", *sparse, "%never", *scales, *(transposed if by_descriptor else transposed[1:])]
    return [
        "wgmma.fence.sync.aligned;",
        f"{instruction.name} {ptx.braces('d', instruction.fragment('d'))}, {', '.join(operands)};",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ]


def _image(instruction: Instruction, slots: int) -> int:
    """Bytes in shared memory of the registers of so many D slots of each thread."""
    return slots * instruction.fragment("d").slot_bits // 32 * ANSWER_BYTES


def _whole_periods(size: int) -> int:
    return -(-size // PERIOD) * PERIOD


def _layout(instruction: Instruction, kind: KernelKind, name: str) -> list[str]:
    """Take the leading dimension apart, and compute the addresses in shared memory."""
    other = "%there" if kind == "raw" else str(_whole_periods(other_bytes(instruction)))
    slots = instruction.fragment("d").elements
    return [
        f"mov.u32 %base, {name}_memory;",
        f"add.u32 %base, %base, {PERIOD - 1};",
        f"and.b32 %base, %base, -{PERIOD};",
        f"bfe.u32 %images, %ldm, {IMAGES_SHIFT}, {FEW_BIT - IMAGES_SHIFT};",
        f"and.b32 %bytes, %ldm, {(1 << IMAGES_SHIFT) - 1};",
        f"and.b32 %t, %ldm, {1 << FEW_BIT:#x};",
        "setp.ne.u32 %few, %t, 0;",
        f"and.b32 %t, %ldm, {1 << SHARED_BIT:#x};",
        "setp.ne.u32 %shared, %t, 0;",
        f"selp.u32 %slots, {FEW_SLOTS}, {slots}, %few;",
        f"selp.u32 %most, {FEW_MEETINGS}, {instruction.shape.n}, %few;",
        f"add.u32 %there, %bytes, {PERIOD - 1};",
        f"and.b32 %there, %there, -{PERIOD};",  # bytes of the coded matrix, rounded up; the base is added below
        f"add.u32 %answers, %there, {other};",
        "add.u32 %there, %there, %base;",
        "add.u32 %answers, %answers, %base;",
        "mad.lo.u32 %answers, %lane, 4, %answers;",
        f"selp.u32 %t, {_image(instruction, FEW_SLOTS)}, {_image(instruction, slots)}, %few;",
        "add.u32 %found, %answers, %t;",
    ]


def _each(count: str, label: str, ptx_lines: Sequence[str]) -> list[str]:
    """`ptx_lines` for every slot of the thread; %at is the address of its answers."""
    return [
        f"{label}:",
        *ptx_lines,
        f"add.u32 %at, %at, {ANSWER_BYTES};",
        "add.u32 %s, %s, 1;",
        f"setp.lt.u32 %p, %s, {count};",
        f"@%p bra {label};",
    ]


def _answers(instruction: Instruction) -> list[str]:
    """Store D's registers to the thread's own words; then set a bit for each slot that is one, or the sign if it is
    odd.
    """
    d = instruction.fragment("d")
    kind = "f32" if d.type == "f32" else "b32"
    half = [
        "shr.u32 %t, %s, 1;",
        f"mad.lo.u32 %own, %t, {ANSWER_BYTES}, %answers;",
        "ld.shared.b32 %w, [%own];",
        "and.b32 %t, %s, 1;",
        "shl.b32 %t, %t, 4;",
        "shr.u32 %w, %w, %t;",
        "and.b32 %w, %w, 0xffff;",
    ]
    whole = [f"mad.lo.u32 %own, %s, {ANSWER_BYTES}, %answers;", "ld.shared.b32 %w, [%own];"]
    stored = [f"st.shared.{kind} [%answers+{r * ANSWER_BYTES}], %d{r};" for r in range(d.registers)]
    few = FEW_SLOTS * d.slot_bits // 32
    return [
        *stored[:few],
        "@%few bra.uni STORED;",
        *stored[few:],
        "STORED:",
        "mov.u32 %s, 0;",
        "mov.u32 %at, %found;",
        *_each(
            "%slots",
            "ANSWER",
            [
                *(half if d.slot_bits == 16 else whole),
                "ld.shared.b32 %acc, [%at];",
                f"setp.eq.u32 %q, %w, {d.one:#x};",
                "selp.b32 %v0, 1, 0, %q;",
                "shl.b32 %v0, %v0, %n;",
                "or.b32 %acc, %acc, %v0;",
                "setp.ne.u32 %p, %w, 0;",
                "selp.b32 %v0, 0x80000000, 0, %p;",
                "selp.b32 %v0, 0, %v0, %q;",
                "or.b32 %acc, %acc, %v0;",
                "st.shared.b32 [%at], %acc;",
            ],
        ),
        "bar.sync 0;",
    ]


def _meetings(instruction: Instruction) -> list[str]:
    """By block (y, x) a count, then for every D slot that answered a word: its number and what it encoded."""
    slots = instruction.fragment("d").elements
    return [
        f"mul.lo.u32 %t, %lane, 4; sub.u32 %count, %found, %t; mad.lo.u32 %count, %slots, {ANSWER_BYTES}, %count;",
        "mov.b32 %w, 0;",
        "setp.eq.u32 %p, %lane, 0;",
        "@%p st.shared.b32 [%count], %w;",
        "bar.sync 0;",
        "mad.lo.u32 %image, %y, %nx, %x;",
        "add.u32 %t, %most, 1;",
        "mul.lo.u32 %t, %t, 4;",
        "mad.wide.u32 %out, %image, %t, %out;",
        "sub.u32 %i, %images, 1;",
        "mov.b32 %v1, 1;",
        "shl.b32 %v1, %v1, %i;",
        "or.b32 %v1, %v1, 0x80000001;",
        "mov.u32 %s, 0;",
        "mov.u32 %at, %found;",
        *_each(
            "%slots",
            "MET",
            [
                "ld.shared.b32 %acc, [%at];",
                "setp.eq.u32 %p, %acc, 0;",
                "@%p bra MET_NOT;",
                "atom.shared.add.u32 %to, [%count], 1;",
                "setp.ge.u32 %p, %to, %most;",
                "@%p bra MET_NOT;",
                "and.b32 %v0, %acc, %v1;",
                "setp.ne.u32 %p, %v0, 1;",
                f"selp.b32 %w, {BAD:#x}, 0, %p;",
                "shr.u32 %acc, %acc, 1;",
                "and.b32 %acc, %acc, 0xffff;",
                "or.b32 %w, %w, %acc;",
                f"mad.lo.u32 %t, %lane, {slots}, %s;",
                f"shl.b32 %t, %t, {SLOT_SHIFT};",
                "or.b32 %w, %w, %t;",
                "mad.wide.u32 %place, %to, 4, %out;",
                "st.global.b32 [%place+4], %w;",
                "MET_NOT:",
            ],
        ),
        "bar.sync 0;",
        "setp.ne.u32 %p, %lane, 0;",
        "@%p ret;",
        "ld.shared.b32 %w, [%count];",
        "st.global.b32 [%out], %w;",
        "ret;",
    ]


def _codes(instruction: Instruction) -> list[str]:
    """By block (y, x) and slot, what the D slot answered."""
    slots = instruction.fragment("d").elements
    return [
        "mad.lo.u32 %image, %y, %nx, %x;",
        f"mad.lo.u32 %image, %image, {WARPGROUP}, %lane;",
        f"mad.wide.u32 %out, %image, {4 * slots}, %out;",
        "mov.u32 %s, 0;",
        "mov.u32 %at, %found;",
        *_each(
            str(slots),
            "SAY",
            ["ld.shared.b32 %acc, [%at];", "mad.wide.u32 %place, %s, 4, %out;", "st.global.b32 [%place], %acc;"],
        ),
    ]


def _raw(instruction: Instruction) -> list[str]:
    d = instruction.fragment("d")
    return [
        f"mad.lo.u32 %image, %x, {WARPGROUP}, %lane;",
        f"mad.wide.u32 %out, %image, {ptx.thread_bytes(d)}, %out;",
        *ptx.store("out", "d", d),
    ]
