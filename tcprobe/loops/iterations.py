"""How many rounds of a loop one thread does in a launch: its code is run with the values that the launch passes.

Integers are run exactly, by the rules that follow addresses (`check.integers`) and, since everything that a launch
passes is known, by those of carries, high halves and the divisions that compilers write with reciprocals. What memory
holds is not known; a branch that depends on it is refused, but for waits, which succeed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.graph import reached
from tcprobe.isa.opcodes import of_kind
from tcprobe.layout.arrays import Array
from tcprobe.loops.loop import Loop, LoopError
from tcprobe.sass import lanes
from tcprobe.sass.addresses import Walk
from tcprobe.sass.decode import Form, Operand
from tcprobe.sass.dependence import Dependence
from tcprobe.sass.integers import COMPARED, HIGH
from tcprobe.sass.interpreter import Interpreter
from tcprobe.sass.kernel import BYTES, Instruction, Kernel
from tcprobe.sass.lanes import Lanes, constant
from tcprobe.sass.reader import sizes_at
from tcprobe.sass.registers import BASE
from tcprobe.sass.state import Held, Register, State, held_in, unset

MOST_BLOCKS = 400_000  # basic blocks of a thread's way through the kernel
_BLOCK = re.compile(r"SR_CTAID\.[XYZ]")
_LAUNCHES = count(1)
_SUCCEEDS = of_kind("mbarrier", "grant", "elect")
Wide = NDArray[np.uint64]


class Iterations(NamedTuple):
    """How often a thread begins a round, and how often it comes into the loop from outside."""

    begun: int
    entered: int


def rounds(loop: Loop, block: tuple[int, int, int], grid: tuple[int, int, int], parameters: bytes) -> Iterations:
    """Of the first thread of a warp that comes to the loop; LoopError with the reason where that is not known."""
    stated = loop.kernel.code.parameters
    if stated is None or stated.base is None:
        raise LoopError("the file does not say where parameters are")
    kernel = replace(loop.kernel, code=replace(loop.kernel.code, threads=block))
    sizes = sizes_at(kernel.arch)
    words = {sizes + 4 * j: size for j, size in enumerate((*block, *grid))}
    padded = parameters + bytes(-len(parameters) % 4)
    words |= {stated.base + j: int.from_bytes(padded[j : j + 4], "little") for j in range(0, len(padded), 4)}
    walk = Walk(kernel, _Interpreter(kernel, words))
    for warp in range(len(walk.interpreter.threads.there)):
        found = _followed(walk, loop, warp)
        if found.begun:
            return found
    raise LoopError("no warp of the launch comes to the loop")


def _followed(walk: Walk, loop: Loop, warp: int) -> Iterations:
    """The way of the first thread of a warp through the kernel."""
    state, number, before = State({}, walk.interpreter.threads.there), 0, -1
    begun = entered = 0
    before_loop = reached(walk.kernel.before, [loop.head])
    for _ in range(MOST_BLOCKS):
        if number not in before_loop:
            return Iterations(begun, entered)
        if number == loop.head:
            begun, entered = begun + 1, entered + (before not in loop.blocks)
        state = walk.run(number, state)
        after = walk.kernel.blocks[number].after
        if not after or not state.active[warp, 0]:
            return Iterations(begun, entered)
        before, number = number, after[0] if len(after) == 1 else _next(walk, number, state, warp)
    raise LoopError(f"a thread that comes through more than {MOST_BLOCKS} blocks")


def _next(walk: Walk, number: int, state: State, warp: int) -> int:
    """The block that a thread comes to behind a branch."""
    block = walk.kernel.blocks[number]
    branch = walk.kernel.instructions[block.end - 1]
    if branch.mnemonic != "BRA" or len(block.after) != 2:
        raise LoopError(f"{branch} at {branch.address:#x} is not followed")
    through, to = block.after
    if branch.opcode.startswith("BRA.DIV"):
        return through
    taken = walk.interpreter.taken(branch, state.held)
    if taken.exact:
        return to if taken.known[warp % len(taken.known), 0] else through
    if "ANY" in branch.opcode:
        return through
    if any(i.mnemonic in _SUCCEEDS for i in walk.kernel.instructions[block.first : block.end]):
        return to if through == number else through
    raise LoopError(f"the branch at {BYTES * (block.end - 1):#x} depends on {taken.why or 'what is not followed'}")


class _Interpreter(Interpreter):
    """Of the first block of a launch: constants are known, and the indices of blocks are 0."""

    def __init__(self, kernel: Kernel, words: Mapping[int, int]) -> None:
        super().__init__(kernel)
        self._words, self.place = words, -next(_LAUNCHES)  # results are kept by place: constants are those of a launch

    def in_constant_bank(self, operand: Operand, held: Held) -> Lanes:
        word = None if operand.parameter is None else self._words.get(operand.parameter)
        if word is None or operand.sign == "~":
            return super().in_constant_bank(operand, held)
        return constant(-word if operand.sign else word)

    def write(self, instruction: Instruction, depends: Dependence, held: Held) -> None:
        """As Interpreter's, and what is known exactly beside that."""
        form, before = instruction.form, dict(held)
        super().write(instruction, depends, held)
        for output, value in self._exactly(form, before).items():
            operand = form.operands[output % HIGH]
            if operand.kind in BASE and operand.first >= 0:
                bit = BASE[operand.kind] + operand.first + output // HIGH
                old = (before.get(bit) or unset(bit)).value
                made = lanes.choose(self.condition(form.guard, before), value, old) if form.guard else value
                held[bit] = Register(lanes.shared(made))

    def _exactly(self, form: Form, held: Held) -> dict[int, Lanes]:
        """By the output's number what is written, HIGH times the word beside it; nothing where that is not known."""
        if len(form.operands) < 2:
            return {}
        to, source = form.operands[0], form.operands[-1]
        if form.mnemonic in ("S2R", "S2UR") and _BLOCK.fullmatch(source.text):
            return {0: constant(0)}
        if form.mnemonic in ("LDC", "ULDC", "LDCU") and source.parameter is not None:
            words = [self._words.get(source.parameter + 4 * j) for j in range(to.width)]
            return {HIGH * j: constant(word) for j, word in enumerate(words) if word is not None}
        if form.mnemonic not in _EXACT:
            return {}
        values = [self.read(operand, held) for operand in form.operands[form.outputs :]]
        beside = self._beside(form, held)
        if not all(value.exact for value in (*values, beside)):
            return {}
        wide = [value.known.astype(np.uint64) for value in (*values, beside)]
        return {j: lanes.made(words.astype(np.uint32)) for j, words in _EXACT[form.mnemonic](form, wide).items()}

    def _beside(self, form: Form, held: Held) -> Lanes:
        """The high half of an addend of 64 bits."""
        addend = form.operands[-1]
        if not (form.has("WIDE") or form.has("HI")) or addend.kind not in ("R", "UR") or addend.first < 0:
            return constant(0)
        return held_in(addend.kind, addend.first + 1, held).value


