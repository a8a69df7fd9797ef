"""The structure tensor of a sparse multiply under changing metadata: what an A slot meets, and which bits say so.

Nothing about a layout is assumed. Each A slot alone is one; meanwhile the metadata of all lanes runs through images,
and for each of them B runs through codes: all one, each bit of a slot's number, all zero. The kernel loops over B and
packs what D answers: a bit for each code, and the sign bit where an answer is neither zero nor one. Metadata images,
of legal values only:

- uniform: every four bits hold the same legal value. They show which half of the four bits an A slot obeys, and which
  B slot it meets under each index.
- positions: two legal values that differ in the low or the high bit of one index, told apart by one bit of
  lane * 8 + number of the four bits, and the same the other way round. They spell which four bits of which lane an A
  slot obeys; all the others hold other values meanwhile, so an A slot that obeyed them too would be noticed.

C slots are set one at a time, with A = 0. Sparse tf32 knows 0x4 and 0xE only (PTX ISA 9.1, section 9.7.14.6.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import Sparsity, sparsity
from tcprobe.probes import ptx
from tcprobe.probes.experiment import Conclusion, Context, Reading
from tcprobe.probes.ptx import Bytes, Kernel, Launch
from tcprobe.probes.slots import bit_length, codes, one_hot, pack, unpack
from tcprobe.probes.sparse_numbering import Sparse, numbered
from tcprobe.probes.sparse_op import Packed, Product

NIBBLES = 8  # groups of four bits in a lane's metadata
# two legal values each that differ in one bit of one index; together in every bit of both
PAIRS = {2: ((0x4, 0xE), (0x8, 0x9), (0x8, 0xC)), 1: ((0x4, 0xE),)}
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SparseExperiment:
    """An mma.sp with all documented values of its selector."""

    row: Instruction
    methods: tuple[str, ...] = ("live",)
    early: bool = False

    @property
    def id(self) -> str:
        """The instruction's."""
        return self.row.id

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Operands a, b, c, d, e."""
        return self.row.fragments

    @property
    def kind(self) -> str:
        """mma.sp."""
        return self.row.family

    def launches(self) -> list[Launch]:
        """One launch for each selector, and the C launch."""
        return launches(self.row)

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Reading:
        """What A slots meet by index, "d" and "b"; "field" by selector; "c": the D slot of each C slot."""
        found = decode(self.row, outputs)
        return {"d": found.d, "b": found.b, "field": found.field, "c": found.c}

    def conclude(self, reading: Reading, context: Context) -> Conclusion:
        """Tables that predict the structure tensor under any legal metadata."""
        return numbered(self.row, Sparse(**{name: reading[name].astype(np.int64) for name in reading}), context)


def experiments() -> list[SparseExperiment]:
    """One for each mma.sp."""
    return [SparseExperiment(row) for row in inventory.instructions().values() if row.family == "mma.sp"]


def kernel(instruction: Instruction, selector: int) -> Kernel:
    """Block (x, y, z): A image x, metadata image y, C image z; two words of answers a lane."""
    fragments = {f.operand: f for f in instruction.fragments}
    b, d = fragments["b"], fragments["d"]
    images = b_images(instruction)
    body = [
        *(line for p, axis in (("a", "x"), ("e", "y"), ("c", "z"))
          for line in (*ptx.point(p, f"%{axis}", fragments[p]), *ptx.move("ld", p, p, fragments[p]))),
        f"mad.wide.u32 %b, %lane, {ptx.thread_bytes(b)}, %b;",
        "mov.u32 %n, 0; mov.u32 %w0, 0; mov.u32 %w1, 0;",
        "NEXT:",
        *ptx.move("ld", "b", "b", b),
        multiply(instruction, selector),
        *(line for i in range(d.elements) for line in _answer(d, i, images)),
        f"add.u64 %b, %b, {WARP * ptx.thread_bytes(b)};",
        "add.u32 %n, %n, 1;",
        f"setp.lt.u32 %p, %n, {images};",
        "@%p bra.uni NEXT;",
        "mad.lo.u32 %image, %z, %ny, %y;",
        "mad.lo.u32 %image, %image, %nx, %x;",
        f"mad.lo.u32 %image, %image, {WARP}, %lane;",
        "mad.wide.u32 %out, %image, 8, %out;",
        "st.global.v2.b32 [%out], {%w0, %w1};",
    ]  # fmt: skip
    registers = [ptx.declare(p, f) for p, f in fragments.items()]
    registers += [".reg .b32 %v, %bit, %w<2>;", ".reg .u32 %n;", ".reg .pred %p, %q;"]
    name = ptx.identifier(f"{instruction.id}.selector{selector}")
    text = ptx.entry(name, ("a", "b", "c", "e", "out"), registers, body)
    return Kernel(name, Packed(instruction, selector), text, instruction.target.at_least(ptx.ALIGNED))


def product_kernel(instruction: Instruction, selector: int) -> Kernel:
    """Block x: D of image x of A, B, C and metadata, raw."""
    fragments = {f.operand: f for f in instruction.fragments}
    body = [
        *(line for f in instruction.given
          for line in (*ptx.point(f.operand, "%x", f), *ptx.move("ld", f.operand, f.operand, f))),
        multiply(instruction, selector),
        *ptx.point("d", "%x", fragments["d"]),
        *ptx.move("st", "d", "d", fragments["d"]),
    ]  # fmt: skip
    name = ptx.identifier(f"product.{instruction.id}.selector{selector}")
    pointers = [*(f.operand for f in instruction.given), "d"]
    text = ptx.entry(name, pointers, [ptx.declare(p, f) for p, f in fragments.items()], body)
    return Kernel(name, Product(instruction, selector), text, instruction.target.at_least(ptx.ALIGNED))


def multiply(instruction: Instruction, selector: int) -> str:
    """The instruction itself; metadata is a single register without braces."""
    operands = [ptx.braces(f.operand, f) for f in instruction.spelled if f.operand != "e"]
    return f"{instruction.name} {', '.join(operands)}, %e0, {selector};"


def b_images(instruction: Instruction) -> int:
    """How many images of B there are: all one, each bit of a slot's number, all zero."""
    return 2 + bit_length(instruction.fragment("b").slots)


