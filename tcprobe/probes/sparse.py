"""The structure tensor of a sparse multiply under changing metadata: what an A slot meets, and which bits decide that.

Nothing about a layout is assumed. One A slot at a time is one. Meanwhile the metadata of all lanes runs through images,
and for each of these B runs through codes: all ones, each bit of a slot's number, all zeros. The kernel loops over B
and packs D's answers: one bit for each code, and the sign bit if an answer is neither zero nor one. All metadata is
legal:

- uniform images: every four bits have the same value. They show which half of four bits an A slot obeys, and which B
  slot it meets under each index
- position images: two values that differ in one bit of one index are placed by one bit of lane * 8 + number of the four
  bits; then the other way round. They encode which four bits of which lane an A slot obeys. All others have other
  values meanwhile, so an A slot that obeyed them too would be noticed

C slots are set one at a time, with A = 0. Sparse tf32 allows only 0x4 and 0xE (PTX ISA 9.1, section 9.7.14.6.1).

Two words a lane have the answers of four D slots; they are unpacked a few images at a time. Tables of a, b, c, d and e
are numbered by a reference or by rule. The rows and stored columns of A and the columns of D are a convention, as for
dense multiplies. Once they are fixed, the metadata's indices show which k each B slot is, and which element each field
governs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, Sparsity, sparsity
from tcprobe.isa.operand import INPUTS, SPARSE_INPUTS
from tcprobe.layout.arrays import Array, Bools, Bytes, Ints, Words
from tcprobe.layout.structure import NIBBLE, Triples, elements
from tcprobe.layout.structure import columns as columns_of_fields
from tcprobe.layout.table import StructureHash, Table, Tables, selected
from tcprobe.probes import ptx
from tcprobe.probes.experiment import OWN_RULE, Conclusion, Context, FormExperiment, Readout, stated_tables
from tcprobe.probes.ptx import EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import bit_length, codes, encode, from_slots, into_slots, one_hot, pack, place_table, unpack

PTX = Macros(globals(), ptx=ptx, WARP=WARP)


@dataclass(frozen=True)
class Packed(FormOp):
    """The op of the probe: D for every image of A, B, C and metadata, one bit for each answer."""

    selector: int

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        row = self.instruction
        a, b, c = (matrices(row.fragment(o), raw, tables) for o, raw in zip(INPUTS, launch.inputs, strict=False))
        e = row.fragment("e")
        k = columns(e, tables.table(e).selection(self.selector), launch.inputs[3])
        d = row.fragment("d")
        words = np.zeros((len(c), len(k), len(a), WARP, 2), np.uint32)
        for number, image in enumerate(b):
            counts = np.minimum(_counts(a, image, k)[None] + c[:, None, None], 2).astype(np.uint8)  # zero, one, more
            slots = into_slots(tables.table(d), d, counts.reshape(*counts.shape[:3], -1))
            slots = slots.reshape(*slots.shape[:3], WARP, -1)
            for i in range(slots.shape[-1]):
                ones = (slots[..., i] == 1).astype(np.uint32) << np.uint32(len(b) * (i // 2) + number)
                words[..., i % 2] |= ones | (slots[..., i] > 1).astype(np.uint32) << np.uint32(31)
        return words.view(np.uint8).reshape(-1)


@dataclass(frozen=True)
class Product(FormOp):
    """The op that stores D raw, for one image of A, B, C and metadata at a time."""

    selector: int

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        row = self.instruction
        d = row.fragment("d")
        a, b, c = (matrices(row.fragment(o), raw, tables) for o, raw in zip(INPUTS, launch.inputs, strict=False))
        e = row.fragment("e")
        k = columns(e, tables.table(e).selection(self.selector), launch.inputs[3])
        counts = np.stack([_counts(a[[x]], b[x], k[[x]])[0, 0] + c[x] for x in range(len(a))]).reshape(len(a), -1)
        return encode(into_slots(tables.table(d), d, counts), d.type, d.slot_bits).reshape(-1)


def matrices(fragment: Fragment, raw: Bytes, tables: EmulatedCore) -> Ints:
    """Slots as matrices of zeros and ones: (images, rows, cols)."""
    ones = unpack(raw, fragment.slot_bits) == fragment.one
    numbers = from_slots(tables.table(fragment), fragment, ones.astype(np.int64))
    return numbers.reshape(len(raw), fragment.rows, fragment.cols)


def columns(e: Fragment, table: Table, raw: Bytes) -> Ints:
    """The column of A of each stored element: (images, rows, stored columns)."""
    rule = sparsity(e)
    values = unpack(raw, e.slot_bits).astype(np.int64) >> (3 if rule.fields == 1 else 0)  # the top bit tells 0xE from 4
    index_fields = from_slots(table, e, values)
    stored = np.arange(e.cols)
    index_fields = index_fields.reshape(len(raw), e.rows, e.cols)[:, :, stored - stored % e.span]
    unit = stored // (rule.fields * rule.span) * rule.positions
    k: Ints = (unit + index_fields) * rule.span + stored % rule.span
    return k


def _counts(a_elements: Ints, b_elements: Ints, k_of_stored: Ints) -> Ints:
    """A x B for every image of A and of metadata: (metadata images, A images, m, n). A has few ones."""
    images, rows, stored = np.nonzero(a_elements)
    counts = np.zeros((len(a_elements) * a_elements.shape[1], len(k_of_stored), b_elements.shape[1]), np.int64)
    np.add.at(counts, images * a_elements.shape[1] + rows, b_elements[k_of_stored[:, rows, stored]].swapaxes(0, 1))
    return counts.reshape(len(a_elements), a_elements.shape[1], len(k_of_stored), -1).transpose(2, 0, 1, 3)


@dataclass(frozen=True)
class SparseExperiment(FormExperiment):
    """An mma.sp, under all documented values of its selector."""

    def launches(self) -> list[Launch]:
        """One launch for each selector, and the C launch."""
        return launches(self.instruction)

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """ "d", "b": what each A slot meets, by index; "field": by selector, what it obeys; "c": D slots by C slot."""
        sparse = decode(self.instruction, outputs)
        return {"d": sparse.d, "b": sparse.b, "field": sparse.field, "c": sparse.c}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables that predict the structure tensor under any legal metadata."""
        return number_tables(
            self.instruction, Sparse(**{name: reading[name].astype(np.int64) for name in reading}), context
        )


