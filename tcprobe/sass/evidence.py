"""What the code of an mma.sync form shows if it is not a single opcode of known layout.

The code is run on random whole numbers; each tensor-core opcode in it computes by the layout that anchors it. If D is
the product under the layouts that a reference states, the form has these layouts. If it is so for no reference, code
and references contradict each other. Code that is not followed exactly shows nothing; the reason is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MATRICES
from tcprobe.layout.arrays import Array, Ints
from tcprobe.layout.structure import holder
from tcprobe.layout.table import Tables
from tcprobe.references import Claim, claim_of, references
from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.product_run import Trials, misfit, predicted_d, run, trials
from tcprobe.sass.tensor_product import Layouts, is_tensor, opcode_of
from tcprobe.values import Json

ARITHMETIC = "by the code's own arithmetic"
_TRIPLES: dict[tuple[str, ...], Ints] = {}


class ContradictedError(Exception):
    """Code or layouts differ from what the references state; the message says how."""


@dataclass(frozen=True)
class Pending:
    """A form that cannot be concluded from its arch alone, and why (`words`).

    `opcode`: the form's opcode, "" unless it is just one, with registers in order.
    """

    instruction: Instruction
    code: Code
    opcode: str
    words: str


def tensor_opcodes(code: Code) -> tuple[str, ...]:
    """The tensor-core opcodes of a kernel, each once; UnreadError if one is not modelled."""
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    return tuple(dict.fromkeys(opcode_of(step) for step in code.instructions.values() if is_tensor(step)))


def by_code(instruction: Instruction, code: Code, arch: Arch, layouts: Layouts) -> Json:
    """Tables and numbering of a form, from its code.

    UnreadError if the code is not followed, ContradictedError if D is the product under no reference's layouts.
    """
    opcodes = tensor_opcodes(code)
    unknown = [opcode for opcode in opcodes if opcode not in layouts]
    if unknown:
        raise UnreadError(f"no layout is known of a tensor-core opcode: {', '.join(unknown)}")
    drawn = trials(instruction)
    computed, wrong = _run(code, instruction, drawn, layouts), []
    for name, tables in stated_layouts(instruction, arch):
        words = misfit(instruction.fragment("d"), computed, predicted_d(instruction, drawn.numbers, tables))
        if words is None:
            return {"tables": tables, "numbering": ", ".join((name, " and ".join((ARITHMETIC, *opcodes))))}
        wrong.append(f"{words} by {name}")
    if not wrong:
        raise UnreadError("no reference states its layouts")
    raise ContradictedError(f"its code is not a product under the layouts of the references: {'; '.join(wrong)}")


def _run(code: Code, instruction: Instruction, trials: Trials, layouts: Layouts) -> Array:
    try:
        return run(code, instruction, trials.images, layouts)
    except UnreadError as error:
        raise UnreadError(f"the code is not followed: {error}") from None


def stated_layouts(instruction: Instruction, arch: Arch) -> Iterator[tuple[str, Tables]]:
    """(name, tables) of each reference that states the layouts of all operands."""
    for reference in references():
        claims = {f.operand: claim_of(reference, f, arch) for f in instruction.fragments}
        tables = {operand: claim.meant for operand, claim in claims.items() if isinstance(claim, Claim)}
        if len(tables) == len(claims):
            yield reference.NAME, tables


def agree_with_references(instruction: Instruction, arch: Arch, tables: Tables) -> None:
    """ContradictedError if references state layouts, but the same slots meet under none of them."""
    others = list(stated_layouts(instruction, arch))
    if others and not any(same_product(tables, theirs) for _, theirs in others):
        raise ContradictedError(f"other slots meet than by the layouts of {', '.join(name for name, _ in others)}")


def same_product(ours: Tables, theirs: Tables) -> bool:
    """Whether in both the same slots of A and B meet in the same slots of D, and the same C is added."""
    return all(ours[o] == theirs[o] for o in MATRICES) or np.array_equal(_meetings(ours), _meetings(theirs))


def _meetings(tables: Tables) -> Ints:
    """The slots (a, b, c, d) that meet, sorted: (meetings, 4)."""
    key = tuple(tables[operand].id for operand in MATRICES)
    if key not in _TRIPLES:
        sizes = {o: (t.extent.get("product", 1), t.extent["row"], t.extent["col"]) for o, t in tables.items()}
        a, b, c, d = (holder(tables[o], sizes[o]) for o in MATRICES)
        p, m, n, k = np.indices((*sizes["d"], sizes["a"][2])).reshape(4, -1)
        meeting = np.stack([a[p, m, k], b[p, k, n], c[p, m, n], d[p, m, n]], axis=1)
        _TRIPLES[key] = meeting[np.lexsort(meeting.T)]
    return _TRIPLES[key]
