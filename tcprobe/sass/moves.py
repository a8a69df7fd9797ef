"""Layouts of ldmatrix and movmatrix that follow from machine code: what LDSM and MOVM do inside a wmma.load.

A wmma.load from shared memory becomes LDSM, and also MOVM if an accumulator is stored by column. Its code shows the
address that every lane passes to LDSM, or the words that MOVM takes, and the registers of the results. The fragment's
table, measured through global memory, says which half word of memory is in each half of these registers. So it follows,
half by half, what the opcode did: everything that no load contradicts. If lanes pass the same address, it does not
follow which of them counts; then there is no table of addresses. MOVM counts only if the same fragment by row, which
needs no such opcode, shows the same table: the measurement through global memory may itself rest on MOVM.

A form of ldmatrix or movmatrix that is one such opcode, with registers in order, has that layout.

What an opcode does is not known while code is followed, so its results are tags (number of the opcode, word, lane),
which code may only move. The matrices in shared memory hold the number of every half word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tcprobe import __version__
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.isa.rows.moves import ROW_BYTES
from tcprobe.layout.arrays import Bools, Ints, Words
from tcprobe.layout.table import Table, Tables, slot_table
from tcprobe.probes import experiments, ptx
from tcprobe.probes.experiment import Context, KnownTable, ptx_hash
from tcprobe.probes.moves import ExchangeMatrix, LoadMatrices
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.slots import InMemory, positions
from tcprobe.probes.wmma import Load, image_bytes, leading_dimensions
from tcprobe.sass.cubin import Code, assemble
from tcprobe.sass.decode import Operand, UnreadError
from tcprobe.sass.machine import Image, Machine
from tcprobe.sass.opcodes import OPCODES, Handler
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.finding import MEMORY, Measurement

SHARED = 0x3A50  # address of the matrices in shared memory
IN, OUT = 0x7F12_3456_0000, 0x7E98_7654_0000  # images in global memory
TAG = 0xC000_0000  # above the numbers of all half words
LDSM = re.compile(r"LDSM\.16\.MT?88(?:\.([24]))?")
MOVM = "MOVM.16.MT88"


@dataclass(frozen=True)
class Moved:
    """One LDSM or MOVM: what lanes pass to it (an address or a word), and how many words it gives."""

    opcode: str
    passed: Words
    words: int


@dataclass(frozen=True)
class Followed:
    """All moves of a kernel in order, and the words that it stores: (lanes, words)."""

    moves: tuple[Moved, ...]
    stored: Words

    def places(self, number: int, word: int) -> list[int]:
        """The stored words that are a given word of a move, in every lane the lane's own."""
        return [int(j) for j in np.flatnonzero((self.stored == _tags(number, word)[:, None]).all(axis=0))]


def load_name(load: Load) -> str:
    """PTX's name of the load from shared memory."""
    f = load.fragment
    return f"wmma.load.{f.operand}.sync.aligned.{load.layout}.{f.shape}.shared.{f.type}"


def load_kernel(load: Load) -> Kernel:
    """The load from shared memory; the first parameter is its address. Registers are stored raw."""
    fragment, name = load.fragment, load_name(load)
    body = [
        "ld.param.u64 %in, [p_in];",
        "cvt.u32.u64 %shared, %in;",
        f"{name} {ptx.braces('r', fragment)}, [%shared], %ldm;",
        *ptx.point("out", "%x", fragment),
        *ptx.store("out", "r", fragment),
    ]
    text = ptx.entry(ptx.identifier(name), ("in", "out"), (".reg .u32 %shared;", ptx.declare("r", fragment)), body)
    return Kernel(ptx.identifier(name), load, text, fragment.target)


def input_fragment(instruction: Instruction) -> Fragment | None:
    """The operand that lanes pass to a form with results: addresses or words; None for a form without results."""
    if not instruction.of_role(Role.RESULT):
        return None
    return next(f for f in instruction.fragments if f.role is not Role.RESULT)