def experiments() -> list[SparseExperiment]:
    """One experiment for each mma.sp."""
    return [SparseExperiment(row) for row in inventory.of_family("mma.sp")]


def kernel(instruction: Instruction, selector: int) -> Kernel:
    """Block (x, y, z): A image x, metadata image y, C image z; each lane stores two words of answers."""
    fragments = {f.operand: f for f in instruction.fragments}
    name = ptx.identifier(f"{instruction.id}.selector{selector}")
    body = PTX.body(instruction, fragments, selector, b_images(instruction))
    text = ptx.entry(name, ("a", "b", "c", "e", "out"), PTX.registers(fragments), body)
    return Kernel(name, Packed(instruction, selector), text, instruction.target)


def product_kernel(instruction: Instruction, selector: int) -> Kernel:
    """Block x: D of image x of A, B, C and metadata, stored raw; scales are one."""
    fragments = {f.operand: f for f in instruction.fragments}
    body = PTX.product(instruction, fragments, selector, dict.fromkeys(SPARSE_INPUTS, "%x"))
    name = ptx.identifier(f"product.{instruction.id}.selector{selector}")
    text = ptx.entry(name, [*SPARSE_INPUTS, "d"], [ptx.declare(p, f) for p, f in fragments.items()], body)
    return Kernel(name, Product(instruction, selector), text, instruction.target)


def launches(instruction: Instruction) -> list[Launch]:
    """For each selector, A slots x metadata images; then one C slot at a time, by the first kernel."""
    a, b, c, e = (instruction.fragment(operand) for operand in SPARSE_INPUTS)
    a_images, c_images = (one_hot(f.slots, f.slot_bits, f.one) for f in (a, c))
    coded, metadata = codes(b.slots, b.slot_bits, b.one), pack(metadata_images(sparsity(e)), 4)
    kernels = [kernel(instruction, selector) for selector in e.selectors]
    grid, inputs = (len(a_images), len(metadata), 1), (a_images, coded, c_images[:1], metadata)
    by_selector = [Launch(k, grid, inputs, 0, grid[0] * grid[1] * WARP * 8) for k in kernels]
    grid, inputs = (1, 1, len(c_images)), (a_images[:1], coded, c_images, metadata[:1])
    return [*by_selector, Launch(kernels[0], grid, inputs, 0, len(c_images) * WARP * 8)]


NIBBLES = 8  # groups of four bits in a lane's metadata
PLACES = WARP * NIBBLES
# pairs of legal values that differ in one bit of one index; together they cover every bit of both
PAIRS = {2: ((0x4, 0xE), (0x8, 0x9), (0x8, 0xC)), 1: ((0x4, 0xE),)}


