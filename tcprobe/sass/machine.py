"""Registers and memory of all warps of a launch, and the run of a kernel's instructions on them: a domain of `meaning`.

Every value is an array over lanes (32 for each block). A register is unknown if nobody wrote it, or if it was loaded
from a constant that is not a parameter. UnreadError if an unknown register is used for anything but a memory
descriptor, if memory outside the images is accessed, or if lanes disagree about a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Array, Bools, Bytes, Ints, Words
from tcprobe.sass.decode import Form, Operand, UnreadError, operand
from tcprobe.sass.lanes import ALL, looked_up
from tcprobe.sass.meaning import HIGH, MEANINGS, Domain

U32 = Words
U64 = NDArray[np.uint64]
ZERO, TRUE = 255, 7
# code of sm_87 may begin with this: UR2 says whether barrier registers are set up; nothing else depends on it
PROLOGUE = "ISETP.NE.U32.AND P0, PT, RZ, UR2, PT"


@dataclass
class Image:
    """A piece of memory at a 64-bit address."""

    base: int
    data: Bytes


class Machine:
    """`lanes` = 32 x blocks. `parameters` is the content of constant bank 0 from `parameter_base` on."""

    def __init__(self, blocks: int, images: Sequence[Image], parameters: bytes, parameter_base: int) -> None:
        self.lanes = WARP * blocks
        self.images = images
        self._parameters, self._base = parameters, parameter_base
        # of each register that was written: its value, and the lanes in which it is known
        self._values: dict[str, dict[int, tuple[U32, Bools]]] = {"R": {}, "UR": {}}
        self._all: Bools = np.ones(self.lanes, bool)
        self._zero: U32 = np.zeros(self.lanes, np.uint32)
        # of each predicate that was written: its value, and the lanes in which it is known
        self._predicates: dict[tuple[str, int], tuple[Bools, Bools]] = {}
        self._pairs: dict[
            tuple[str, int], tuple[str, int]
        ] = {}  # carries that count only together: from each to the other
        for kind in ("R", "UR"):
            self._values[kind][ZERO] = (self._zero, self._all)
        for kind in ("P", "UP"):
            self._predicates[kind, TRUE] = (self._all, self._all)
        self.active: Bools = self._all
        self.next: int | None = 0
        self.returns: list[int] = []  # return addresses of the calls, the innermost last

    # registers

    def read(self, operand: Operand, sign: str = "") -> U32:
        """32 bits of a register, constant or number. With `sign` "-", it may be negated (modulo 2^32)."""
        if operand.kind == "number":
            return np.full(self.lanes, operand.word, np.uint32)
        if operand.sign not in ("", sign):
            raise UnreadError(f"operand {operand} with a sign is not modelled here")
        if operand.kind == "constant":
            value = np.full(self.lanes, self.constant(operand.offset), np.uint32)
        elif operand.view in self._values:
            value = self.word(operand.kind, operand.encoded)
        else:
            raise UnreadError(f"operand {operand} where a 32-bit value is needed")
        return (~value + np.uint32(1)).astype(np.uint32) if operand.sign else value

    def read64(self, operand: Operand) -> U64:
        """A pair of registers, or of parameters, as 64 bits."""
        if operand.kind == "constant" and not operand.sign:
            both = self.constant(operand.offset) | self.constant(operand.offset + 4) << 32
            return np.full(self.lanes, both, np.uint64)
        if operand.sign or operand.view not in self._values:
            raise UnreadError(f"operand {operand} where a pair of registers is needed")
        return self.pair_of(operand.kind, operand.first)

    def pair_of(self, kind: str, first: int) -> U64:
        """The 64 bits of two registers; of RZ, which is -1, 0."""
        if first < 0:
            return np.zeros(self.lanes, np.uint64)
        if first % 2:
            raise UnreadError(f"{kind}{first} is not an even register pair")
        low, high = (self.word(kind, first + j) for j in (0, 1))
        return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)

    def write(self, operand: Operand, *words: Array | None) -> None:
        """Write 32 bits each to registers in a row; None makes one unknown."""
        if operand.view not in self._values or operand.sign:
            raise UnreadError(f"operand {operand} cannot be written")
        if operand.encoded == ZERO:
            return
        if operand.encoded % len(words) or operand.encoded + len(words) > ZERO:
            raise UnreadError(f"{operand} is not a group of {len(words)} registers")
        for index, word in enumerate(words, operand.encoded):
            if word is None:
                self._values[operand.kind].pop(index, None)
            else:
                self.set(operand.kind, index, word.astype(np.uint32))

    def set(self, kind: str, index: int, register_words: U32) -> None:
        """Write one register, in the active lanes."""
        if index >= ZERO:
            raise UnreadError(f"{kind}{index} is not a register")
        if self.active is not self._all:
            old, written = self._values[kind].get(index, (self._zero, ~self._all))
            self._values[kind][index] = np.where(self.active, register_words, old), written | self.active
        else:
            self._values[kind][index] = register_words, self._all

    def word(self, kind: str, index: int) -> U32:
        """Register `index`, which may be one of a group."""
        value, written = self._values[kind].get(index, (self._zero, None))
        if written is None or (written is not self._all and not (written | ~self.active).all()):
            raise UnreadError(f"{kind}{index} is read, but nobody wrote it (or it holds an unknown constant)")
        return value

    def is_written(self, operand: Operand) -> bool:
        """Whether 32 bits can be read there; a register must be written in all active lanes."""
        if operand.view not in self._values:
            return True
        _, written = self._values[operand.kind].get(operand.encoded, (self._zero, None))
        return written is not None and bool((written | ~self.active).all())

    # predicates

    def test(self, operand: Operand) -> Bools:
        """A predicate, negated with !; UnreadError if it is one of two carries, which count only together."""
        if (operand.kind, operand.encoded) in self._pairs:
            raise UnreadError(f"{operand} is one of two carries that count only together")
        return self._predicate(operand)

    def carries(self, operands: Sequence[Operand]) -> U64:
        """The sum of carry predicates; of a pair both must be given, or neither."""
        places = {(o.kind, o.encoded) for o in operands}
        for place in places:
            if self._pairs.get(place, place) not in places:
                raise UnreadError(f"{place[0]}{place[1]} is one of two carries that count only together")
        if len({o.sign for o in operands if (o.kind, o.encoded) in self._pairs}) > 1:
            raise UnreadError("one of two carries is negated")
        terms = (self._predicate(o).astype(np.uint64) for o in operands)
        return sum(terms, np.zeros(self.lanes, np.uint64))

    def _predicate(self, operand: Operand) -> Bools:
        if operand.view not in ("P", "UP") or operand.sign not in ("", "!"):
            raise UnreadError(f"operand {operand} where a predicate is needed")
        value, written = self._predicates.get((operand.kind, operand.encoded), (~self._all, ~self._all))
        if not (written | ~self.active).all():
            raise UnreadError(f"{operand} is read, but nobody wrote it")
        return ~value if operand.sign else value

    def decide(self, operand: Operand, truths: Bools) -> None:
        """Write a predicate in the active lanes; PT discards. If it was one of a pair, the other becomes unknown."""
        if operand.view not in ("P", "UP") or operand.sign:
            raise UnreadError(f"operand {operand} cannot hold a predicate")
        if operand.encoded == TRUE:
            return
        place = operand.kind, operand.encoded
        other = self._pairs.pop(place, None)
        if other:
            del self._pairs[other], self._predicates[other], self._predicates[place]
        old, written = self._predicates.get(place, (~self._all, ~self._all))
        self._predicates[place] = np.where(self.active, truths, old), written | self.active

    def pair(self, first_carry: Operand, other: Operand, count: U64) -> None:
        """Write two carries out, of which `count` (0 to 2) are set in each lane; which ones is not known."""
        if self.active is not self._all or first_carry == other:
            raise UnreadError("two carries out under a guard, or into one predicate, are not modelled")
        for number, carry in enumerate((first_carry, other), 1):
            self.decide(carry, count >= number)
        places = (first_carry.kind, first_carry.encoded), (other.kind, other.encoded)
        self._pairs |= {places[0]: places[1], places[1]: places[0]}

    # constants and memory

    def constant(self, offset: int) -> int:
        """A 32-bit parameter; UnreadError outside the parameters."""
        start = offset - self._base
        if not 0 <= start <= len(self._parameters) - 4:
            raise UnreadError(f"c[0x0][{offset:#x}] is not a parameter of the kernel")
        return int.from_bytes(self._parameters[start : start + 4], "little")

    def is_parameter(self, offset: int, size: int) -> bool:
        """Whether `size` bytes of bank 0 are inside the parameters."""
        return 0 <= offset - self._base <= len(self._parameters) - size

    def address(self, operand: Operand) -> U64:
        """The 64-bit addresses of a memory operand."""
        if operand.kind not in ("address", "target"):
            raise UnreadError(f"operand {operand} where an address is needed")
        total = np.full(self.lanes, operand.offset & 0xFFFFFFFFFFFFFFFF, np.uint64)
        for term in operand.terms:
            total = total + self.pair_of(term.kind, term.first)
        return total

    def load(self, addresses: U64, size: int) -> Bytes:
        """`size` bytes at each lane's address: (lanes, size)."""
        image, places = self._places(addresses, size)
        loaded: Bytes = image.data[places]
        return loaded

    def store(self, addresses: U64, stored_bytes: Bytes) -> None:
        """Write each active lane's bytes; UnreadError if two lanes write different values to one place."""
        image, places = self._places(addresses, stored_bytes.shape[1])
        image.data[places[self.active]] = stored_bytes[self.active]
        if (image.data[places[self.active]] != stored_bytes[self.active]).any():
            raise UnreadError("two lanes write different values to the same address")

    def _places(self, addresses: U64, size: int) -> tuple[Image, Ints]:
        active_addresses = addresses[self.active]
        if (active_addresses % np.uint64(size)).any():
            raise UnreadError(f"an access of {size} bytes at an address that is not a multiple of {size}")
        for image in self.images:
            inside = (active_addresses >= image.base) & (
                active_addresses + np.uint64(size) <= image.base + len(image.data)
            )
            if inside.all():
                start = np.where(self.active, addresses - np.uint64(image.base), 0).astype(np.int64)
                return image, start[:, None] + np.arange(size)
            if inside.any():
                break
        raise UnreadError("memory outside the images is accessed")

    # control

    def run(self, forms: Mapping[int, Form], start: int, opcodes: Mapping[str, Callable[..., None]]) -> None:
        """Run from `start` to EXIT: `opcodes` by their full names, all others as they mean.

        Addresses only grow, except at a return from a call, so the run ends.
        """
        if start in forms and forms[start].text.startswith(PROLOGUE):
            self.set("UR", 2, self._zero)
        self.next = start
        while self.next is not None:
            form = forms.get(self.next)
            if form is None:
                raise UnreadError(f"no instruction at {self.next:#x}")
            self.next += 16
            self._step(form, opcodes)

    def _step(self, form: Form, opcodes: Mapping[str, Callable[..., None]]) -> None:
        guarded = self.test(operand(form.guard)) if form.guard else self._all
        whole = guarded is self._all or bool(guarded.all())
        if not (whole or guarded.any()):
            return
        function = opcodes.get(form.opcode)
        if function is None and form.mnemonic not in MEANINGS:
            raise UnreadError(f"opcode {form.opcode} is not modelled")
        self.active = self._all if whole else guarded
        try:
            _check_kinds(form)
            if function:
                function(self, *form.operands)
            else:
                _compute(self, form)
        except UnreadError as error:
            raise UnreadError(f"{error}, in `{form.text.strip()}`") from None
        except TypeError as error:
            if "positional argument" not in str(error):
                raise
            raise UnreadError(f"{len(form.operands)} operands are not modelled, in `{form.text.strip()}`") from None
        finally:
            self.active = self._all


