"""C++17: what a multiply computes, bit by bit, by the parameters that were measured."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe import numerics
from tcprobe.arithmetic.header import Entry, header
from tcprobe.arithmetic.parameters import Arithmetic, types_of
from tcprobe.ask.numerics import answer
from tcprobe.errors import UsageError
from tcprobe.isa.instruction import Instruction
from tcprobe.probes.ptx import identifier
from tcprobe.store.choose import Layers


def text(instruction: Instruction, arch: str | None, layers: Layers) -> str:
    """The header; UsageError where the arithmetic was not measured, or is of integers."""
    return texts([instruction], arch, layers)


def texts(instructions: Sequence[Instruction], arch: str | None, layers: Layers) -> str:
    """One header of several instructions, as `text`."""
    return header([_entry(instruction, arch, layers) for instruction in instructions])


def _entry(instruction: Instruction, arch: str | None, layers: Layers) -> Entry:
    rule = numerics.model(instruction, arch, layers)
    if not isinstance(rule, Arithmetic):
        raise UsageError(f"{instruction.id}: sums of integers are exact, up to 32 bits; the header covers floats only.")
    form = answer(instruction, arch, layers)
    words = f"{instruction.id} on {form.arch}; {form.evidence}"
    return Entry(identifier(instruction.id), words, types_of(instruction), rule)
