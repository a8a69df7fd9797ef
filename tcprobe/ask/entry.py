"""What there is, as plain data: the entries of `list --json`, with which those of `show --json` begin."""

from __future__ import annotations

from typing import Any

from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.operand import Role
from tcprobe.question.answers import UNSET, Answer, UnsetType


class ShapeAnswer(Answer):
    """m x n x k of one product; k is null where a matrix is only moved."""

    m: int
    n: int
    k: int | None


class OperandEntry(Answer):
    """An operand: `rows` x `cols` is m x k for operand a of a multiply, k x n for b, m x n for c and d; of a matrix
    move it is that of all matrices in memory; `layout` is "row", "col" or null; `min_arch` the least PTX target;
    `min_ptx` the least PTX version that ptxas takes there, `stated_ptx` what PTX ISA states if that is another;
    `registers` of `register_bits` bits hold `elements` slots of `slot_bits`.
    """

    id: str
    family: str
    instruction: str
    shape: ShapeAnswer
    operand: str
    layout: str | None
    type: str
    threads: int
    elements: int
    rows: int
    cols: int
    min_arch: str
    min_ptx: str
    stated_ptx: str | None
    registers: int
    register_bits: int
    slot_bits: int
    products: int
    copies: int


class FragmentEntry(OperandEntry):
    """An operand in registers; of metadata and scales `selectors` that are documented, `index_bits` of an index field,
    or what each selector `picks`.
    """

    role: str | UnsetType = UNSET
    selectors: tuple[int, ...] | UnsetType = UNSET
    picks: list[dict[str, int]] | UnsetType = UNSET
    index_bits: int | UnsetType = UNSET


class SharedEntry(OperandEntry):
    """An operand behind a descriptor, with the keys of a fragment; `majors` are those that its type has."""

    place: str
    majors: tuple[str, ...]


class FormShape(Answer):
    """k of an instruction that holds nothing in registers, where it has one."""

    m: int | None
    n: int | None
    k: int | None


class FormOperand(Answer):
    """An operand that is not in registers."""

    operand: str
    role: str
    place: str


class FormEntry(Answer, kw_only=True):
    """An instruction that holds nothing in registers. `stated` has what PTX documents of a form that stands for
    several, `operands` where its matrices are, `unprobed` why tcprobe cannot measure it.
    """

    id: str
    family: str
    instruction: str
    shape: FormShape
    operand: None = None
    layout: None = None
    type: None = None
    threads: None = None
    elements: None = None
    rows: None = None
    cols: None = None
    min_arch: str
    min_ptx: str
    stated_ptx: str | None
    registers: None = None
    register_bits: None = None
    slot_bits: None = None
    products: None = None
    copies: None = None
    operands: list[FormOperand]
    stated: dict[str, list[Any]]
    unprobed: str | None


def fragment_entry(fragment: Fragment) -> FragmentEntry:
    """The entry of a fragment."""
    shape, target = fragment.shape, fragment.target
    return FragmentEntry.of(
        fragment,
        shape=ShapeAnswer(shape.m, shape.n, shape.k or None),
        min_arch=target.name,
        min_ptx=target.ptx,
        stated_ptx=target.stated_for(*target.options[0]),
        **(_selected(fragment) if fragment.selectors else {}),
    )


def shared_entry(operand: SharedOperand) -> SharedEntry:
    """The entry of an operand behind a descriptor."""
    row, held, target = operand.instruction, operand.held, operand.instruction.target
    return SharedEntry.of(
        held,
        id=operand.id,
        family=row.family,
        instruction=row.name,
        shape=ShapeAnswer.of(row.shape),
        operand=held.name,
        layout=None,
        threads=row.threads,
        elements=0,
        min_arch=target.name,
        min_ptx=target.ptx,
        stated_ptx=target.stated_for(*target.options[0]),
        registers=0,
        register_bits=32,
        products=row.products,
        copies=1,
        place=held.place.value,
    )


def form_entry(instruction: Instruction) -> FormEntry:
    """The entry of an instruction that holds nothing in registers: keys of operands are None."""
    target = instruction.target
    return FormEntry(
        id=instruction.id,
        family=instruction.family,
        instruction=instruction.name,
        shape=FormShape(None, None, instruction.shape.k or None),
        min_arch=target.name,
        min_ptx=target.ptx,
        stated_ptx=target.stated_for(*target.options[0]),
        operands=[FormOperand(o.name, o.role.value, o.place.value) for o in instruction.operands],
        stated={name: list(values) for name, values in instruction.stated.items()},
        unprobed=instruction.unprobed,
    )


def _selected(fragment: Fragment) -> dict[str, Any]:
    """What an entry of metadata or scales says besides."""
    bits: dict[str, Any] = {"picks": [fragment.picked(s) for s in fragment.selectors]}
    if fragment.role is Role.METADATA:
        bits = {"index_bits": fragment.slot_bits}
    return {"role": fragment.role.value, "selectors": fragment.selectors, **bits}
