"""What can be repacked: the fragment, types and group of a request, each refused with the nearest that works."""

from __future__ import annotations

from tcprobe.code.dequantize import STORED, Decoding, conversion, targets
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell
from tcprobe.text import quoted


def decoding_for(cell: Cell, stored_type: str, target_type: str | None) -> Decoding:
    """The conversion of a request; UsageError where there is none."""
    fragment = cell.fragment
    if fragment.role is not Role.FACTOR:
        raise UsageError(f"{fragment.id} is {fragment.role.value}, not A or B: weights are one of these.")
    if fragment.products > 1:
        raise UsageError(
            f"{fragment.id} holds {fragment.products} products; weights need a fragment of one. "
            f"{_nearest(fragment, (fragment.type,), cell)}"
        )
    if stored_type not in STORED:
        raise UsageError(f"weights of type {quoted(stored_type)} are not known; known: {', '.join(STORED)}.")
    if target_type not in (None, fragment.type):
        raise UsageError(
            f"{fragment.id} takes {fragment.type}, not {target_type}. {_nearest(fragment, (target_type,), cell)}"
        )
    try:
        decoding = conversion(stored_type, fragment.type, arch(cell.arch))
    except UsageError as error:
        raise UsageError(f"{error} {_nearest(fragment, tuple(targets(stored_type)), cell)}") from None
    if stored_type == fragment.type and fragment.slot_bits != dtype(stored_type).bits:
        raise UsageError(
            f"{fragment.id} holds {stored_type} in {fragment.slot_bits} bits: they cannot be packed closer. "
            f"{_nearest(fragment, tuple(targets(stored_type)), cell)}"
        )
    return decoding


def check_group(cell: Cell, step: int, block: int, group: int | None) -> None:
    """UsageError where a block of so much k, in steps, cannot have scales for groups of k."""
    if group is None:
        return
    fragment = cell.fragment
    if fragment.operand == "a" and fragment.cols != fragment.shape.k:
        raise UsageError(f"`group`: {fragment.id} is compressed, so its columns are not k.")
    if group % step or (block % group and group % block):
        fitting = [step << j for j in range((block // step).bit_length())]
        blocks = [block * max(1, group // block + more) for more in (0, 1)]
        near = min((*fitting, *blocks), key=lambda x: abs(x - group))
        raise UsageError(
            f"`group` {group}: a step covers {step} of k and a load {block}; {near} works, as do "
            f"{', '.join(map(str, fitting[:4]))} and multiples of {block}."
        )


def check_zeros(cell: Cell, way: Decoding, group: int | None) -> None:
    """UsageError where weights of that kind have no zero points, with what does."""
    if group is None:
        raise UsageError("`zeros`: a zero point comes with a scale; give `group` too.")
    if way.zeros:
        return
    if dtype(way.source).is_float:
        raise UsageError(f"`zeros`: weights of {way.source} are not whole numbers; s4, u4 and s8 have zero points.")
    raise UsageError(
        f"`zeros`: {way.target} is multiplied before it is scaled, so zero points would need sums of the other factor. "
        f"{_nearest(cell.fragment, ('f16', 'bf16'), cell)}"
    )


def _nearest(fragment: Fragment, takes: tuple[str, ...], cell: Cell) -> str:
    """The fragment of the same operand that takes one of the types on the arch, the most like it, sums as wide too."""
    on = [
        f
        for f in inventory.fragments().values()
        if f.role is Role.FACTOR
        and f.operand == fragment.operand
        and f.type in takes
        and f.products == 1
        and f.slot_bits == dtype(f.type).bits
        and f.target.on(arch(cell.arch))
    ]
    if not on:
        return f"No {fragment.operand.upper()} in registers takes {' or '.join(takes)} on {cell.arch}."
    shape, wide = fragment.shape, _sum_bits(fragment)

    def far(candidate: Fragment) -> tuple[bool, int, int, int]:
        apart = sum(abs(x - y) for x, y in zip(candidate.shape, shape, strict=True))
        narrower = abs(_sum_bits(candidate) - wide)
        return candidate.family != fragment.family, takes.index(candidate.type), narrower, apart

    return f"The nearest one that does: {min(on, key=far).id}."


def _sum_bits(factor: Fragment) -> int:
    """How wide the widest sums of the multiplies that take a factor are."""
    return max(dtype(inventory.instructions()[id_].type("d")).bits for id_ in inventory.user_ids(factor.id))