Rule = Callable[[Form, Sequence[Wide]], dict[int, Array]]  # of the sources, and the high half of the last
_32, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def _sum(form: Form, values: Sequence[Wide]) -> dict[int, Array]:
    """IADD3 and its like: the low word, and carries where the operands that come first are predicates."""
    if any(operand.sign in ("-", "~") for operand in form.operands[form.outputs :]):
        return {}
    total = sum(values[1:], values[0])
    return {0: total & _LOW, 1: (total >> _32 != 0).astype(np.uint64)} if form.outputs == 2 else {0: total & _LOW}


def _product(form: Form, values: Sequence[Wide]) -> dict[int, Array]:
    """IMAD with high halves: of 64 bits a * b + c, signed but for .U32."""
    if len(values) != 4 or not (form.has("WIDE") or form.has("HI")):
        return {}
    a, b = values[:2]
    if not form.has("U32"):
        a, b = (value.astype(np.uint32).view(np.int32).astype(np.int64).view(np.uint64) for value in (a, b))
    total = a * b + (values[2] | values[3] << _32)
    return {0: total >> _32} if form.has("HI") else {0: total & _LOW, HIGH: total >> _32}


def _comparison(form: Form, values: Sequence[Wide]) -> dict[int, Array]:
    """ISETP with .AND or .OR."""
    compare = next((COMPARED[m] for m in form.modifiers if m in COMPARED), None)
    if compare is None or form.has("EX") or form.has("64") or len(values) != 4:
        return {}
    left, right = (value.astype(np.uint32) for value in values[:2])
    truth = compare(left, right) if form.has("U32") else compare(left.view(np.int32), right.view(np.int32))
    other = values[2] != 0
    both = [truth | other, ~truth | other] if form.has("OR") else [truth & other, ~truth & other]
    return dict(enumerate(both))


def _to_float(form: Form, values: Sequence[Wide]) -> dict[int, Array]:
    """I2F of 32 bits, rounded to the nearest, or with .RP up."""
    if form.has("F64") or form.has("U64") or form.has("S64"):
        return {}
    exact = values[0].astype(np.uint32)
    number = (exact if form.has("U32") else exact.view(np.int32)).astype(np.float64)
    rounded = number.astype(np.float32)
    if form.has("RP"):
        rounded = np.where(rounded < number, np.nextafter(rounded, np.float32(np.inf)), rounded)
    return {0: rounded.astype(np.float32).view(np.uint32)}


def _reciprocal(form: Form, values: Sequence[Wide]) -> dict[int, Array]:
    """MUFU.RCP; its last bit may be another one, which a division corrects."""
    if not form.has("RCP"):
        return {}
    with np.errstate(divide="ignore"):
        return {0: (np.float32(1) / values[0].astype(np.uint32).view(np.float32)).view(np.uint32)}


def _to_integer(form: Form, values: Sequence[Wide]) -> dict[int, Array]:
    """F2I.U32.TRUNC."""
    if not (form.has("U32") and form.has("TRUNC")):
        return {}
    number = values[0].astype(np.uint32).view(np.float32)
    return {0: np.clip(np.nan_to_num(number), 0, 2.0**32 - 1).astype(np.uint64)}


_EXACT: dict[str, Rule] = {
    **dict.fromkeys(("IADD3", "UIADD3", "IADD"), _sum),
    **dict.fromkeys(("IMAD", "UIMAD"), _product),
    **dict.fromkeys(("ISETP", "UISETP"), _comparison),
    "I2F": _to_float,
    "MUFU": _reciprocal,
    "F2I": _to_integer,
}