def b_images(instruction: Instruction) -> int:
    """How many images B has: all ones, each bit of a slot's number, all zeros."""
    return 2 + bit_length(instruction.fragment("b").slots)


@cache
def metadata_images(sparsity: Sparsity, threads: int = WARP) -> Bytes:
    """Four bits of metadata by image and place (lane * 8 + number): uniform images, then position images."""
    count = threads * NIBBLES
    uniform = [np.full(count, value, np.uint8) for value in sparsity.legal]
    places = np.arange(count)
    positional = [
        np.where((places >> bit & 1) ^ turned, if_set, if_clear).astype(np.uint8)
        for if_clear, if_set in PAIRS[sparsity.fields]
        for bit in range(bit_length(count))
        for turned in (0, 1)
    ]
    return np.stack(uniform + positional)


def random_metadata(sparsity: Sparsity, image_count: int, generator: np.random.Generator, threads: int = WARP) -> Bytes:
    """Random legal metadata of all lanes: (images, bytes)."""
    nibbles: Array = generator.choice(np.array(sparsity.legal, np.uint8), (image_count, threads * NIBBLES))
    return pack(nibbles, 4)


def index_table(sparsity: Sparsity) -> Ints:
    """`Sparsity.read` by value of four bits and half, (16, fields); 0 for values that are not legal."""
    return np.array(
        [[sparsity.read(v, h) if v in sparsity.legal else 0 for h in range(sparsity.fields)] for v in range(16)]
    )


SEEN = 1  # an index that occurs in either half of legal values


class Sparse(NamedTuple):
    """What was measured of a sparse multiply.

    `d`: the D slots that each A slot reaches, ascending. `b`: the B slot met there, by A slot and index; -1 if no legal
    value has the index. `field`: by selector, the field (lane * fields + i) that each A slot obeys. `c`: the D slot of
    each C slot.
    """

    d: Ints
    b: Ints
    field: Ints
    c: Ints


def number_tables(instruction: Instruction, sparse: Sparse, context: Context) -> Conclusion:
    """Tables that predict every measured answer; ProbeError if there are none."""
    tables, numbering = _by_reference(instruction, sparse, context.device) or _by_rule(instruction, sparse)
    return Conclusion(tables, numbering, structure(instruction, sparse))


def structure(instruction: Instruction, sparse: Sparse) -> StructureHash:
    """The structure tensor with all metadata 0x4."""
    rule = sparsity(instruction.fragment("e"))
    half = sparse.field[0] % rule.fields
    index = np.array([rule.read(NIBBLE, h) for h in range(rule.fields)])[half]
    slots = np.arange(len(half))
    a = np.repeat(slots, sparse.d.shape[1])
    return Triples(a, sparse.b[slots, index].reshape(-1), sparse.d.reshape(-1)).digest()


@dataclass(frozen=True)
class _Measured:
    """What was measured of a sparse multiply; it completes tables that predict it."""

    instruction: Instruction
    sparse: Sparse

    def complete(self, a_table: Table, d_table: Table) -> Tables | None:
        """All tables, given those of A and D; None if no tables with these numbers predict what was measured."""
        (m, stored, _), (row, col, _) = elements(a_table), elements(d_table)
        if (row[self.sparse.d] != m[:, None]).any():
            return None
        b = self._b_table(stored, col[self.sparse.d])
        e = self._metadata_table(m, stored)
        c = {name: tuple(column[t] for t in self.sparse.c.tolist()) for name, column in d_table.values.items()}
        if b is None or e is None:
            return None
        return {"a": a_table, "b": b, "c": d_table.with_values(c), "d": d_table, "e": e}

    def _b_table(self, stored: Ints, slot_columns: Ints) -> Table | None:
        """B's table, by the k that each index picks.

        None if a slot would hold two elements, or an element would have no slot.
        """
        b, rule = self.instruction.fragment("b"), sparsity(self.instruction.fragment("e"))
        row, col = np.full(b.slots, -1), np.full(b.slots, -1)
        for index in range(rule.positions):
            b_slots, seen = self.sparse.b[:, index], self.sparse.b[:, index, 0] >= 0
            k = np.broadcast_to(columns_of_fields(rule, stored, index)[:, None], b_slots.shape)
            numbered_before = row[b_slots[seen]] >= 0
            if ((row[b_slots[seen]] != k[seen]) | (col[b_slots[seen]] != slot_columns[seen]))[numbered_before].any():
                return None
            row[b_slots[seen]], col[b_slots[seen]] = k[seen], slot_columns[seen]
            if (row[b_slots[seen]] != k[seen]).any() or (col[b_slots[seen]] != slot_columns[seen]).any():
                return None
        whole = row.min() >= 0 and row.max() < b.rows and len(set((row * b.cols + col).tolist())) == b.rows * b.cols
        return place_table(b, row, col) if whole else None

    def _metadata_table(self, slot_rows: Ints, stored: Ints) -> Table | None:
        """By selector, the first element of the unit that each field governs; None if a field governs two."""
        e = self.instruction.fragment("e")
        first, tables = stored - stored % e.span, []
        for field in self.sparse.field:
            row, col = np.full(e.slots, -1), np.full(e.slots, -1)
            row[field], col[field] = slot_rows, first
            units = len(set(field.tolist()))
            if (row[field] != slot_rows).any() or (col[field] != first).any() or units * e.span != e.rows * e.cols:
                return None
            tables.append(place_table(e, row, col))
        return selected(tables)