def form_kernel(instruction: Instruction) -> Kernel:
    """The form alone: inputs are loaded from memory, registers are stored raw."""
    source, result = input_fragment(instruction), instruction.fragment("d")
    assert source is not None
    loads = source.role is Role.ADDRESS
    operands = f"{ptx.braces('d', result)}, [%g0]" if loads else "%d0, %g0"
    body = [
        *ptx.point("in", "%x", source),
        *ptx.load("in", "g", source),
        f"{instruction.name} {operands};",
        *ptx.point("out", "%x", result),
        *ptx.store("out", "d", result),
    ]
    name, op = (
        f"alone_{ptx.identifier(instruction.id)}",
        LoadMatrices(instruction) if loads else ExchangeMatrix(instruction),
    )
    text = ptx.entry(name, ("in", "out"), (ptx.declare("g", source), ptx.declare("d", result)), body)
    return Kernel(name, op, text, instruction.target)


def follow_load(load: Load, code: Code, ldm: int) -> Followed:
    """A load's code, run with a leading dimension; UnreadError if it is not followed exactly."""
    output = Image(OUT, np.zeros(WARP * ptx.thread_bytes(load.fragment), np.uint8))
    return _follow(code, (SHARED, OUT, ldm), [output], image_bytes(load.fragment, load.layout))


def single_opcode(instruction: Instruction, code: Code) -> str | None:
    """The opcode if the form becomes just one, on the lanes' own inputs and with registers in order; else None."""
    words, values = instruction.fragment("d").registers, np.arange(SHARED, SHARED + 16 * WARP, 16, dtype=np.uint32)
    images = [Image(IN, values.view(np.uint8)), Image(OUT, np.zeros(4 * words * WARP, np.uint8))]
    try:
        followed = _follow(code, (IN, OUT, 0), images, 0)
    except UnreadError:
        return None
    in_order = [followed.places(0, word) for word in range(words)] == [[word] for word in range(words)]
    alone = len(followed.moves) == 1 and followed.moves[0].words == words and (followed.moves[0].passed == values).all()
    return followed.moves[0].opcode if in_order and alone else None


def _follow(
    code: Code, parameters: tuple[int, int, int], memory_images: Sequence[Image], matrix_bytes: int
) -> Followed:
    """Run the code. The last of `memory_images` is the output; shared memory has `matrix_bytes` bytes of matrices."""
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    raw = b"".join(value.to_bytes(size, "little") for value, size in zip(parameters, (8, 8, 4), strict=True))
    moves: list[Moved] = []
    opcodes = {name: _noting(moves, name) for name in code.opcodes if LDSM.fullmatch(name) or name == MOVM}
    opcodes |= dict.fromkeys(("LDS", "LDS.U"), _reading(matrix_bytes))
    Machine(1, memory_images, raw, code.parameter_base).run(code.instructions, code.start, OPCODES | opcodes)
    return Followed(tuple(moves), memory_images[-1].data.view(np.uint32).reshape(WARP, -1))


