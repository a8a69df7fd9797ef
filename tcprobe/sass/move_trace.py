"""LDSM and MOVM in a kernel's code: what every lane passes to them, and in which registers their results end.

Two kinds of kernel are followed: a wmma.load from shared memory, and a single ldmatrix or movmatrix. What an opcode
does is not known here, so its results are tags (number of the opcode, word, lane), which code may only move. The
matrices in shared memory hold the number of every half word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.layout.arrays import Words
from tcprobe.probes import ptx
from tcprobe.probes.moves import ExchangeMatrix, LoadMatrices
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.wmma import Load, image_bytes
from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import Address, Argument, UnreadError
from tcprobe.sass.machine import Image, Machine
from tcprobe.sass.opcodes import OPCODES
from tcprobe.sass.registry import Handler

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


def opcode_of(instruction: Instruction, code: Code) -> str | None:
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

    def lds(m: Machine, d: Argument, a: Argument) -> None:
        """A word of the matrices: the numbers of its two half words."""
        places = _shared_address(m, a).astype(np.int64) - SHARED
        if ((places % 4 != 0) | (places < 0) | (places + 4 > matrix_bytes)).any():
            raise UnreadError("shared memory outside the matrices is read")
        m.write(d, places // 2 | (places // 2 + 1) << 16)

    return lds


def _noting(moves: list[Moved], opcode: str) -> Handler:
    """LDSM or MOVM; each is appended to `moves`."""
    match = LDSM.fullmatch(opcode)

    def move(m: Machine, d: Argument, a: Argument) -> None:
        """Note what the lanes give, and tag what they get."""
        if not m.active.all() or d.kind != "R":
            raise UnreadError(f"{opcode} with inactive lanes or into {d} is not modelled")
        moves.append(Moved(opcode, _shared_address(m, a) if match else m.read(a), int(match[1] or 1) if match else 1))
        for word in range(moves[-1].words):
            m.set("R", d.index + word, _tags(len(moves) - 1, word))

    return move


def _shared_address(m: Machine, argument: Argument) -> Words:
    """The 32-bit addresses of a memory operand."""
    if not isinstance(argument, Address) or argument.wide or argument.descriptor is not None:
        raise UnreadError(f"operand {argument} where an address in shared memory is needed")
    total = m.read(Argument("R", argument.index, "", f"R{argument.index}")).astype(np.int64) + argument.offset
    if argument.uniform is not None:
        total = total + m.read(Argument("UR", argument.uniform, "", f"UR{argument.uniform}"))
    return total.astype(np.uint32)


def _tags(number: int, word: int) -> Words:
    """The tags of a word of a move, one for each lane."""
    return np.uint32(TAG | number << 16 | word << 8) | np.arange(WARP, dtype=np.uint32)