def _by_reference(instruction: Instruction, sparse: Sparse, device: Arch) -> tuple[Tables, str] | None:
    """The tables as the first reference numbers them that states fitting tables of A, C and D; None if none does."""
    for name, stated in stated_tables([instruction.fragment(operand) for operand in "acd"], device):
        tables = _Measured(instruction, sparse).complete(stated["a"], stated["d"])
        if tables and tables["c"] == stated["c"]:
            return tables, name
    return None


def _by_rule(instruction: Instruction, sparse: Sparse) -> tuple[Tables, str]:
    """Rows, columns and chunks in the order of their lowest slots; inside a chunk by field, then by lowest slot.

    ProbeError if the slots that meet are not those of a sparse product.
    """
    row, stored = _classes(sparse.d.min(axis=1)), _stored_by_rule(sparsity(instruction.fragment("e")), sparse)
    b_of_d = np.full(sparse.d.max() + 1, sparse.b.max() + 1)
    np.minimum.at(b_of_d, sparse.d, sparse.b[:, SEEN])
    col = _classes(b_of_d)
    row_of_d = np.zeros(len(b_of_d), np.int64)
    row_of_d[sparse.d] = row[:, None]
    a, d = instruction.fragment("a"), instruction.fragment("d")
    tables = None
    if len(b_of_d) == d.slots and row.max() < a.rows and stored.max() < a.cols and col.max() < d.cols:
        tables = _Measured(instruction, sparse).complete(place_table(a, row, stored), place_table(d, row_of_d, col))
    if tables is None:
        raise ProbeError(f"{instruction.name}: not a sparse product: no rows, columns and k fit which slots meet.")
    return tables, OWN_RULE


def _stored_by_rule(sparsity: Sparsity, sparse: Sparse) -> Ints:
    """The stored column of each A slot."""
    field, slots = sparse.field[0], np.arange(len(sparse.d))
    # A slots that meet the same B slots: a chunk, or one element of its pairs
    line = _classes(sparse.b[:, SEEN].min(axis=1))
    lowest = _lowest(line, _lowest(field, line))  # lines that share a field are in one chunk
    chunk, second = _classes(lowest), (line != lowest).astype(np.int64)
    row, unit = _classes(sparse.d.min(axis=1)), field % sparsity.fields * len(slots) + _lowest(field, slots)
    stored: Ints = (chunk * sparsity.fields + _rank((row, chunk, second), unit)) * sparsity.span + second
    return stored


