"""What integer instructions make of what lanes hold: registers, predicates and addresses of a warp's lanes.

`lanes` says what is kept of a value. Parameters, indices of blocks and what one address gives to all lanes are not
known, but alike in a warp; what lanes load each for itself is lost, and so is the result of an instruction that is not
followed, unless all that it reads is alike.

The threads of a block are those that the file states (.reqntid, or as many in a row as .maxntid allows); a block of
unknown size has eight warps in one row. Where a kernel reads tid.y or tid.z, and its file does not say how wide a block
is, blocks of 32, 16 and 8 threads in a row are looked at side by side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np

from tcprobe.check import lanes
from tcprobe.check.lanes import CHOICE, UNKNOWN, Lanes, constant
from tcprobe.check.program import Instruction, Kernel
from tcprobe.check.registers import (
    PREDICATE,
    UNIFORM,
    UNIFORM_PREDICATE,
    Form,
    Operand,
)
from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Array, Bools, Words

MOST_WARPS = 32
ASSUMED_WARPS = 8  # of a block whose size nobody states
WIDTHS = (32, 16, 8)  # threads in a row, of a block whose shape nobody states
NTID_BASES = ((100, 0x360), (70, 0x0))  # where constant bank 0 has the size of a block, from which arch on
FIRST = {"R": 0, "UR": UNIFORM, "P": PREDICATE, "UP": UNIFORM_PREDICATE}
ON_STACK = re.compile(r"\[R1(?:\+(-?0x[0-9a-f]+))?\]")
_PART = re.compile(r"(UR|R)([0-9]+|Z)((?:\.\w+)*)|([+-]{0,2}0x[0-9a-f]+)")
_SCALE = {"X4": 2, "X8": 3, "X16": 4}

SLOTS = UNIFORM_PREDICATE + 8  # from here on the bits of a frame's words: registers that were spilled
MOST_SLOTS = 2048
PLACES = 12  # bits of a register's number


class Register(NamedTuple):
    """What a register holds, and where that is from, a place: two of one origin are the same in every lane.

    Negative where several ways brought it, -1 where nothing is known of that.
    """

    value: Lanes
    origin: int = -1


Held = dict[int, Register]  # what registers hold, by their bit in `registers`
Under = tuple[str, int, Register]  # a guard, where its predicate is from, what a register holds where it is true
Results = tuple[tuple[Lanes, Lanes], ...]  # of each register that is written, what it holds; and where a guard is true


class Threads(NamedTuple):
    """Warps to look at: indices of their threads, sizes of their blocks, and which lanes there are."""

    tid: tuple[Lanes, Lanes, Lanes]
    size: tuple[Lanes, Lanes, Lanes]
    there: Bools
    shapes: tuple[int, ...]


def threads(kernel: Kernel) -> Threads:
    """The warps of a kernel that are looked at, the same object for kernels of which the same is known."""
    stated, most = kernel.code.threads, kernel.code.most_threads
    if stated:
        return _of_shapes((stated,))
    total = min(most or WARP * ASSUMED_WARPS, WARP * MOST_WARPS)
    if _reads_rows(kernel):
        return _of_shapes(tuple((width, max(1, min(total, 4 * WARP) // width), 1) for width in WIDTHS))
    return _of_row(total)


@lru_cache(maxsize=64)
def _of_row(total: int) -> Threads:
    """At most so many threads in a row."""
    return _of_shapes(((total, 1, 1),))._replace(size=(UNKNOWN, constant(1), constant(1)))


def _reads_rows(kernel: Kernel) -> bool:
    special = {o.text for i in kernel.instructions if i.stem in ("S2R", "S2UR") for o in i.operands[1:2]}
    return bool(special & {"SR_TID.Y", "SR_TID.Z"})


@lru_cache(maxsize=64)
def _of_shapes(shapes: tuple[tuple[int, int, int], ...]) -> Threads:
    rows: list[list[Words]] = [[] for _ in range(6)]
    there, numbers = [], []
    for number, shape in enumerate(shapes):
        count = min(int(np.prod(shape)), WARP * MOST_WARPS)
        warps = -(-count // WARP)
        thread = np.arange(warps * WARP, dtype=np.uint32).reshape(warps, WARP)
        x, y, z = (np.uint32(max(1, n)) for n in shape)
        for j, index in enumerate((thread % x, thread // x % y, thread // (x * y))):
            rows[j].append(index)
        for j, size in enumerate((x, y, z)):
            rows[3 + j].append(np.full((warps, 1), size, np.uint32))
        there.append(thread < count)
        numbers += [number] * warps
    made = [lanes.made(np.concatenate(row)) for row in rows]
    return Threads((made[0], made[1], made[2]), (made[3], made[4], made[5]), np.concatenate(there), tuple(numbers))


def _keeps_its_frame(kernel: Kernel) -> bool:
    """Whether the stack pointer is set before the first access of local memory, and never again."""
    if kernel.stems.isdisjoint(LOCAL):
        return True
    places = [i.number for i in kernel.instructions if i.writes >> 1 & 1]
    first = next((i.number for i in kernel.instructions if i.stem in LOCAL), len(kernel.instructions))
    return all(place < first for place in places)


class Reading(NamedTuple):
    """The registers that an instruction looks at: in order of operands (of 64 bits, both), with its guard's; and what
    it leaves as it was where that is false, and the guard's again.

    `shape` numbers what is left of its text without their numbers, so that the results of one shape follow from values;
    where it is `placed`, from the threads, too.
    """

    shape: int
    placed: bool
    reads: tuple[int, ...]
    kept: tuple[int, ...]
    writes: tuple[int, ...]


SPECIAL = ("S2R", "S2UR", "CS2R")


@lru_cache(maxsize=1 << 14)
def reading(form: Form) -> Reading:
    """What an instruction looks at."""
    operands, outputs, guard = form.operands, form.outputs, form.guard
    reads, covered, writes = list[int](), 0, tuple(bits_of(form.writes))
    kept: tuple[int, ...] = ()
    texts: list[object] = [form.opcode, outputs, guard.rstrip("0123456789")]
    if guard:
        reads.append(_guard_bit(guard))
        covered, kept = 1 << reads[0], (reads[0], *writes)
    for number, operand in enumerate(operands):
        text, bits = _abstract(operand.text, operand.width, operand.kind, operand.mask)
        texts.append(text)
        if number >= outputs:
            reads += bits
            covered |= operand.mask
        elif len(writes) > 1 and operand.first >= 0 and operand.kind in FIRST:
            texts.append(writes.index(FIRST[operand.kind] + operand.first))  # which result is whose
    if form.reads & ~covered:
        reads += bits_of(form.reads & ~covered)
    if len(reads) > 1:  # the reason that is given is that of the first register
        order = sorted(set(reads))
        texts += [order.index(bit) for bit in reads]
    placed = form.stem in SPECIAL or any(operand.kind == "constant" for operand in operands)
    return Reading(_number(tuple(texts)), placed, tuple(reads), kept, writes)


@lru_cache(maxsize=1 << 13)
def _abstract(text: str, width: int, kind: str, mask: int) -> tuple[str, tuple[int, ...]]:
    """An operand without the numbers of its registers, and the bits of these."""
    bits = tuple(bits_of(mask | (mask << 1 if kind in ("R", "UR") else 0)))

    def place(match: re.Match[str]) -> str:
        bit = FIRST[match[1]] + int(match[2])
        return f"{match[1]}#{bits.index(bit)}" if bit in bits else match[0]

    text = _NUMBERED.sub(place, text.replace(".reuse", "")) if bits else text
    return f"{kind} {width} {text}", bits


_NUMBERED = re.compile(r"\b(UR|R|UP|P)([0-9]+)")
_count = count(1)


@lru_cache(maxsize=1 << 15)
def _number(_: tuple[object, ...]) -> int:
    """A number for equal values, and no other."""
    return next(_count)


def guard_mask(guard: str) -> int:
    """The predicate of a guard."""
    return 0 if guard in ("", "never") else 1 << _guard_bit(guard)


@cache
def _guard_bit(guard: str) -> int:
    kind = "UP" if "UP" in guard else "P"
    return FIRST[kind] + int(guard.lstrip("!UP"))


_results: dict[tuple[object, ...], Results] = {}  # by shape, threads and values what instructions write
MOST_RESULTS = 1 << 17  # about 60 MB


class Reader:
    """Reads operands of a kernel's instructions."""

    def __init__(self, kernel: Kernel) -> None:
        self.threads, self._relocated = threads(kernel), kernel.code.relocated
        # by bit of a register written under a guard in this block: the guard, where its predicate is from, the value
        self._under: dict[int, Under] = {}
        # by number of an instruction what it read when it was followed last, and what came of it
        self._known: dict[int, tuple[list[Register | None], list[tuple[int, Register, Under | None]]]] = {}
        self._framed = _keeps_its_frame(kernel)
        arch = int(kernel.arch.removeprefix("sm_"))
        sizes = next(base for least, base in NTID_BASES if arch >= least)
        self._sizes = {sizes + 4 * j: size for j, size in enumerate(self.threads.size)}
        seen = (*self.threads.tid, *self.threads.size)
        self._place = _number((sizes, self.threads.shapes, *[value.known.tobytes() for value in seen]))

    def read(self, operand: Operand, held: Held) -> Lanes:
        """What an operand holds, with its sign."""
        if operand.kind == "number":
            return constant(operand.value)
        if operand.kind == "constant":
            return self._constant(operand, held)
        if operand.kind not in FIRST:
            return lanes.unless_alike("a value that is not followed", *self.inputs(operand.mask, held))
        value = held_in(operand.kind, operand.first, held).value
        return inverse(value) if operand.negated else _signed_value(operand.text.replace(".reuse", ""), value)

    def _constant(self, operand: Operand, held: Held) -> Lanes:
        match = re.fullmatch(r"-?c\[0x0\]\[(0x[0-9a-f]+)\]", operand.text.replace(".reuse", ""))
        if match and operand.text[:1] != "-" and int(match[1], 16) in self._sizes:
            return self._sizes[int(match[1], 16)]
        return lanes.unless_alike("a constant that lanes index", *self.inputs(operand.mask, held))

    def _spill(self, instruction: Instruction, held: Held) -> None:
        """A store to the frame, or a load from it: what a kernel's own frame holds is what was stored there."""
        form, own = instruction.form, slots(instruction.form) if self._framed else None
        condition = self.condition(form.guard, held) if form.guard else None
        if form.stem == "STL" and own is None:  # an array that lanes index, or a frame that moves
            for bit in [bit for bit in held if bit >= SLOTS]:
                held[bit] = Register(lanes.lost("a word of local memory"))
            return
        data = form.operands[0 if form.stem == "LDL" else -1]
        registers = [FIRST["R"] + data.first + j for j in range(max(data.width, 1))] if data.first >= 0 else []
        targets, sources = (registers, list(own or ())) if form.stem == "LDL" else (list(own or ()), registers)
        for j, bit in enumerate(targets):
            value = (held.get(sources[j]) or unset(sources[j])).value if j < len(sources) else None
            if value is None:
                value = constant(0) if form.stem == "STL" else lanes.lost("a word of local memory")
            old = (held.get(bit) or unset(bit)).value
            if condition is not None and old is not NEVER:
                value = lanes.choose(condition, value, old)
            held[bit] = Register(lanes.shared(value), instruction.number << PLACES | bit)

    def inputs(self, mask: int, held: Held) -> Iterator[Lanes]:
        """What the registers of a set hold."""
        for bit in bits_of(mask):
            yield (held.get(bit) or unset(bit)).value

    def address(self, operand: Operand, held: Held) -> Lanes:
        """The sum in square brackets, its low 32 bits."""
        parts, offset = _parts(operand.text.rpartition("[")[2])
        return _address(tuple((held_in(kind, index, held).value, scale) for kind, index, scale in parts), offset)

    def condition(self, guard: str, held: Held) -> Lanes:
        if not guard:
            return constant(1)
        if guard == "never":
            return constant(0)
        bit = _guard_bit(guard)
        value = (held.get(bit) or unset(bit)).value
        return inverse(value) if guard[0] == "!" else value

    def write(self, instruction: Instruction, looks: Reading, held: Held) -> None:
        """Note what an instruction writes: what it wrote before, if it reads the same values as then."""
        form = instruction.form
        if form.stem in LOCAL:
            self._spill(instruction, held)
            return
        _, _, reads, kept, writes = looks
        own = self._own(form, held) if kept and self._under else {}
        read = [own.get(bit) or held.get(bit) for bit in reads] if own else [held.get(bit) for bit in reads]
        if kept:
            read += [held.get(bit) for bit in kept]
        known = self._known.get(instruction.number)
        if known is None or known[0] != read:
            base, origin = instruction.number << PLACES, self._guard_origin(form.guard, held) if kept else -1
            results = self._found(instruction, looks, read, {**held, **own} if own else held, held)
            made: list[tuple[int, Register, Under | None]] = []
            for bit, (value, true) in zip(writes, results, strict=True):
                under = (form.guard, origin, Register(true, base | bit)) if kept else None
                made.append((bit, Register(value, base | bit), under))
            known = self._known[instruction.number] = read, made
        for bit, register, under in known[1]:
            if under is not None:
                self._under[bit] = under
            elif self._under:
                self._under.pop(bit, None)
            held[bit] = register

    def _found(
        self, instruction: Instruction, looks: Reading, read: Sequence[Register | None], seen: Held, held: Held
    ) -> Results:
        """What an instruction writes: what one of its shape wrote that read the same values, if one did."""
        linked = instruction.address in self._relocated
        place = self._place if looks.placed else 0
        key = (looks.shape, place, linked, *[register and register.value for register in read])
        results = _results.get(key)
        if results is None:
            if len(_results) >= MOST_RESULTS:
                _results.clear()
            results = _results[key] = tuple(self._written(instruction, looks.writes, linked, seen, held))
        return results

    def _written(
        self, instruction: Instruction, writes: Sequence[int], linked: bool, seen: Held, held: Held
    ) -> Iterator[tuple[Lanes, Lanes]]:
        """Of each register that is written, what it holds then, and what where the guard is true."""
        form = instruction.form
        follow = FOLLOWED.get(form.stem)
        inputs = list(self.inputs(form.reads, seen))
        even = (follow is not None or form.stem in PURE) and all(value.uniform for value in inputs)
        results = follow(self, form, seen) if follow and not linked else {}
        condition = self.condition(form.guard, held) if form.guard else None
        why = _reason(instruction, inputs)
        written = {}
        for j, operand in enumerate(form.operands[: form.outputs]):
            if operand.kind in FIRST and operand.first >= 0:
                written[FIRST[operand.kind] + operand.first] = results.get(j)
                if j + HIGH in results:
                    written[FIRST[operand.kind] + operand.first + 1] = results[j + HIGH]
        for bit in writes:
            value = written.get(bit)
            if value is None:
                value = _unfollowed(bit, even, why)
            true = value = lanes.shared(value)
            if condition is not None:
                old = (held.get(bit) or unset(bit)).value
                value = value if old is NEVER or old is NEVER_BIT else lanes.shared(lanes.choose(condition, value, old))
            yield value, true

    def begin(self) -> None:
        """Enter another block."""
        self._under.clear()

    def seen(self, form: Form, held: Held) -> Held:
        """What registers hold where an instruction is executed: what was written under the same guard, it reads."""
        own = self._own(form, held) if form.guard and self._under else {}
        return {**held, **own} if own else held

    def _own(self, form: Form, held: Held) -> Held:
        """What was written under an instruction's guard."""
        origin = self._guard_origin(form.guard, held)
        if origin < 0:
            return {}
        return {bit: value for bit, (guard, of, value) in self._under.items() if of == origin and guard == form.guard}

    def _guard_origin(self, guard: str, held: Held) -> int:
        """Where the predicate of a guard is from; negative where several ways brought it."""
        bit = _guard_bit(guard)
        return (held.get(bit) or unset(bit)).origin


