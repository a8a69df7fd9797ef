"""Weights repacked once: an order of storage in which a lane's elements of several k steps are one 16-byte load.

>>> from tcprobe.store.cell import load
>>> found = repack(load("mma.m16n8k16.row.col.f32.f16.f16.f32.b", "sm_80"), "s4")
>>> found.steps, found.k, found.lines, found.loads, found.conversion.instructions / found.conversion.codes
(8, 128, 8, 1, 1.125)

A block is `k` x `lines` weights, lines being what is not a k: columns of B, rows of A. Blocks lie by k, then by lines;
in one each lane's words follow each other, lane after lane, step after step. Lanes that hold the same have one place.

A fragment, type or group that cannot be repacked is refused with the nearest that works. Of weights that are multiplied
as they are, the sum over a group of k takes their scales in, in f32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np

from tcprobe.ask.banks.accesses import slots_of
from tcprobe.ask.banks.patterns import range_text
from tcprobe.ask.confidence import ConfidenceAnswer, least, line
from tcprobe.ask.path.formula import formula
from tcprobe.ask.path.steps import NOTHING
from tcprobe.code.cuda import holder, of_holder, register_type
from tcprobe.code.dequantize import STORED, WORD, Decoding, conversion, targets
from tcprobe.errors import InternalError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.layout.arrays import Ints
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.store.cell import Cell, cell
from tcprobe.store.choose import Layers, default
from tcprobe.text import Described, columns, escaped, quoted
from tcprobe.values import Json


def decoding_for(cell: Cell, stored_type: str, target_type: str | None) -> Decoding:
    """The conversion of a request; UsageError where there is none."""
    fragment = cell.fragment
    if fragment.role is not Role.FACTOR:
        raise UsageError(f"{fragment.id} is {fragment.role.value}, not A or B: weights are one of these.")
    if fragment.products > 1:
        raise UsageError(
            f"{fragment.id} holds {fragment.products} products; weights need a fragment of one. "
            f"{_nearest(fragment, (fragment.type,), cell)}"
        )
    if stored_type not in STORED:
        raise UsageError(f"weights of type {quoted(stored_type)} are not known; known: {', '.join(STORED)}.")
    if target_type not in (None, fragment.type):
        raise UsageError(
            f"{fragment.id} takes {fragment.type}, not {target_type}. {_nearest(fragment, (target_type,), cell)}"
        )
    try:
        decoding = conversion(stored_type, fragment.type, arch(cell.arch))
    except UsageError as error:
        raise UsageError(f"{error} {_nearest(fragment, tuple(targets(stored_type)), cell)}") from None
    if stored_type == fragment.type and fragment.slot_bits != dtype(stored_type).bits:
        raise UsageError(
            f"{fragment.id} holds {stored_type} in {fragment.slot_bits} bits: they cannot be packed closer. "
            f"{_nearest(fragment, tuple(targets(stored_type)), cell)}"
        )
    return decoding


def check_group(cell: Cell, step: int, block: int, group: int | None) -> None:
    """UsageError where a block of so much k, in steps, cannot have scales for groups of k."""
    if group is None:
        return
    fragment = cell.fragment
    if fragment.operand == "a" and fragment.cols != fragment.shape.k:
        raise UsageError(f"`group`: {fragment.id} is compressed, so its columns are not k.")
    if group < 1:
        raise UsageError(f"`group` {group}: so many elements of k have a scale in common, 1 or more.")
    if group % step or (block % group and group % block):
        fitting = [step << j for j in range((block // step).bit_length())]
        blocks = [block * max(1, group // block + more) for more in (0, 1)]
        near = min((*fitting, *blocks), key=lambda x: abs(x - group))
        raise UsageError(
            f"`group` {group}: a step covers {step} of k and a load {block}; {near} works, as do "
            f"{', '.join(map(str, fitting[:4]))} and multiples of {block}."
        )


def check_zeros(cell: Cell, way: Decoding, group: int | None) -> None:
    """UsageError where weights of that kind have no zero points, with what does."""
    if group is None:
        raise UsageError("`zeros`: a zero point comes with a scale; give `group` too.")
    if way.zeros:
        return
    if dtype(way.source).is_float:
        raise UsageError(f"`zeros`: weights of {way.source} are not whole numbers; s4, u4 and s8 have zero points.")
    raise UsageError(
        f"`zeros`: {way.target} is multiplied before it is scaled, so zero points would need sums of the other factor. "
        f"{_nearest(cell.fragment, ('f16', 'bf16'), cell)}"
    )


def _nearest(fragment: Fragment, takes: tuple[str, ...], cell: Cell) -> str:
    """The fragment of the same operand that takes one of the types on the arch, the most like it, sums as wide too."""
    on = [
        f
        for f in inventory.fragments().values()
        if f.role is Role.FACTOR
        and f.operand == fragment.operand
        and f.type in takes
        and f.products == 1
        and f.slot_bits == dtype(f.type).bits
        and f.target.on(arch(cell.arch))
    ]
    if not on:
        return f"No {fragment.operand.upper()} in registers takes {' or '.join(takes)} on {cell.arch}."
    shape, wide = fragment.shape, _sum_bits(fragment)

    def far(candidate: Fragment) -> tuple[bool, int, int, int]:
        apart = sum(abs(x - y) for x, y in zip(candidate.shape, shape, strict=True))
        narrower = abs(_sum_bits(candidate) - wide)
        return candidate.family != fragment.family, takes.index(candidate.type), narrower, apart

    return f"The nearest one that does: {min(on, key=far).id}."


def _sum_bits(factor: Fragment) -> int:
    """How wide the widest sums of the multiplies that take a factor are."""
    return max(dtype(inventory.instructions()[id_].type("d")).bits for id_ in inventory.user_ids(factor.id))


HEAD = "__device__ __forceinline__ static"


def sums_table(factor: Fragment, arch: str, layers: Layers | None) -> Cell:
    """The table of D of the multiply that takes the weights; UsageError where several do, or D is packed."""
    multiplies = inventory.user_ids(factor.id)
    if len(multiplies) > 1:
        raise UsageError(f"`group`: several multiplies take {factor.id}, whose sums may differ; use a fragment of mma.")
    d = inventory.instructions()[multiplies[0]].fragment("d")
    if register_type(d) not in ("int", "float"):
        raise UsageError(f"`group`: the sums, {d.id}, are {d.type}; scales need sums of s32 or f32.")
    return cell(inventory.fragment(d.id), arch, layers or default())


def sums_lines(factor: Fragment, d: Cell) -> tuple[Ints, Ints]:
    """The lines whose scales a thread needs, (lines, threads), and which of them each slot of D has."""
    slots = slots_of(d)
    line = slots.row if factor.operand == "a" else slots.col
    numbers: dict[bytes, int] = {}
    which = np.array([numbers.setdefault(line[:, slot].tobytes(), len(numbers)) for slot in range(line.shape[1])])
    first = [int(np.flatnonzero(which == number)[0]) for number in range(len(numbers))]
    return line[:, first].T, which


def sums_code(sums: Cell, scale_row: str, axis: str, line_and_which: tuple[str, str], count: int) -> Iterator[str]:
    """load_scales and add; `scale_row`: which row of scales, `line_and_which` their formulas, `count` of lines."""
    threads, kind, (line_formula, which) = sums.fragment.threads, register_type(sums.fragment), line_and_which
    yield f"static constexpr int SCALES = {count}, SUMS = {sums.fragment.registers};  // of a {holder(threads)}"
    yield f"/// `scales`: f32, [k / GROUP][{axis}], `all` a row; `k_block`, `line_block`: k / K, {axis} / LINES"
    yield f"{HEAD} void load_scales("
    yield "    const void* scales, long long all, long long k_block, long long line_block,"
    yield f"    unsigned {holder(threads)}, float (&held)[GROUPS][SCALES]) {{"
    yield "#pragma unroll"
    yield "  for (int g = 0; g < GROUPS; ++g) {"
    yield f"    const float* row = static_cast<const float*>(scales) + ({scale_row}) * all + line_block * LINES;"
    yield "#pragma unroll"
    yield f"    for (int issue = 0; issue < SCALES; ++issue) held[g][issue] = row[{of_holder(line_formula, threads)}];"
    yield from ("  }", "}")
    yield "/// the sums of a group, D of its multiplies, times its scales, to all sums in f32"
    yield f"{HEAD} void add(const float (&held)[SCALES], const {kind} (&d)[SUMS], float (&sums)[SUMS]) {{"
    yield "#pragma unroll"
    yield f"  for (int slot = 0; slot < SUMS; ++slot) sums[slot] += held[{which}] * static_cast<float>(d[slot]);"
    yield "}"


LOAD = 128  # bits of the widest load
FLOATS = ("f16", "bf16")  # what weights are scaled as; others' sums are
SECTOR = 32  # bytes of global memory that are fetched together


class BlockAnswer(Answer):
    """What a warp takes at once: k and lines, steps of the multiply, and how much is loaded."""

    k: int
    lines: int
    steps: int
    bytes: int
    words: int
    loads: int
    sectors: int


class DecodingAnswer(Answer):
    """What converts a word."""

    instructions: int
    codes: int
    registers: int
    how: str
    lines: tuple[str, ...]


class ScaleGroups(Answer):
    """Scale factors: of how many k, how many groups a block has, and what they multiply."""

    group: int
    groups: int
    of_: Literal["weights", "sums"]


class ZeroPoints(Answer):
    """Zero points of weights that have them: stored as bytes, `add` added, each from `least` to `most`."""

    type: Literal["u8"]
    add: int
    least: int
    most: int


class RepackAnswer(Answer):
    """`load --repack`: the order in which weights are stored, and what converts them."""

    fragment: str
    arch: str
    type: str
    as_: str
    proven: Literal[True]
    block: BlockAnswer
    place: list[int]
    order: list[tuple[int, int, int, int, list[int]]]
    flip: int
    convert: DecodingAnswer
    scales: ScaleGroups | None
    zeros: Annotated[
        ZeroPoints | None,
        Meta(
            description="Zero points of weights that have them: stored as bytes, `add` added, each from `least` to "
            "`most`."
        ),
    ]
    ldmatrix: str | None
    evidence: list[str]
    confidence: ConfidenceAnswer


@dataclass(frozen=True, repr=False)
class Repacking(Described):
    """How weights for `cell` are stored, `steps` of its k steps together.

    `owner` says of each lane which place in a block is its; `depth` and `line`, of shape (places, slots), which element
    of the first step a place's slots are; `filled` which of the stored registers each register of the fragment is.
    `group`: elements of k that have a scale in common, None without scales; `sums`: D, where it takes the scales in;
    `zeros`: whether a zero point comes with each scale, a weight being (code - zero point) scale.
    """

    cell: Cell
    conversion: Decoding
    owner: Ints
    depth: Ints
    line: Ints
    filled: tuple[int, ...]
    group: int | None
    sums: Cell | None = None
    zeros: bool = False

    @property
    def in_words(self) -> Iterator[str]:
        """How a block is stored, loaded and converted."""

        head, *others = summary_lines(self)
        yield head
        heads = ("word", "registers, step.register", "bits, of the lowest code first")
        yield from columns([heads, *words_of(self)], 3)
        yield from map(escaped, others)

    @property
    def code(self) -> str:
        """A CUDA header that loads and converts."""
        from tcprobe.ask.load import repack_code

        return repack_code.source(self)

    @property
    def slots(self) -> int:
        """Elements of a place in one step."""
        return int(self.depth.shape[1])

    @property
    def steps(self) -> int:
        """Of k, in a block."""
        return max(1, LOAD // (self.slots * dtype(self.conversion.source).bits))

    @property
    def step_k(self) -> int:
        """Elements of k in a step; of compressed A those that are stored."""
        fragment = self.cell.fragment
        return fragment.cols if fragment.depth == "col" else fragment.rows

    @property
    def k(self) -> int:
        """Elements of k in a block."""
        return self.steps * self.step_k

    @property
    def lines(self) -> int:
        """Elements of n, or of m, in a block."""
        fragment = self.cell.fragment
        return fragment.rows if fragment.depth == "col" else fragment.cols

    @property
    def words(self) -> int:
        """Of a lane, of 32 bits, in a block."""
        return self.steps * self.slots // self.conversion.codes

    @property
    def loads(self) -> int:
        """Of 16 bytes, of a lane, for a block."""
        return self.words * WORD // LOAD

    @property
    def places(self) -> int:
        """Lanes that have words of their own."""
        return len(self.depth)

    @property
    def block_bytes(self) -> int:
        """Of a block."""
        return self.places * self.words * WORD // 8

    @property
    def groups(self) -> int:
        """Groups of scales that a block has part in; 0 without scales."""
        return max(1, self.k // self.group) if self.group else 0

    @cached_property
    def bits(self) -> Ints:
        """Bit of a lane's words where bit b of a code is, of shape (steps, slots, bits of a code)."""
        number = np.arange(self.steps * self.slots)
        places = np.array(self.conversion.places)[number % self.conversion.codes]
        positions: Ints = (number // self.conversion.codes * WORD)[:, None] + places
        return positions.reshape(self.steps, self.slots, -1)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which lines' scales multiply a stored register: the slots that stand for them, of the low and high half."""
        return tuple((self._same_line(j), self._same_line(j + 1)) for j in range(0, self.slots, 2))

    @property
    def distinct(self) -> list[tuple[int, int]]:
        """The pairs that differ: a register of scales for each."""
        return list(dict.fromkeys(self.pairs))

    def _same_line(self, slot: int) -> int:
        """The first slot that has the same line in every lane."""
        return next(j for j in range(slot + 1) if (self.line[:, j] == self.line[:, slot]).all())

    @property
    def scale_instructions(self) -> float:
        """Instructions an element for scales, of weights that are scaled."""
        return 1 / 2 if self.group and not self.sums else 0.0

    @property
    def zero_range(self) -> tuple[int, int]:
        """The least and most that a zero point may be: a code, or one more, as GPTQ's first format has them."""
        kind = dtype(self.conversion.source)
        least = -self.conversion.flip
        return least, least + (1 << kind.bits) - (kind.bits == 8)

    @property
    def compiled_for(self) -> tuple[str, ...]:
        """The arch's own targets that have the conversion, if not every arch has it."""
        return self.conversion.needs.every(arch(self.cell.arch)) if self.conversion.needs else ()

    @property
    def sectors(self) -> int:
        """Sectors that the loads of all lanes touch, every byte of which is used, for a block."""
        return self.block_bytes // SECTOR

    @property
    def ldmatrix(self) -> str:
        """The id of the ldmatrix that gives the same from shared memory, "" where the arch has none."""
        id_ = f"ldmatrix.m8n16.x4.shared.{self.conversion.target}.{self.conversion.source}.d"
        fragment = inventory.fragments().get(id_)
        return id_ if fragment and fragment.target.on(arch(self.cell.arch)) else ""

    def to_json(self) -> Json:
        """Plain data; `order` has [step, register of the fragment's, slot of it, word, bits from the lowest]."""
        way, fragment = self.conversion, self.cell.fragment
        each = fragment.elements // fragment.registers
        order = [
            (step, register, slot, int(bits[0]) // WORD, [int(bit) % WORD for bit in bits])
            for step in range(self.steps)
            for register, stored_register in enumerate(self.filled)
            for slot, bits in enumerate(self.bits[step, stored_register * each : (stored_register + 1) * each])
        ]
        cells = [self.cell, *([self.sums] if self.sums else [])]
        answer = RepackAnswer.of(
            self,
            fragment=fragment.id,
            arch=self.cell.arch,
            type=way.source,
            as_=way.target,
            proven=True,
            block=BlockAnswer.of(self, bytes=self.block_bytes),
            place=self.owner.tolist(),
            order=order,
            flip=way.flip,
            convert=DecodingAnswer.of(way, how=way.words),
            scales=ScaleGroups(self.group, self.groups, "sums" if self.sums else "weights") if self.group else None,
            zeros=ZeroPoints("u8", way.flip, *self.zero_range) if self.zeros else None,
            ldmatrix=self.ldmatrix or None,
            evidence=[cell.evidence for cell in cells],
            confidence=least(cells).answer,
        )
        return plain(answer)


def repack(
    cell: Cell, stored_type: str, target_type: str | None = None, group: int | None = None, layers: Layers | None = None
) -> Repacking:
    """The order of storage for weights of type `stored_type` that `cell`'s multiply takes, proven to be one to one.

    `target_type` is the type that they are converted to, which is the fragment's own; `group` as in Repacking; `layers`
    have D's table, where that takes the scales in. UsageError where the fragment is not a factor in registers, has
    another type, or the types or the group do not do, with what does.
    """
    way = decoding_for(cell, stored_type, target_type)
    slots = slots_of(cell)
    if (slots.row == NOTHING).any():
        raise UsageError(f"{slots.name} leaves slots unused; only whole fragments are repacked.")
    depth, line = (slots.col, slots.row) if cell.fragment.depth == "col" else (slots.row, slots.col)
    filled, own = _registers(depth, line, cell.fragment.registers)
    owner, first = _places(depth[:, own], line[:, own])
    sums = sums_table(cell.fragment, cell.arch, layers) if group and way.target not in FLOATS else None
    weights = Repacking(cell, way, owner, depth[first][:, own], line[first][:, own], filled, group, sums)
    check_group(cell, weights.step_k, weights.k, group)
    # InternalError unless every element of a block has a place of its own, and every bit is one element's bit
    step = np.arange(weights.steps)[:, None]
    depth = weights.depth[:, None, :] + step * weights.step_k
    elements = np.unique(depth * weights.lines + weights.line[:, None, :])
    whole = len(elements) == depth.size == weights.k * weights.lines and elements[-1] == weights.k * weights.lines - 1
    if not whole or sorted(weights.bits.ravel().tolist()) != list(range(weights.words * WORD)):
        raise InternalError(f"the order of {weights.cell.fragment.id} is not proven: it is not one to one.")
    return weights


def with_zeros(weights: Repacking) -> Repacking:
    """The same with a zero point for each scale; UsageError without scales, and for types that have no zero points."""
    check_zeros(weights.cell, weights.conversion, weights.group)
    return replace(weights, zeros=True)


def _registers(k_of: Ints, line_of: Ints, count: int) -> tuple[tuple[int, ...], Ints]:
    """Which stored register each register is, and the slots that are stored: a register that repeats one is not."""
    slots = np.arange(k_of.shape[1]).reshape(count, -1)
    numbers: dict[bytes, int] = {}
    filled = [
        numbers.setdefault(k_of[:, register_slots].tobytes() + line_of[:, register_slots].tobytes(), len(numbers))
        for register_slots in slots
    ]
    return tuple(filled), slots[[filled.index(number) for number in range(len(numbers))]].ravel()


def _places(k_of: Ints, line_of: Ints) -> tuple[Ints, list[int]]:
    """The place of each lane, and the first lane that has each."""
    numbers: dict[bytes, int] = {}
    contents = (k.tobytes() + line.tobytes() for k, line in zip(k_of, line_of, strict=True))
    owner = np.array([numbers.setdefault(content, len(numbers)) for content in contents])
    return owner, [int(np.flatnonzero(owner == place)[0]) for place in range(len(numbers))]


def lane_formula(values: Ints, what: str) -> str:
    """The formula of numbers (issues, lanes) in `lane` and `issue`; UsageError where there is no closed form."""
    text = formula(values)
    if text is None:
        raise UsageError(f"{what} has no closed form, so there is no code.", "no code")
    return text


def summary_lines(weights: Repacking) -> list[str]:
    """Lines: the block, then what is done with it, counts, and evidence."""
    return [_head(weights), *_costs(weights), *_scales(weights), *_like(weights), *_proof(weights)]


def words_of(weights: Repacking) -> list[tuple[str, str, str]]:
    """Of each word the registers that it fills, as step.register, and the bits of their codes, lowest code first."""
    way, each = weights.conversion, len(set(weights.filled))
    places = " ".join(range_text(bits) for bits in way.places)
    rows = []
    for place in range(weights.words):
        numbers = range(place * way.registers, (place + 1) * way.registers)
        names = [
            f"{number // each}.{register}"
            for number in numbers
            for register, stored_register in enumerate(weights.filled)
            if stored_register == number % each
        ]
        rows.append((str(place), " ".join(names), places if not place else "likewise"))
    return rows


def _head(weights: Repacking) -> str:
    way, fragment = weights.conversion, weights.cell.fragment
    axis = "m" if fragment.operand == "a" else "n"
    loads = "one 16-byte load" if weights.loads == 1 else f"{weights.loads} 16-byte loads"
    steps = "k step" if weights.steps == 1 else "k steps"
    thread, order = holder(fragment.threads), f"[k / {weights.k}][{axis} / {weights.lines}]"
    return (
        f"{fragment.id}: weights of {way.source}, {weights.steps} {steps} in {loads} of a {thread}; "
        f"stored as {order}[{weights.places}][{weights.words}] words"
    )


def _costs(weights: Repacking) -> Iterator[str]:
    way = weights.conversion
    count, size = weights.k * weights.lines, weights.block_bytes
    yield f"loads: {weights.loads} for {count} weights, {size} bytes in a row, {weights.sectors} sectors, all full"
    each = way.instructions / way.codes
    if way.source == way.target:
        yield f"convert: nothing, {way.words}"
    else:
        yield f"convert: {way.instructions} instructions for {way.codes} elements, {each:g} per element; {way.words}"
    if way.flip:
        yield f"stored codes are {way.source}'s with bits {way.flip:#x} inverted, which adds {way.flip}"
    if way.needs:
        yield f"needs -arch={' or '.join(weights.compiled_for)}"
    if weights.conversion.source == "e4m3" and weights.conversion.source != way.target:
        yield "a NaN is refused when weights are repacked"


def _scales(weights: Repacking) -> Iterator[str]:
    if not weights.group:
        return
    target, axis = weights.conversion.target, "m" if weights.cell.fragment.operand == "a" else "n"
    if weights.sums:
        yield (
            f"scales: f32, [k / {weights.group}][{axis}] as they are, of the sums: after a group D times its scales "
            "is added up in f32, a conversion and an fma for each element of D"
        )
        return
    if weights.zeros:
        yield from _zeros(weights, axis)
    needed = weights.groups * len({slot for pair in weights.pairs for slot in pair})
    yield (
        f"scales: {target}, [k / {weights.group}][{axis}] as they are, {needed} per lane for a block; "
        f"{weights.scale_instructions:g} instructions per element, each product rounded to nearest even"
    )


def _zeros(weights: Repacking, axis: str) -> Iterator[str]:
    (least, most), way = weights.zero_range, weights.conversion
    added = f", {way.flip} added" if way.flip else ""
    yield (
        f"zero points: {least} to {most}, as bytes{added}, [k / {weights.group}][{axis}]; they take the offset's "
        f"place, so that (code - zero point) is exact and costs no instruction per element; {len(way.zeros)} "
        f"register{'s' * (len(way.zeros) > 1)} for each of scales"
    )


def _like(weights: Repacking) -> Iterator[str]:
    registers = f"a lane's registers of {weights.steps} multiplies" if weights.steps > 1 else "a lane's registers"
    shared = [f"a 16-byte load has {registers}{', along k' * (weights.steps > 1)}"]
    if "interleaved" in weights.conversion.words:
        shared.append("nibbles are interleaved for the exponent trick")
    if weights.group:
        shared.append("each group of k has its scale")
    if weights.zeros:
        shared.append("each has its zero point")
    yield (
        f"as in Marlin's layout, {'; '.join(shared)}. Unlike there, a load goes along k and not n, and scales "
        f"{'and zero points ' * weights.zeros}keep their order"
    )
    if weights.ldmatrix:
        yield (
            f"from shared memory {weights.ldmatrix.removesuffix('.d')} (PTX 9.4) gives the same without any "
            f"conversion: `tcprobe convert {weights.ldmatrix} {weights.cell.fragment.id}`"
        )


def _proof(weights: Repacking) -> Iterator[str]:
    fragment = weights.cell.fragment
    size = f"{weights.places} x {weights.words * WORD}"
    yield f"proven: the {weights.k} x {weights.lines} weights of a block go to its {size} bits one to one"
    yield f"{fragment.id} on {weights.cell.arch}: {weights.cell.evidence}"
    yield line(least([weights.cell]))