def _classes(keys: Ints) -> Ints:
    """Equal keys as equal numbers, from 0 in the order of first occurrence."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _lowest(keys: Ints, values: Ints) -> Ints:
    """At each place, the lowest value among places with the same key."""
    lowest = np.full(keys.max() + 1, values.max())
    np.minimum.at(lowest, keys, values)
    of_equal: Ints = lowest[keys]
    return of_equal


def _rank(group_keys: tuple[Ints, ...], order: Ints) -> Ints:
    """The position of each place within its group, by `order`."""
    sort = np.lexsort((order, *group_keys))
    keys = np.stack(group_keys)[:, sort]
    new = np.concatenate([[True], (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
    place = np.arange(len(order)) - np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    rank = np.empty(len(order), np.int64)
    rank[sort] = place
    return rank


Small = NDArray[np.int16]  # slots of B, at most 1024
CACHED = 1 << 18  # bytes of images that are decoded at a time


def decode(instruction: Instruction, outputs: Sequence[Bytes]) -> Sparse:
    """What the outputs of the `launches` show.

    ProbeError if an answer is not one that a product of zeros and ones can give, if an A slot does not obey exactly one
    field of the metadata, or if selectors differ in anything but the lanes that are read.
    """
    by_selector = [decode_selector(instruction, raw, selector) for selector, raw in enumerate(outputs[:-1])]
    d, b, _ = by_selector[0]
    for selector, (other_d, other_b, _) in enumerate(by_selector):
        if not np.array_equal(d, other_d) or (b != other_b)[(b >= 0) & (other_b >= 0)].any():
            raise ProbeError(f"{instruction.name}: selector {selector} changes which slots of A, B and D meet.")
        b = np.maximum(b, other_b)
    return Sparse(d, b, np.stack([field for _, _, field in by_selector]), _decode_c(instruction, outputs[-1]))


def decode_selector(instruction: Instruction, raw: Bytes, selector: int) -> tuple[Ints, Ints, Ints]:
    """(D slots by A slot, B slots by A slot and index, field by A slot) under one selector; ProbeError as `decode`."""
    rule, name = sparsity(instruction.fragment("e")), f"{instruction.name}, selector {selector}"
    d, b_slots = _meetings(instruction, _words(raw), name)
    by_index, field = indices_and_fields(rule, b_slots, instruction.threads, name)
    return d, by_index.astype(np.int64), field


def indices_and_fields(sparsity: Sparsity, b_slots: Small | Ints, threads: int, name: str) -> tuple[Small | Ints, Ints]:
    """(B slots by A slot and index, field by A slot); `b_slots` are the B slots met, by image of metadata and A slot.

    ProbeError if an A slot does not obey exactly one field.
    """
    half = _half_obeyed(sparsity, b_slots, name)
    # the B slots that each A slot meets by index, (slots, positions, n); -1 if no legal value has the index
    by_index = np.full((b_slots.shape[1], sparsity.positions, b_slots.shape[2]), -1, b_slots.dtype)
    for (image, value), h in product(enumerate(sparsity.legal), range(sparsity.fields)):
        by_index[half == h, sparsity.read(value, h)] = b_slots[image, half == h]
    images = metadata_images(sparsity, threads)
    # the second value of the first of PAIRS marks the ones of a place's number
    marks = np.array([sparsity.read(PAIRS[sparsity.fields][0][1], h) for h in range(sparsity.fields)])
    marked, place = by_index[np.arange(len(half)), marks[half]], np.zeros(len(half), np.int64)
    for bit in range(bit_length(images.shape[1])):
        place |= (b_slots[len(sparsity.legal) + 2 * bit] == marked).all(axis=1).astype(np.int64) << bit
    _check(index_table(sparsity)[images[:, place], half[None]], b_slots, by_index, name)
    return by_index, place * sparsity.fields + half


def _words(raw: Bytes) -> Words:
    """The answers, two words a lane: (blocks, words)."""
    return np.ascontiguousarray(raw).view(np.uint32).reshape(-1, 2 * WARP)


def _check_sign(instruction: Instruction, words: Words) -> None:
    if np.bitwise_or.reduce(words, axis=None) >> 31:
        raise ProbeError(f"{instruction.name}: D is neither zero nor one where a single product can be.")


def _meetings(instruction: Instruction, words: Words, name: str) -> tuple[Ints, Small]:
    """(D slots that each A slot reaches, (slots, n); B slots met there, (images, slots, n)).

    Few images are decoded at a time, to stay in the cache. A word has the answers of two D slots. D slots that an A
    slot does not reach must be zero throughout, and all must be zero where B is.
    """
    a, n, images = instruction.fragment("a"), instruction.shape.n, b_images(instruction)
    words = words.reshape(-1, 1 + a.slots, 2 * WARP)
    answer = (1 << images - 1) - 1  # all codes but the last, where B is zero
    ones = np.uint32(1 | 1 << images)
    hit = words[0] & ones
    answer_bits, reached = ~(hit * np.uint32(answer)) | ones, _reached_slots(hit, images)
    if hit[0].any() or (reached.sum(axis=1)[1:] != n).any():
        raise ProbeError(f"{name}: not a sparse product: an A slot does not reach {n} D slots.")
    d = np.nonzero(reached[1:])[1].reshape(a.slots, n)
    word, shift = d // 4 * 2 + d % 2, (images * (d % 4 // 2) + 1).astype(np.uint32)
    b_slots = np.empty((len(words), *d.shape), np.int16)
    place = (1 + np.arange(a.slots)[:, None]) * words.shape[2] + word
    for part in _parts(words):
        answers = words[part]
        other = answers ^ hit
        other &= answer_bits
        if other.max():
            raise _wrong_answers(instruction, answers, hit, name)
        b_slots[part] = answers.reshape(len(answers), -1)[:, place] >> shift & np.uint32(answer >> 1)
    if b_slots.max() >= instruction.fragment("b").slots:
        raise ProbeError(f"{name}: the answers encode B slot {b_slots.max()}, which does not exist.")
    return d, b_slots


def _parts(answer_images: NDArray[np.generic]) -> Iterator[slice]:
    """Slices of consecutive images, of up to CACHED bytes each."""
    count = max(1, CACHED // answer_images[0].nbytes)
    yield from (slice(start, start + count) for start in range(0, len(answer_images), count))


def _reached_slots(hit: Words, image_count: int) -> Bools:
    """By A image, which D slots answer to a B of ones. Element i of a lane is in word i % 2, from 2 on higher up."""
    by_lane = hit.reshape(len(hit), WARP, 1, 2) >> np.array([0, image_count], np.uint32)[:, None] & np.uint32(1)
    return by_lane.reshape(len(hit), -1).astype(bool)


def _wrong_answers(instruction: Instruction, answer_words: Words, hit: Words, name: str) -> ProbeError:
    """The error in the answers to some metadata images."""
    _check_sign(instruction, answer_words)
    if ((answer_words & np.uint32(1 | 1 << b_images(instruction))) != hit).any():
        return ProbeError(f"{name}: not a sparse product: an A slot does not reach the same D slots throughout.")
    return ProbeError(f"{name}: D answers where A or B is zero, or where all ones gave nothing.")


def _half_obeyed(sparsity: Sparsity, b_slots: Small | Ints, name: str) -> Ints:
    """The half of four bits that each A slot obeys: of legal values, those with equal indices give equal answers.

    ProbeError unless there is exactly one.
    """
    fits = np.stack([_follows(sparsity, b_slots, half) for half in range(sparsity.fields)])
    if (fits.sum(axis=0) != 1).any():
        slot = int(np.flatnonzero(fits.sum(axis=0) != 1)[0])
        raise ProbeError(f"{name}: A slot {slot} obeys {int(fits[:, slot].sum())} halves of four bits of metadata.")
    half_of_slot: Ints = fits.argmax(axis=0)
    return half_of_slot


def _follows(sparsity: Sparsity, b_slots: Small | Ints, half: int) -> Bools:
    """By A slot: whether equal indices in `half` meet the same B slots, and different ones no common one."""
    indices = [sparsity.read(value, half) for value in sparsity.legal]
    fits = np.ones(b_slots.shape[1], bool)
    for i, index in enumerate(indices):
        for j, other_index in enumerate(indices[:i]):
            equal = b_slots[i] == b_slots[j]
            fits &= equal.all(axis=1) if index == other_index else ~equal.any(axis=1)
    return fits


def _check(indices: Ints, b_slots: Small | Ints, by_index: Small | Ints, name: str) -> None:
    """ProbeError unless every A slot met, in every image, what its index there says."""
    slots = np.arange(len(by_index))
    wrong = np.concatenate([(by_index[slots, indices[p]] != b_slots[p]).any(axis=2) for p in _parts(b_slots)])
    if wrong.any():
        image, slot = (int(n) for n in np.argwhere(wrong)[0])
        raise ProbeError(
            f"{name}: A slot {slot} does not obey one field of the metadata alone: first in "
            f"image {image}; {np.count_nonzero(wrong)} of {len(b_slots) * len(slots)} answers."
        )


def _decode_c(instruction: Instruction, raw: Bytes) -> Ints:
    """The D slot that each C slot reaches, for any B; ProbeError unless every D slot is reached once."""
    words, images = _words(raw), b_images(instruction)
    _check_sign(instruction, words)
    hit = words & np.uint32(1 | 1 << images)
    reached = _reached_slots(hit, images)[1:]
    lone = (reached.sum(axis=0) == 1).all() and (reached.sum(axis=1) == 1).all()
    if not lone or hit[0].any() or (words != hit * np.uint32((1 << images) - 1)).any():
        raise ProbeError(f"{instruction.name}: C does not reach D slot by slot.")
    of_c: Ints = reached.argmax(axis=1).astype(np.int64)
    return of_c