def launches(instruction: Instruction) -> list[Launch]:
    """A slots x metadata images for each selector; then C slot by slot, by the first kernel."""
    a, b, c, e = (instruction.fragment(operand) for operand in "abce")
    a_images, c_images = (one_hot(f.slots, f.slot_bits, f.one) for f in (a, c))
    coded, metadata = codes(b.slots, b.slot_bits, b.one), pack(metadata_images(sparsity(e)), 4)
    kernels = [kernel(instruction, selector) for selector in e.selectors]
    lane_bytes = WARP * 8
    return [
        *(Launch(k, (len(a_images), len(metadata), 1), (a_images, coded, c_images[:1], metadata), 0,
                 len(a_images) * len(metadata) * lane_bytes) for k in kernels),
        Launch(kernels[0], (1, 1, len(c_images)), (a_images[:1], coded, c_images, metadata[:1]), 0,
               len(c_images) * lane_bytes),
    ]  # fmt: skip


@cache
def metadata_images(rule: Sparsity, threads: int = WARP) -> NDArray[np.uint8]:
    """Four bits of metadata by image and place (lane * 8 + number): uniform ones, then those of positions."""
    count = threads * NIBBLES
    uniform = [np.full(count, value, np.uint8) for value in rule.legal]
    places = np.arange(count)
    spelled = [
        np.where((places >> bit & 1) ^ turned, other, one).astype(np.uint8)
        for one, other in PAIRS[rule.fields]
        for bit in range(bit_length(count))
        for turned in (0, 1)
    ]
    return np.stack(uniform + spelled)


def decode(instruction: Instruction, outputs: Sequence[Bytes]) -> Sparse:
    """What the outputs of the `launches` say.

    ProbeError where an answer is none that one product of zeros and ones can give, where an A slot does not obey one
    field of the metadata, or where selectors disagree in anything but the lanes that are read.
    """
    found = [_selected(instruction, raw, selector) for selector, raw in enumerate(outputs[:-1])]
    d, b, _ = found[0]
    for selector, (other_d, other_b, _) in enumerate(found):
        if not np.array_equal(d, other_d) or (b != other_b)[(b >= 0) & (other_b >= 0)].any():
            raise ProbeError(f"{instruction.name}: selector {selector} changes which slots of A, B and D meet.")
        b = np.maximum(b, other_b)
    return Sparse(d, b, np.stack([field for _, _, field in found]), _decode_c(instruction, outputs[-1]))


