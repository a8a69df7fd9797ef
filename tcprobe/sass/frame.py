"""The stack frame of a kernel that never moves it: its words, where registers are spilled, are followed as these are.

In a set of registers (`registers`) they are the bits from SLOTS on.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, reduce
from operator import or_

from tcprobe.isa.opcodes import of_space
from tcprobe.sass.decode import Form, Term
from tcprobe.sass.kernel import Kernel
from tcprobe.sass.registers import UNIFORM_PREDICATE

SLOTS = UNIFORM_PREDICATE + 8
MOST_SLOTS = 2048
LOCAL = of_space("local")
PARTS = ("U8", "S8", "8", "U16", "S16", "16")  # modifiers of what is less than a word
STACK = Term("R", 1)  # its pointer


def offset(form: Form) -> int | None:
    """The place on the stack that an instruction names, None where it names none."""
    places = (o.offset for o in form.operands if o.kind == "address" and not o.prefix and o.terms == (STACK,))
    return next(places, None)


@cache
def slots(form: Form) -> range | None:
    """The bits of the frame's words that a spill is about, None of another access of local memory."""
    place = offset(form)
    words = 4 if form.has("128") else 2 if form.has("64") else 1
    if place is None or place < 0 or place % 4 or place // 4 + words > MOST_SLOTS or any(map(form.has, PARTS)):
        return None
    return range(SLOTS + place // 4, SLOTS + place // 4 + words)


def reads(form: Form) -> int:
    """The registers that an instruction reads, and the words of the frame."""
    own = slots(form) if form.mnemonic == "LDL" else None
    return form.reads | sum(1 << bit for bit in own) if own else form.reads


def writes(form: Form) -> int:
    """The registers that an instruction writes, and the words of the frame."""
    own = slots(form) if form.mnemonic == "STL" else None
    return form.writes | sum(1 << bit for bit in own) if own else form.writes


def written_in(kernel: Kernel, blocks: Iterable[int]) -> int:
    """All that blocks write."""
    numbers = (number for block in blocks for number in range(kernel.blocks[block].first, kernel.blocks[block].end))
    return reduce(or_, (writes(kernel.instructions[number].form) for number in numbers), 0)


def stays(kernel: Kernel) -> bool:
    """Whether the stack pointer is set before the first access of local memory, and never again."""
    if kernel.mnemonics.isdisjoint(LOCAL):
        return True
    places = [i.number for i in kernel.instructions if i.writes >> 1 & 1]
    first = next((i.number for i in kernel.instructions if i.mnemonic in LOCAL), len(kernel.instructions))
    return all(place < first for place in places)