def _reading(matrix_bytes: int) -> Handler:
    """LDS of `matrix_bytes` bytes of matrices."""

    def lds(m: Machine, d: Operand, a: Operand) -> None:
        """A word of the matrices: the numbers of its two half words."""
        places = _shared_address(m, a).astype(np.int64) - SHARED
        if ((places % 4 != 0) | (places < 0) | (places + 4 > matrix_bytes)).any():
            raise UnreadError("shared memory outside the matrices is read")
        m.write(d, places // 2 | (places // 2 + 1) << 16)

    return lds


def _noting(moves: list[Moved], opcode: str) -> Handler:
    """LDSM or MOVM; each is appended to `moves`."""
    match = LDSM.fullmatch(opcode)

    def move(m: Machine, d: Operand, a: Operand) -> None:
        """Note what the lanes give, and tag what they get."""
        if not m.active.all() or d.view != "R":
            raise UnreadError(f"{opcode} with inactive lanes or into {d} is not modelled")
        moves.append(Moved(opcode, _shared_address(m, a) if match else m.read(a), int(match[1] or 1) if match else 1))
        for word in range(moves[-1].words):
            m.set("R", d.encoded + word, _tags(len(moves) - 1, word))

    return move


def _shared_address(m: Machine, operand: Operand) -> Words:
    """The 32-bit addresses of a memory operand."""
    if operand.kind != "address" or operand.terms[0].wide or operand.descriptor is not None:
        raise UnreadError(f"operand {operand} where an address in shared memory is needed")
    total = np.full(m.lanes, operand.offset, np.int64)
    for term in operand.terms:
        total = total + m.word(term.kind, term.first % 256)  # RZ is 255
    return total.astype(np.uint32)


def _tags(number: int, word: int) -> Words:
    """The tags of a word of a move, one for each lane."""
    return np.uint32(TAG | number << 16 | word << 8) | np.arange(WARP, dtype=np.uint32)


TYPES = ("f16", "s4")  # types of the fragments loaded; together their loads have every opcode that any type has
COLS = ROW_BYTES // 2


class Solved(NamedTuple):
    """The layout of an opcode: tables by operand, and what numbers them."""

    tables: Tables
    numbering: str


class Witness(NamedTuple):
    """A load followed with one leading dimension; `halves`: the half word of memory in each half of a stored word."""

    load: Load
    followed: Followed
    halves: Ints

    @property
    def holds(self) -> bool:
        """Whether the stored words are the half words of memory that the table says."""
        return bool((np.ascontiguousarray(self.followed.stored).view(np.uint16) == self.halves).all())


def derive_moves(
    tools: Toolchain, arch: Arch, forms: Sequence[Instruction], known_table: KnownTable
) -> list[Measurement]:
    """Measurements of `forms` of ldmatrix and movmatrix on `arch`; `known_table` gives the arch's wmma tables."""
    alone = {
        i: form_kernel(i) for i in forms if i.target.on(arch) and i.target.name[-1].isdigit() and input_fragment(i)
    }
    if not alone:
        return []
    loads = {load: load_kernel(load) for load in _loads(arch)}
    codes, _ = assemble(tools, [*loads.values(), *alone.values()], arch)
    solved = solve(((load, codes[k.name]) for load, k in loads.items() if k.name in codes), known_table, arch)
    about = {"device": "machine code", "driver": "none", "cuda": "none", "compiler": tools.name}
    measurements = []
    for i, kernel in alone.items():
        layout = solved.get(single_opcode(i, codes[kernel.name]) or "") if kernel.name in codes else None
        if layout:
            made_by = about | {"ptx": ptx_hash([kernel]), "tcprobe": __version__}
            measurements.append(Measurement(i.id, arch.name, "derived", "measured", made_by, *layout))
    return measurements


def _loads(arch: Arch) -> list[Load]:
    fragments = (f for f in inventory.fragments().values() if f.family == "wmma" and f.type in TYPES)
    return [
        Load(f, layout)
        for f in fragments
        if f.operand != "d" and f.target.on(arch)
        for layout in ([f.layout] if f.layout else ["row", "col"])
    ]


def solve(loads_and_code: Iterable[tuple[Load, Code]], known_table: KnownTable, arch: Arch) -> dict[str, Solved]:
    """Layouts of the opcodes that the loads' code determines completely and without contradiction."""
    witnesses = [witness for load, code in loads_and_code for witness in _witnesses(load, code, known_table)]
    plain = {w.load.fragment.id for w in witnesses if not w.followed.moves and w.holds}
    possible: dict[str, Bools] = {}
    seen_in: dict[str, str] = {}
    for witness in witnesses:
        for number, move in enumerate(witness.followed.moves):
            if move.opcode != MOVM or witness.load.fragment.id in plain:
                fits = _fits(witness, number)
                possible[move.opcode] = possible[move.opcode] & fits if move.opcode in possible else fits
                seen_in.setdefault(move.opcode, load_name(witness.load))
    solved = {o: _exchange(fits, arch) if o == MOVM else _rows(fits) for o, fits in possible.items()}
    return {o: Solved(s.tables, f"{s.numbering}, through {o} of {seen_in[o]}") for o, s in solved.items() if s}


def _witnesses(load: Load, code: Code, known_table: KnownTable) -> list[Witness]:
    """A witness for each of two leading dimensions; none if the code is not followed, or the fragment has no table."""
    table = known_table(load.fragment)
    if table is None:
        return []
    try:
        return [
            Witness(load, follow_load(load, code, ldm), halves_of(load, table, ldm))
            for ldm in leading_dimensions(load.fragment, load.layout)
        ]
    except UnreadError:
        return []


def halves_of(load: Load, table: Table, ldm: int) -> Ints:
    """The number of the half word of memory in each half of a lane's words, by the table; -1 if it is not one.

    Shape (lanes, halves).
    """
    places, used = positions(table, load.fragment, InMemory(load.layout, ldm))
    size = load.fragment.slot_bits
    bits = np.full(table.points, -1)
    bits[used] = places * size
    of_halves = bits.reshape(WARP, table.elements * size // 16, 16 // size)
    start = of_halves[..., 0]
    whole = (of_halves == start[..., None] + size * np.arange(16 // size)).all(axis=2)
    return np.where(whole & (start >= 0) & (start % 16 == 0), start // 16, -1)


def _fits(witness: Witness, number: int) -> Bools:
    """Where each half of a move's results may come from: (lanes, halves, sources). Anywhere if it is not stored."""
    move, halves = witness.followed.moves[number], witness.halves
    sources = _sources(move).reshape(-1)
    fits = np.ones((WARP, 2 * move.words, len(sources)), bool)
    for word in range(move.words):
        for place in witness.followed.places(number, word):
            for half in (0, 1):
                fits[:, 2 * word + half] &= halves[:, 2 * place + half, None] == sources
    return fits


def _sources(moved: Moved) -> Ints:
    """Half words of memory that a move may take: (lanes, columns of the row at its address) or (lanes, halves)."""
    if moved.opcode == MOVM:
        return np.ascontiguousarray(moved.passed).view(np.uint16).reshape(WARP, 2).astype(np.int64)
    return ((moved.passed.astype(np.int64) - SHARED) // 2)[:, None] + np.arange(COLS)


def _rows(fits: Bools) -> Solved | None:
    """The tables of an LDSM; None if a half has no source, or several in lanes with different addresses."""
    sources = fits.reshape(-1, WARP, COLS)
    lanes: Bools = sources.max(axis=2)
    cols: Bools = sources.max(axis=1)
    groups = [tuple(np.flatnonzero(lane).tolist()) for lane in lanes]
    rows = {group: number for number, group in enumerate(sorted(set(groups)))}
    elements = {(rows[group], int(col)) for group, col in zip(groups, cols.argmax(axis=1), strict=True)}
    apart = sorted(lane for group in rows for lane in group) == list(range(WARP))
    if not apart or len(elements) != len(groups) or len(rows) * COLS != len(groups) or cols.sum() != len(groups):
        return None
    values = {"row": tuple(rows[group] for group in groups), "col": tuple(cols.argmax(axis=1).tolist())}
    tables = {"d": slot_table(WARP, len(groups) // WARP, values)}
    if len(rows) == WARP:  # every lane has an address of its own
        tables["address"] = slot_table(WARP, 1, {"row": tuple(rows[lane,] for lane in range(WARP))})
    return Solved(tables, MEMORY)


def _exchange(fits: Bools, arch: Arch) -> Solved | None:
    """The tables of MOVM, concluded like those of a measured movmatrix; None if they do not follow."""
    if (fits.sum(axis=2) != 1).any():
        return None
    slots = fits.argmax(axis=2).reshape(-1)
    reading = {"source": (16 * slots[:, None] + np.arange(16)).reshape(-1)}
    try:
        conclusion = experiments()["movmatrix.m8n8.trans.b16"].conclude(reading, Context(arch, lambda _: None))
    except ProbeError:
        return None
    return Solved(conclusion.tables, conclusion.numbering)