def _check_kinds(form: Form) -> None:
    """UnreadError unless uniform instructions (U..., LDCU) use uniform registers alone, and others write none."""
    uniform = form.opcode.startswith(("U", "LDCU"))
    registers = [o for o in form.operands if o.view in ("R", "P", "UR", "UP")]
    checked = [*registers, *([operand(form.guard)] if form.guard else [])] if uniform else registers[:1]
    wrong = [o for o in checked if o.kind.startswith("U") != uniform]
    if wrong:
        raise UnreadError(f"operand {wrong[0]} does not fit {form.opcode}")


# what instructions compute


class Unknown(NamedTuple):
    """A word of a constant that is not a parameter: it may be moved."""


class Carries(NamedTuple):
    """How many of two predicates are set in each lane; which ones is not known."""

    number: NDArray[np.uint64]


def _none(*_: object) -> None:
    """Of what is not followed."""


class Numbers(Domain[Any]):
    """Words of a machine's lanes, predicates as 0 and 1. UnreadError of a sign that is not a sum's, as of all else."""

    reciprocal = uniform = of_lane = of_the_warp = staticmethod(_none)

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self, operand: Operand, _: object = None) -> Words:
        """32 bits, or a predicate."""
        if operand.view in ("P", "UP"):
            return self._machine.test(operand).astype(np.uint32)
        return self._machine.read(operand)

    def term(self, operand: Operand, _: object = None) -> Words:
        """32 bits, which may be negated."""
        return self._machine.read(operand, "-")

    def word(self, operand: Operand, number: int, _: object = None) -> Words:
        """A word of a pair of registers, of parameters, or of a number whose sign bit is not in question."""
        if not number:
            return self._machine.read(operand)
        if operand.kind == "number" and operand.value >> 31 < 1:
            return self.constant(operand.value >> 32)
        return (self._machine.read64(operand) >> np.uint64(32)).astype(np.uint32)

    def moved(self, operand: Operand, number: int, _: object = None) -> Words | Unknown:
        """As `word`, or of a constant that is not a parameter."""
        if operand.kind != "constant":
            return self.word(operand, number)
        offset = operand.offset + 4 * number
        if not operand.sign and not self._machine.is_parameter(offset, 4):
            return Unknown()
        return self._machine.read(operand._replace(offset=offset))

    def carries(self, operands: Sequence[Operand], _: object = None) -> Sequence[Words]:
        """Their sum: two may count only together."""
        return [self._machine.carries(operands).astype(np.uint32)]

    def two_carries(self, count: Words) -> Carries:
        """Both together."""
        return Carries(count.astype(np.uint64))

    def special(self, name: str, form: Form) -> Words:
        """The special registers of lanes."""
        lane = np.arange(self._machine.lanes, dtype=np.uint32)
        by_name = {"SR_TID.X": lane % WARP, "SR_LANEID": lane % WARP, "SR_CTAID.X": lane // WARP, "SRZ": lane * 0}
        if name not in by_name:
            raise UnreadError(f"special register {name} is not modelled")
        return by_name[name].astype(np.uint32)

    def constant(self, number: int) -> Words:
        """The same number in all lanes."""
        return np.full(self._machine.lanes, number & ALL, np.uint32)

    def add(self, a: Words, b: Words) -> Words:
        """a + b."""
        return a + b

    def multiply(self, a: Words, b: Words) -> Words:
        """The low 32 bits of a * b."""
        return a * b

    def carry(self, *values: Words) -> Words:
        """How often the sum of all exceeds 32 bits."""
        total = sum((value.astype(np.uint64) for value in values), np.zeros(self._machine.lanes, np.uint64))
        return (total >> np.uint64(32)).astype(np.uint32)

    def shift_left(self, a: Words, count: int) -> Words:
        """a << count."""
        return a << np.uint32(count) if count < 32 else self.constant(0)

    def shift_right(self, a: Words, count: int, signed: bool = False) -> Words:
        """a >> count."""
        if signed:
            return (a.view(np.int32) >> np.int32(min(count, 31))).view(np.uint32)
        return a >> np.uint32(count) if count < 32 else self.constant(0)

    def bitwise(self, table: int, a: Words, b: Words, c: Words) -> Words:
        """Each bit by a table, as LOP3 does it."""
        return looked_up(table, (a, b, c))

    def choose(self, condition: Words, a: Words, b: Words) -> Words:
        """a where the condition is set, else b."""
        chosen: Words = np.where(condition & 1, a, b)
        return chosen

    def exactly(self, function: Callable[..., Array | None], *values: Words) -> Words | None:
        """A function of numbers."""
        found = function(*values)
        return None if found is None else found.astype(np.uint32)

    def nonzero(self, value: Words) -> Words:
        """Whether it is not 0."""
        truths: Words = (value != 0).astype(np.uint32)
        return truths


def _compute(machine: Machine, form: Form) -> None:
    """Write what an instruction means; UnreadError unless it is known of all that it writes."""
    meaning = MEANINGS.get(form.mnemonic)
    if meaning is None:
        raise UnreadError(f"opcode {form.opcode} is not modelled")
    results = meaning(Numbers(machine), form, {})
    if not results:
        raise UnreadError(f"opcode {form.opcode} with these operands is not modelled")
    counted: list[tuple[Operand, Carries]] = []
    for j, output in enumerate(form.operands[: form.outputs]):
        width = output.width if output.first >= 0 else 0
        words: list[Any] = [results.get(j + HIGH * word) for word in range(width)]
        if any(word is None for word in words):
            raise UnreadError(f"what {form.opcode} gives {output} is not modelled")
        if words and isinstance(words[0], Carries):
            counted.append((output, words[0]))
        elif words and output.kind in ("P", "UP"):
            machine.decide(output, words[0] & 1 != 0)
        elif words:
            machine.write(output, *(None if isinstance(word, Unknown) else word for word in words))
    if len(counted) == 1:
        raise UnreadError("one carry of three terms is not modelled")
    if counted:
        (first, carries), (second, _) = counted
        machine.pair(first, second, carries.number)