def _answer(d: Fragment, i: int, images: int) -> list[str]:
    """Add what element i of D says to the packed words: a bit where it is one, the sign where it is not zero either."""
    register, low = d.place(i)
    word, shift = f"%w{i % 2}", images * (i // 2)
    value = f"shr.u32 %v, %d{register}, {low};" if low else f"mov.b32 %v, %d{register};"
    half = ["and.b32 %v, %v, 0xffff;"] if d.slot_bits == 16 else []
    return [
        value, *half,
        f"setp.eq.u32 %p, %v, {d.one:#x};",
        f"selp.b32 %bit, {1 << shift:#x}, 0, %p;",
        "shl.b32 %bit, %bit, %n;",
        f"or.b32 {word}, {word}, %bit;",
        "setp.ne.u32 %q, %v, 0;",
        "selp.b32 %bit, 0, 0x80000000, %p;",
        "selp.b32 %bit, %bit, 0, %q;",
        f"or.b32 {word}, {word}, %bit;",
    ]  # fmt: skip


def _unpacked(instruction: Instruction, raw: Bytes) -> NDArray[np.uint16]:
    """What each D slot answered, a bit for each image of B: (blocks, D slots)."""
    images = b_images(instruction)
    words = np.ascontiguousarray(raw).view(np.uint32).reshape(-1, WARP, 2)
    if (words >> np.uint32(31)).any():
        raise ProbeError(f"{instruction.name}: D is neither zero nor one where a single product can be.")
    mask = np.uint32((1 << images) - 1)
    parts = [words[:, :, i % 2] >> np.uint32(images * (i // 2)) & mask for i in range(4)]
    return np.stack(parts, axis=2).astype(np.uint16).reshape(len(words), -1)


def _selected(instruction: Instruction, raw: Bytes, selector: int) -> tuple[Ints, Ints, Ints]:
    """(D slots by A slot, B slots by A slot and index, field by A slot) under one selector."""
    name = f"{instruction.name}, selector {selector}"
    d, met = _meetings(instruction, _unpacked(instruction, raw), name)
    by_index, field = obeyed(sparsity(instruction.fragment("e")), met, instruction.threads, name)
    return d, by_index, field


def obeyed(rule: Sparsity, met: Ints, threads: int, name: str) -> tuple[Ints, Ints]:
    """(B slots by A slot and index, field by A slot), of the B slots met under all images of metadata.

    ProbeError where an A slot does not obey one field alone.
    """
    half = _half(rule, met, name)
    by_index = _by_index(rule, met, half)
    place = _place(rule, met, half, by_index, threads * NIBBLES)
    predicted = _predicted(rule, half, place, by_index, threads)
    wrong = np.argwhere((predicted != met).any(axis=2))
    if len(wrong):
        image, slot = (int(n) for n in wrong[0])
        raise ProbeError(f"{name}: A slot {slot} does not obey one field of the metadata alone: first in "
                         f"image {image}; {len(wrong)} of {met.shape[0] * met.shape[1]} answers.")  # fmt: skip
    return by_index, place * rule.fields + half


def _meetings(instruction: Instruction, answers: NDArray[np.uint16], name: str) -> tuple[Ints, Ints]:
    """The D slots that each A slot reaches (slots, n), and the B slot met there: (images, slots, n)."""
    a, n = instruction.fragment("a"), instruction.shape.n
    images = len(metadata_images(sparsity(instruction.fragment("e"))))
    answers = answers.reshape(images, 1 + a.slots, -1)
    hit, last = (answers & 1).astype(bool), b_images(instruction) - 1
    if answers[~hit].any() or (answers >> last).any() or hit[:, 0].any():
        raise ProbeError(f"{name}: D answers where A or B is zero, or where all ones gave nothing.")
    reached = hit[:, 1:]
    if (reached.sum(axis=2) != n).any() or (reached != reached[0]).any():
        raise ProbeError(f"{name}: not a sparse product: an A slot does not reach the same {n} D slots throughout.")
    d = np.nonzero(reached[0])[1].reshape(a.slots, n)
    met = np.take_along_axis(answers[:, 1:], d[None], axis=2).astype(np.int64) >> 1
    if met.max() >= instruction.fragment("b").slots:
        raise ProbeError(f"{name}: the answers spell B slot {met.max()}, which there is not.")
    return d, met


def _half(rule: Sparsity, met: Ints, name: str) -> Ints:
    """Which half of four bits each A slot obeys: under the legal values equal indices give equal answers."""
    fits = np.stack([_follows(rule, met, half) for half in range(rule.fields)])
    if (fits.sum(axis=0) != 1).any():
        slot = int(np.flatnonzero(fits.sum(axis=0) != 1)[0])
        raise ProbeError(f"{name}: A slot {slot} obeys {int(fits[:, slot].sum())} halves of four bits of metadata.")
    found: Ints = fits.argmax(axis=0)
    return found


def _follows(rule: Sparsity, met: Ints, half: int) -> NDArray[np.bool_]:
    """By A slot: whether equal indices in `half` meet the same B slots, and different ones no common one."""
    indices = [rule.read(value, half) for value in rule.legal]
    fits = np.ones(met.shape[1], bool)
    for i, one in enumerate(indices):
        for j, other in enumerate(indices[:i]):
            equal = met[i] == met[j]
            fits &= equal.all(axis=1) if one == other else ~equal.any(axis=1)
    return fits


def _by_index(rule: Sparsity, met: Ints, half: Ints) -> Ints:
    """The B slots that each A slot meets under each index (slots, positions, n), -1 where no legal value has it."""
    found = np.full((met.shape[1], rule.positions, met.shape[2]), -1, np.int64)
    for image, value in enumerate(rule.legal):
        for h in range(rule.fields):
            found[half == h, rule.read(value, h)] = met[image, half == h]
    return found


def _place(rule: Sparsity, met: Ints, half: Ints, by_index: Ints, count: int) -> Ints:
    """The place of the four bits that each A slot obeys, as the first pair of values spells it."""
    _, other = PAIRS[rule.fields][0]
    expected = np.array([rule.read(other, h) for h in range(rule.fields)])[half]
    shown = by_index[np.arange(len(half)), expected]
    first = len(rule.legal)
    bits = [(met[first + 2 * bit] == shown).all(axis=1) for bit in range(bit_length(count))]
    return sum((b.astype(np.int64) << i for i, b in enumerate(bits)), np.zeros(len(half), np.int64))


def _predicted(rule: Sparsity, half: Ints, place: Ints, by_index: Ints, threads: int) -> Ints:
    """What every image must have given if each A slot obeys that half of that place: (images, slots, n)."""
    table = np.array([[rule.read(v, h) if v in rule.legal else 0 for h in range(rule.fields)] for v in range(16)])
    indices = table[metadata_images(rule, threads)[:, place], half[None]]
    found: Ints = by_index[np.arange(len(half))[None], indices]
    return found


def _decode_c(instruction: Instruction, raw: Bytes) -> Ints:
    """The D slot that each C slot reaches, whatever B is; every D slot once."""
    answers = _unpacked(instruction, raw)
    whole = (1 << b_images(instruction)) - 1
    hit = answers[1:] == whole
    lone = (hit.sum(axis=0) == 1).all() and (hit.sum(axis=1) == 1).all()
    if not lone or np.count_nonzero(answers) != np.count_nonzero(hit):
        raise ProbeError(f"{instruction.name}: C does not reach D slot by slot.")
    reached: Ints = hit.argmax(axis=1).astype(np.int64)
    return reached


def random_metadata(rule: Sparsity, images: int, generator: np.random.Generator, threads: int = WARP) -> Bytes:
    """Legal metadata at random: every four bits of every lane, (images, bytes)."""
    chosen: NDArray[Any] = generator.choice(np.array(rule.legal, np.uint8), (images, threads * NIBBLES))
    return pack(chosen, 4)


def fields(rule: Sparsity, metadata: Bytes) -> Ints:
    """The index in every field of metadata images: (images, fields of all lanes)."""
    table = np.array([[rule.read(v, h) if v in rule.legal else 0 for h in range(rule.fields)] for v in range(16)])
    found: Ints = table[unpack(metadata, 4)].reshape(len(metadata), -1)
    return found