@lru_cache(maxsize=1 << 13)
def _parts(text: str) -> tuple[tuple[tuple[str, int, int], ...], int]:
    """The registers of an address, each with its scale, as a shift, and the sum of its numbers."""
    registers, offset = [], 0
    for part in _PART.finditer(text):
        if part[4]:
            offset += _signed(part[4])
        else:
            scale = next((_SCALE[s] for s in part[3].split(".") if s in _SCALE), 0)
            registers.append((part[1], int(part[2]) if part[2] != "Z" else -1, scale))
    return tuple(registers), offset


@lru_cache(maxsize=1 << 13)
def _address(registers: tuple[tuple[Lanes, int], ...], offset: int) -> Lanes:
    """The sum of registers and a number."""
    total = constant(0)
    for value, scale in registers:
        total = lanes.add(total, lanes.shift_left(value, scale) if scale else value)
    return lanes.shared(lanes.add(total, constant(offset)) if offset else total)


LOCAL = ("LDL", "STL")


@cache
def slots(form: Form) -> range | None:
    """The bits of the frame's words that a spill is about, None of another access of local memory."""
    texts = (operand.text for operand in form.operands if operand.kind == "address")
    match = next((match for text in texts if (match := ON_STACK.fullmatch(text))), None)
    width = {"64": 2, "128": 4}.get(form.opcode.rpartition(".")[2], 1)
    first = int(match[1] or "0", 16) if match else -1
    if first < 0 or first % 4 or first // 4 + width > MOST_SLOTS or "8" in form.opcode or "16" in form.opcode:
        return None
    return range(SLOTS + first // 4, SLOTS + first // 4 + width)


def reads(form: Form) -> int:
    """The registers that an instruction reads, and the words of the frame."""
    own = slots(form) if form.stem == "LDL" else None
    return form.reads | sum(1 << bit for bit in own) if own else form.reads


def writes(form: Form) -> int:
    """The registers that an instruction writes, and the words of the frame."""
    own = slots(form) if form.stem == "STL" else None
    return form.writes | sum(1 << bit for bit in own) if own else form.writes


def bits_of(mask: int) -> Iterator[int]:
    """The numbers of the bits of a set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def held_in(kind: str, index: int, held: Held) -> Register:
    """What a register holds; RZ and PT have no index."""
    if index < 0:
        return Register(constant(kind in ("P", "UP")))
    bit = FIRST[kind] + index
    return held.get(bit) or unset(bit)


NEVER = lanes.lost("a register that nothing has written")
NEVER_BIT = lanes.lost("a predicate that nothing has written", 1)


_UNSET = (Register(NEVER), Register(UNKNOWN), Register(NEVER_BIT), Register(CHOICE))


def unset(bit: int) -> Register:
    """A register before it is written; what it holds does not count where a way brings another value."""
    if bit < PREDICATE or bit >= SLOTS:
        return _UNSET[0] if bit < UNIFORM or bit >= SLOTS else _UNSET[1]
    return _UNSET[2] if bit < UNIFORM_PREDICATE else _UNSET[3]


def same(one: Register, other: Register) -> bool:
    """Whether two registers hold the same, from one place."""
    return one == other or (one.origin == other.origin and lanes.same(one.value, other.value))


def alike(bit: int, value: Lanes) -> Lanes:
    """What a uniform register may hold: one value, whatever the lanes brought."""
    return value if value.uniform else CHOICE if bit >= PREDICATE else UNKNOWN


def _unfollowed(bit: int, same: bool, why: str) -> Lanes:
    """What an instruction that is not followed gives: alike by its register, or because all that it reads is."""
    if bit >= PREDICATE:
        return CHOICE if same or bit >= UNIFORM_PREDICATE else lanes.lost(why, 1)
    return UNKNOWN if same or bit >= UNIFORM else lanes.lost(why)


def _reason(instruction: Instruction, inputs: Sequence[Lanes]) -> str:
    if instruction.stem in ("LDG", "LD", "LDL", "LDS", "LDSM", "ATOM", "ATOMG", "ATOMS"):
        return "an address that lanes load"
    return next(
        (value.why for value in inputs if value.why), f"what {instruction.stem} gives each lane is not followed"
    )


@lru_cache(maxsize=1 << 11)
def inverse(value: Lanes) -> Lanes:
    """A predicate that is true where another one is false."""
    return lanes.bitwise(lanes.XOR_AB, value, constant(1), constant(0))


def _signed_value(text: str, value: Lanes) -> Lanes:
    """A register with its sign, as an operand's text has it."""
    if "|" in text or "." in text:
        return lanes.unless_alike("a part of a register", value)
    if text[:1] == "-":
        return lanes.negative(value)
    return lanes.complement(value) if text[:1] == "~" else value


def _signed(text: str) -> int:
    return (-1 if "-" in text else 1) * int(text.lstrip("+-"), 16)


# instructions: from what they read to the low register of each output, by the output's number


HIGH = 100  # beside the number of an output of 64 bits: its high half
Follow = Callable[[Reader, Form, Held], dict[int, Lanes]]
FOLLOWED: dict[str, Follow] = {}
# whose results are alike in all lanes if what they read is: arithmetic, and loads from one address
PURE = frozenset(
    (
        *[
            "FADD",
            "FMUL",
            "FFMA",
            "FMNMX",
            "FSEL",
            "FSETP",
            "FSET",
            "HADD2",
            "HMUL2",
            "HFMA2",
            "HMNMX2",
            "HSETP2",
            "HSET2",
            "DADD",
            "DMUL",
            "DFMA",
            "DSETP",
            "DMNMX",
        ],
        *[
            "MUFU",
            "I2F",
            "F2I",
            "F2F",
            "FRND",
            "I2FP",
            "F2FP",
            "I2I",
            "FCHK",
            "VIADDMNMX",
            "POPC",
            "UPOPC",
            "FLO",
            "UFLO",
            "BREV",
            "UBREV",
        ],
        *[
            "IDP",
            "VABSDIFF",
            "XMAD",
            "LDG",
            "LDS",
            "LDC",
            "LDCU",
            "ULDC",
            "LD",
            "UF2FP",
            "UI2F",
            "UF2I",
            "FADD2",
            "FMUL2",
            "FFMA2",
            "VHMNMX",
            "FMNMX3",
            "VIMNMX3",
        ],
        *[
            "SYNCS",
            "UISETP",
            "BMSK",
            "UBMSK",
            "P2R",
            "UP2UR",
            "R2P",
            "R2UP",
            "VOTE",
            "VOTEU",
            "REDUX",
            "CREDUX",
            "PLOP3",
            "UPLOP3",
            "S2UR",
            "I2IP",
        ],
    )
)
UNIFORM_ALWAYS = frozenset(("VOTE", "VOTEU", "REDUX", "CREDUX"))


def _follows(*stems: str) -> Callable[[Follow], Follow]:
    def register(function: Follow) -> Follow:
        FOLLOWED.update(dict.fromkeys(stems, function))
        return function

    return register


def _sources(reader: Reader, form: Form, held: Held) -> list[Lanes]:
    return [reader.read(operand, held) for operand in form.operands[form.outputs :]]


@_follows("MOV", "UMOV")
def _mov(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    return {0: reader.read(form.operands[1], held)} if len(form.operands) >= 2 and "64" not in form.opcode else {}


@_follows("R2UR", "CS2UR")
def _to_uniform(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    value = reader.read(form.operands[-1], held)
    return {form.outputs - 1: value if value.uniform else UNKNOWN}


@_follows("LDC", "LDCU", "ULDC")
def _load_constant(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    return {0: reader.read(form.operands[1], held)} if form.opcode in ("LDC", "LDCU", "ULDC") else {}


@_follows(*SPECIAL)
def _special(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    name = form.operands[1].text
    if name in TID:
        value = reader.threads.tid[TID.index(name)]
        return {0: value if form.stem == "S2R" or value.uniform else UNKNOWN}
    if name == "SR_LANEID":
        return {0: lanes.made(np.arange(WARP, dtype=np.uint32)[None])}
    if name == "SRZ":
        return {0: constant(0)}
    if name == "SR_CgaCtaId":
        return {0: lanes.made(np.zeros((1, 1), np.uint32), 0, MOST_CLUSTER - 1)}
    return {0: UNKNOWN if name.startswith(ALIKE) else lanes.lost(f"{name} is not followed")}


TID = ("SR_TID.X", "SR_TID.Y", "SR_TID.Z")
ALIKE = ("SR_CTAID", "SR_NCTAID", "SR_NTID", "SR_WARPID", "SR_VIRTID", "SR_SMEMSZ", "SR_SWINHI", "SR_Cga", "SR_SWINLO")
MOST_CLUSTER = 16  # blocks of a cluster


@_follows("IADD3", "UIADD3", "IADD", "VIADD", "UIADD", "UVIADD")
def _add(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    sources = form.operands[form.outputs :]
    if form.has("64"):
        pairs = [_pair(reader, operand, held) for operand in sources if operand.kind not in ("P", "UP")][:2]
        if all(half.exact for pair in pairs for half in pair):
            (a, above), (b, beside) = ((pair[0].known, pair[1].known) for pair in pairs)
            return {0: lanes.made(a + b), HIGH: lanes.made(above + beside + (a + b < b))}
        low, carry = _sum([each for each, _ in pairs], sources)
        high = lanes.add(lanes.add(pairs[0][1], pairs[1][1]), carry or CHOICE)
        return {0: low, HIGH: high}
    values = [reader.read(o, held) for o in sources if o.kind not in ("P", "UP") or form.has("X")]
    total, carry = _sum(values, sources)
    return {0: total, 1: carry} if carry and form.outputs > 1 and not form.has("X") else {0: total}


def _sum(values: Sequence[Lanes], operands: Sequence[Operand]) -> tuple[Lanes, Lanes | None]:
    """The sum, and its carry where there can be none."""
    total = constant(0)
    for value in values:
        total = lanes.add(total, value)
    plain = not any(operand.text[:1] in "-~" for operand in operands)
    return total, constant(0) if plain and sum(map(_most, values)) <= lanes.ALL else None


def _most(value: Lanes) -> int:
    """The largest number that a value may be."""
    return int(value.known.max()) + value.flips + value.steps + (lanes.ALL + 1 if value.lost else 0)


def _pair(reader: Reader, operand: Operand, held: Held) -> tuple[Lanes, Lanes]:
    """The low and the high half of an operand of 64 bits."""
    low = reader.read(operand, held)
    if operand.kind == "number":
        return low, constant(operand.value >> 32)
    if operand.kind in ("R", "UR") and operand.first >= 0 and operand.text[:1] != "~":
        high = held_in(operand.kind, operand.first + 1, held).value
        if operand.text[:1] != "-":
            return low, high
        # of the negative, one is carried into the high half where the low one is 0
        return low, lanes.made(~high.known + (low.known == 0)) if low.exact and high.exact else UNKNOWN
    return low, constant(0) if operand.kind in ("R", "UR") and operand.first < 0 else UNKNOWN


@_follows("IMAD", "UIMAD")
def _multiply_add(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    values = [o for o in form.operands[form.outputs :] if o.kind not in ("P", "UP")]
    if len(values) != 3:
        return {}
    a, b, c = (reader.read(operand, held) for operand in values)
    if form.has("X"):
        carries = [reader.read(o, held) for o in form.operands[form.outputs :] if o.kind in ("P", "UP")]
        total = lanes.add(lanes.multiply(a, b), c)
        return {0: lanes.add(total, carries[0])} if len(carries) == 1 else {}
    if form.has("HI"):
        return (
            {0: lanes.add(_high(a, b, not form.has("U32")), c)}
            if a.exact and b.exact and form.operands[-1].first < 0
            else {}
        )
    return {0: lanes.add(lanes.multiply(a, b), c)}


def _high(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    """The high half of a product of numbers that are known."""
    if signed:
        product = a.known.view(np.int32).astype(np.int64) * b.known.view(np.int32).astype(np.int64)
        return lanes.made((product >> 32).astype(np.uint32))
    return lanes.made((a.known.astype(np.uint64) * b.known >> np.uint64(32)).astype(np.uint32))


@_follows("LEA", "ULEA")
def _scaled_add(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    values = [o for o in form.operands[form.outputs :] if o.kind not in ("P", "UP")]
    if form.has("X") or len(values) < 3 or values[-1].kind != "number":
        return {}
    shift = values[-1].value
    a, b = (reader.read(operand, held) for operand in values[:2])
    if not form.has("HI"):
        return {0: lanes.add(lanes.shift_left(a, shift), b)} if len(values) == 3 else {}
    if form.has("SX32"):
        return {0: lanes.add(lanes.shift_right(a, 32 - shift, signed=True), b)} if shift and len(values) == 3 else {}
    if len(values) == 4 and shift and values[2].kind in FIRST and values[2].first < 0:
        return {0: lanes.add(lanes.shift_right(a, 32 - shift), b)}
    return {}


@_follows("LOP3", "ULOP3", "LOP", "PLOP3", "UPLOP3")
def _logic(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    values, tables = _logic_operands(form)
    if len(values) != 3 or not tables:
        return {}
    a, b, c = (reader.read(operand, held) for operand in values)
    if form.stem in ("PLOP3", "UPLOP3"):
        return {j: lanes.bitwise(table, a, b, c) for j, table in enumerate(tables[:2])}
    result = lanes.bitwise(tables[0], a, b, c)
    if form.outputs == 1:
        return {0: result}
    if form.operands[-1].text not in ("!PT", "!UPT"):
        return {1: result}
    truth = _nonzero(result)
    return {1: result, 0: truth} if truth else {1: result}


def _logic_operands(form: Form) -> tuple[list[Operand], list[int]]:
    """The three inputs, and the tables: one, and of predicates two."""
    rest = list(form.operands[form.outputs :])
    if form.stem in ("PLOP3", "UPLOP3"):
        return rest[:3], [o.value for o in rest[3:] if o.kind == "number"]
    return rest[:3], [rest[3].value] if len(rest) > 3 and rest[3].kind == "number" else []


def _nonzero(value: Lanes) -> Lanes | None:
    """Whether a value is not 0, as a predicate; None where that is not followed."""
    if value.exact:
        return lanes.made((value.known != 0).astype(np.uint32))
    return CHOICE if value.uniform else None


@_follows("SHF", "USHF")
def _shift(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    low, count, high = form.operands[form.outputs :][:3]
    if form.has("W") or count.kind != "number":
        return _shift_by_lane(reader, form, held)
    wide, signed = form.has("U64") or form.has("S64"), form.has("S32") or form.has("S64")
    a, c, shift = reader.read(low, held), reader.read(high, held), count.value
    if form.has("R") and form.has("HI"):
        return {0: lanes.shift_right(c, shift, signed)}
    if form.has("L") and not form.has("HI"):
        return {0: lanes.shift_left(a, shift)} if wide or high.first < 0 else {}
    if not wide or not 0 < shift < 32:
        return {}
    parts = (lanes.shift_right(a, shift), lanes.shift_left(c, 32 - shift))
    if form.has("L"):
        parts = (lanes.shift_left(c, shift), lanes.shift_right(a, 32 - shift))
    return {0: lanes.bitwise(lanes.OR_AB, *parts, constant(0))}


def _shift_by_lane(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    """A shift of a known number by another one."""
    low, count, high = (reader.read(operand, held) for operand in form.operands[form.outputs :][:3])
    value = high if form.has("R") else low
    other = low if form.has("R") else high
    plain = form.has("U32") and form.has("HI") == form.has("R") and other.exact and not other.known.any()
    if form.has("W") or not (plain and value.exact and count.exact) or (count.known > 31).any():
        return {}
    return {0: lanes.made(value.known >> count.known if form.has("R") else value.known << count.known)}


@_follows("PRMT", "UPRMT")
def _permute(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    values = form.operands[form.outputs :]
    if form.opcode not in ("PRMT", "UPRMT") or len(values) != 3 or values[1].kind != "number":
        return {}
    a, c = reader.read(values[0], held), reader.read(values[2], held)
    total = constant(0)
    for byte in range(4):
        nibble = values[1].value >> 4 * byte & 15
        if nibble > 7:
            return {}
        moved = lanes.bitwise(
            lanes.AND_AB, lanes.shift_right(c if nibble > 3 else a, 8 * (nibble & 3)), constant(255), constant(0)
        )
        total = lanes.bitwise(lanes.OR_AB, total, lanes.shift_left(moved, 8 * byte), constant(0))
    return {0: total}


@_follows("SEL", "USEL")
def _select(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    a, b, condition = _sources(reader, form, held)[:3]
    first, second = (operand.text.replace(".reuse", "") for operand in form.operands[form.outputs :][:2])
    return {0: a if first == second else lanes.choose(condition, a, b)}


@_follows("SGXT", "USGXT")
def _sign_extend(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    value, width = form.operands[form.outputs :][:2]
    if width.kind != "number" or form.has("W") or not 0 < width.value < 32:
        return {}
    moved = lanes.shift_left(reader.read(value, held), 32 - width.value)
    return {0: lanes.shift_right(moved, 32 - width.value, signed=not form.has("U32"))}


COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "NE": np.not_equal,
    "EQ": np.equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
JOINED = {"AND": lanes.AND_AB, "OR": lanes.OR_AB, "XOR": lanes.XOR_AB}  # with another predicate


@_follows("ISETP", "UISETP")
def _compare(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    modifiers = form.opcode.split(".")[1:]
    compare = next((COMPARED[m] for m in modifiers if m in COMPARED), None)
    joined = next((JOINED[m] for m in modifiers if m in JOINED), None)
    values = _sources(reader, form, held)
    if compare is None or joined is None or form.has("EX") or form.has("64") or len(values) != 3:
        return {}
    a, b, other = values
    if not (a.exact and b.exact):
        return {}
    left, right = (a.known, b.known) if form.has("U32") else (a.known.view(np.int32), b.known.view(np.int32))
    truth = compare(left, right)
    results = (lanes.made(np.asarray(t).astype(np.uint32)) for t in (truth, ~truth))
    return {j: lanes.bitwise(joined, result, other, constant(0)) for j, result in enumerate(results)}


@_follows("IABS")
def _absolute(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    value = reader.read(form.operands[1], held)
    return {0: lanes.made(np.abs(value.known.view(np.int32)).view(np.uint32))} if value.exact else {}


@_follows("IMNMX", "VIMNMX", "UIMNMX")
def _least(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    a, b, first = _sources(reader, form, held)[:3]
    if not (a.exact and b.exact and first.exact) or len(form.operands) != 4 or form.opcode.count(".") > 1:
        return {}
    left, right = (a.known, b.known) if form.has("U32") else (a.known.view(np.int32), b.known.view(np.int32))
    chosen = np.where(first.known != 0, np.minimum(left, right), np.maximum(left, right))
    return {0: lanes.made(chosen.view(np.uint32))}


@_follows("SHFL")
def _shuffle(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    value, source, _ = _sources(reader, form, held)[:3]
    if value.uniform:
        return {form.outputs - 1: value}
    lane = form.operands[form.outputs + 1]
    whole = form.operands[form.outputs + 2].value == 0x1F
    number = 0 if lane.kind in FIRST and lane.first < 0 else lane.value if lane.kind == "number" else None
    if form.has("IDX") and number is not None and number < WARP and whole and not value.lost:
        return {form.outputs - 1: lanes.made(value.known[:, number : number + 1], value.flips, value.steps)}
    return {form.outputs - 1: UNKNOWN if form.has("IDX") and source.uniform and whole else lanes.lost("shuffled")}


@_follows("VOTE", "VOTEU", "REDUX", "CREDUX")
def _of_the_warp(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    return {j: CHOICE if o.kind in ("P", "UP") else UNKNOWN for j, o in enumerate(form.operands[: form.outputs])}


@_follows("HFMA2")
def _half_constant(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    """Compilers move constants as two halves: -RZ * RZ + (high, low)."""
    texts = [operand.text for operand in form.operands]
    if texts[1:3] != ["-RZ", "RZ"] or len(texts) != 5:
        return {}
    try:
        halves = [int(np.float16(float(text)).view(np.uint16)) for text in texts[3:]]
    except ValueError:
        return {}
    return {0: constant(halves[0] << 16 | halves[1])}
