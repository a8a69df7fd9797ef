"""Why an arch has no table of a fragment: it lacks the fragment, refused it, failed at it, or nobody measured it.

Absent is not different: what is not measured may well be the same, and where a reference says so it is told.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, NamedTuple

from tcprobe.ask import cost, cost_words
from tcprobe.ask.tensor_memory import MemoryOperand
from tcprobe.errors import answer_or_none
from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import Arch, Target, least_cuda, version
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Table
from tcprobe.question.answers import Meta
from tcprobe.sass import lowering
from tcprobe.store.cell import measured_cell, stated
from tcprobe.store.choose import Found, Layers
from tcprobe.store.finding import source_words
from tcprobe.values import Json


def reason(fragment: Fragment, arch_name: str, layers: Layers, elsewhere: Table | None = None) -> str:
    """Why there is no table of a fragment on an arch; `elsewhere` is one to compare what is documented with."""
    if not fragment.target.on(arch.arch(arch_name)):
        return f"{arch_name} does not have it: needs {' or '.join(target for target, _ in fragment.target.options)}"
    saved = next(layers.saved(fragment.experiment, [arch_name]), None)
    if saved and saved.measured.status != "measured":
        return _outcome(saved)
    partly = f": what was measured of {fragment.instruction} does not show it" if saved else ""
    return (
        f"not measured on {arch_name} in {layers.words}{partly} ({_documented_words(fragment, arch_name, elsewhere)})"
    )


def _outcome(saved: Found) -> str:
    """What a measurement without a table says, and where it is."""
    return f"{saved.measured.status}: {saved.measured.words} ({saved.measured.method}, {source_words(saved.source)})"


def _documented_words(fragment: Fragment, arch_name: str, elsewhere: Table | None) -> str:
    documented = stated(fragment, arch.arch(arch_name))
    if documented is None:
        return "nor documented"
    reference, claim = documented
    layout = "" if elsewhere is None else f": {'the same' if claim.meant == elsewhere else 'another'} layout"
    return f"documented by {reference}, {claim.where}{layout}"


def _remedy(fragment: Fragment, arch: Arch) -> str:
    """What makes a table: machine code shows a fragment that has a load or store of its own; a GPU what has a probe."""
    form = inventory.instructions().get(fragment.experiment)
    if form and form.unprobed:
        return form.unprobed
    if fragment.shared:
        return f"`tcprobe run --arch {arch.name}` measures it"
    return f"`tcprobe run` on a GPU of {arch.name} measures it; machine code shows only what follows from wmma"


@dataclass(frozen=True)
class WhyNot:
    """Whether an arch is allowed to have a fragment, whether it is measured there, and all that in words.

    `source` is where its measurement is, or where none was found.
    """

    id: str
    arch: str
    allowed: bool
    measured: bool
    words: str
    source: str
    cuda: Annotated[
        str,
        Meta(
            description="The first CUDA toolkit that compiles it for the arch, or, where it is not allowed there, for "
            "any that has it."
        ),
    ]

    def to_json(self) -> Json:
        """Plain data."""
        return asdict(self)


def why_forbidden(subject: Fragment | Instruction, device: Arch) -> str | None:
    """Why `device` does not have a fragment or an instruction, in words; None where the PTX ISA allows it."""
    if subject.target.on(device):
        return None
    needs = []
    for target, ptx in subject.target.options:
        stated = subject.target.stated_for(target, ptx)  # by PTX ISA, where ptxas takes another version
        since = f"PTX ISA {ptx}{f' by ptxas, {stated} by its text' if stated else ''}"
        needs.append(f"{target} ({since}, CUDA {least_cuda(ptx, target)})")
    name = subject.name if isinstance(subject, Instruction) else subject.instruction
    return f"{name} needs target {' or '.join(needs)}, which {device.name} ({device.generation}) does not run."


LATEST = ("tcgen05", "wgmma", "mma", "wmma")


class Task(NamedTuple):
    """What a multiply does: types that its operands may have, whether it is sparse, and how bits are combined."""

    types: tuple[frozenset[str], ...]
    sparse: bool
    bit_op: str | None
    kind: str | None

    @classmethod
    def of(cls, row: Instruction) -> Task:
        """That of a form."""
        types = tuple(_types(row, name) for name in ("a", "b", "d", "scale_a"))
        return cls(types, any(o.role is Role.METADATA for o in row.operands), row.bit_op, row.kind)

    def shares(self, task: Task) -> bool:
        """Whether some types are those of both, and all else is the same."""
        same = (self.sparse, self.bit_op) == (task.sparse, task.bit_op)
        return same and not any(map(frozenset.isdisjoint, self.types, task.types))


def instead(row: Instruction, device: Arch, layers: Layers) -> Instruction | None:
    """What multiplies the same types where there is no `row`: dense, sparse or scaled as it is; None where the arch
    has nothing that its tensor cores do in these types.

    Of the latest family, with the most multiply-adds for each opcode that it becomes, the largest: forms that an arch
    has for the sake of an older one become several (`tcprobe lower`).
    """
    task = Task.of(row)
    pace = {one: each for one in _alike(task, device) if (each := _pace(one, device, layers))}

    def order(one: Instruction) -> tuple[int, bool, bool, float, int]:
        latest = LATEST.index(one.family.partition(".")[0])
        narrower = one.type("d") == "f16" and "f32" in task.types[2]
        return latest, one.kind != task.kind, narrower, -pace[one] if latest else 0, -one.triples if latest else 0

    return min(pace, key=order, default=None)


@cache
def _alike(task: Task, device: Arch) -> tuple[Instruction, ...]:
    """The forms of an arch that do some of a task."""
    return tuple(one for one, does in _tasks() if one.target.on(device) and does.shares(task))


def _pace(multiply: Instruction, device: Arch, layers: Layers) -> float:
    """Multiply-adds for each tensor-core opcode that a form becomes; 0 where it is emulated.

    Those that take whole warpgroups or tensor memory are never emulated; what they become is not saved for each size.
    """
    if multiply.described or multiply.family.startswith("tcgen05"):
        return multiply.triples
    low = lowering.saved(multiply, device, layers)
    native = low is not None and not low.refused and low.native(multiply)
    return multiply.triples / sum(low.opcodes.values()) if low and native else 0


@cache
def _tasks() -> tuple[tuple[Instruction, Task], ...]:
    return tuple((row, Task.of(row)) for row in inventory.instructions().values() if row.multiplies)


def _types(row: Instruction, name: str) -> frozenset[str]:
    """Types that an operand may have; "" where there is none. One of tcgen05 takes several."""
    stated = row.stated.get({"d": "d_types", "scale_a": "scales"}.get(name, "ab_types"), ())
    held = [o.type for o in row.operands if o.name in (name, f"{name}_smem")]
    return frozenset(str(word).partition(" ")[0] for word in stated) or frozenset(held or [""])


def _instead_words(row: Instruction | None, device: Arch, layers: Layers) -> str:
    other = instead(row, device, layers) if row and row.multiplies else None
    if row is None or other is None:
        return ""
    count, rest = divmod(row.triples, other.triples)
    several = count > 1 and not rest and row.shape[:2] == other.shape[:2]  # that add up along k
    return f" {device.name} multiplies these types by {other.id}{f', {count} of them' if several else ''}."


def why_not(fragment: Fragment, arch: Arch, layers: Layers) -> WhyNot:
    """Why an arch does not have a fragment, or no table of it."""
    lacking, measured_table = why_forbidden(fragment, arch), layers.choose(fragment, [arch.name])
    saved = measured_table or next(layers.saved(fragment.experiment, [arch.name]), None)
    if lacking:
        words = f"{lacking} {_outcome(saved) if saved else f'No outcome of it is saved in {layers.words}.'}"
        words += _instead_words(inventory.instructions().get(fragment.experiment), arch, layers)
    else:
        allowed = f"nothing prevents it: {fragment.instruction} {_allowed_words(fragment.target, arch)}"
        basis = (
            measured_cell(fragment, measured_table, layers).evidence
            if measured_table
            else reason(fragment, arch.name, layers)
        )
        words = f"{allowed}; {basis}"
        words += "" if saved else f"; {_remedy(fragment, arch)}"
        measured = cost.find_cost(fragment.experiment, arch.name, layers)
        words += f"; it costs: {cost_words.in_brief(measured)}" if measured else ""
    source = saved.source if saved else layers.names
    return WhyNot(
        fragment.id, arch.name, not lacking, measured_table is not None, words, source, _cuda(fragment.target, arch)
    )


def _allowed_words(allowing: Target, arch: Arch) -> str:
    """That an arch has it, and by which targets where the plain one is not enough."""
    targets = allowing.every(arch)
    by = "" if arch.name in targets else f" (target {' or '.join(targets)})"
    return f"is allowed on {arch.name}{by} from CUDA {_cuda(allowing, arch)} on"


def _cuda(needed: Target, arch: Arch) -> str:
    """The first toolkit that compiles for an arch what needs a target; of what it does not run, for that target."""
    if option := needed.on(arch):
        return least_cuda(option[1], needed.own(arch))
    name, ptx = min(needed.options, key=lambda option: version(option[1]))
    return least_cuda(ptx, name)


def why_not_behind(operand: SharedOperand, arch: Arch, layers: Layers) -> WhyNot:
    """Why an arch does not have an operand in shared memory, or no measurement of its descriptors."""
    from tcprobe.ask.shared_operand import shared_map

    lacking = why_forbidden(operand.instruction, arch)
    has = f"{operand.id} {_allowed_words(operand.instruction.target, arch)}"
    words = (
        f"{lacking}{_instead_words(operand.instruction, arch, layers)}"
        if lacking
        else f"nothing prevents it: {has}; `tcprobe show` says where its elements are."
    )
    measured = not lacking and shared_map(operand, layers).measured is not None
    cuda = _cuda(operand.instruction.target, arch)
    return WhyNot(operand.id, arch.name, not lacking, measured, words, layers.names, cuda)


def why_not_placed(in_memory: MemoryOperand, arch: Arch, layers: Layers) -> WhyNot:
    """Why an arch does not have an operand in tensor memory, or no measurement of its places."""
    from tcprobe.ask.tensor_memory import OperandVariant, placement
    from tcprobe.references import tensor_memory

    form = in_memory.form
    vector = tensor_memory.vectors(form)[0] if in_memory.name.startswith("scale_") else 0
    lacking = why_forbidden(form, arch)
    variant = OperandVariant(vector=vector, layers=layers, name=arch.name)
    found = None if lacking else answer_or_none(lambda: placement(in_memory, variant))
    places = found.measured_places if found else None
    verb = "may be" if in_memory.name == "a" else "is"  # A may be in shared memory as well
    has = f"{in_memory.id} {verb} in tensor memory, {form.id} {_allowed_words(form.target, arch)}"
    words = (
        f"{lacking}{_instead_words(form, arch, layers)}"
        if lacking
        else f"nothing prevents it: {has}; `tcprobe show` says where its elements are."
    )
    measured, cuda = places is not None and places.arch == arch.name, _cuda(form.target, arch)
    return WhyNot(in_memory.id, arch.name, not lacking, measured, words, layers.names, cuda)


def why_not_form(instruction: Instruction, arch: Arch, layers: Layers) -> WhyNot:
    """Why an arch does not have an instruction whose operands are all outside registers, or no table of it."""
    lacking = why_forbidden(instruction, arch)
    places = ", ".join(f"{operand.name} is in {operand.place.value}" for operand in instruction.elsewhere)
    allowed = f"nothing prevents it: {instruction.name} {_allowed_words(instruction.target, arch)}; but {places}"
    words = (
        f"{lacking}{_instead_words(instruction, arch, layers)}"
        if lacking
        else f"{allowed}, so there is no table of registers, and {instruction.unprobed}."
    )
    return WhyNot(instruction.id, arch.name, not lacking, False, words, layers.names, _cuda(instruction.target, arch))
