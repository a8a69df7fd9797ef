"""What a warp's request costs by the addresses of its lanes: wavefronts of shared memory, sectors of global memory.

A common base that is not known turns the banks, and what it is exclusive-ored with exchanges them, so neither changes
how many lanes meet in one. Each address is a multiple of its width, or the access would fault; that much is known of
any base. Where that is not enough (bytes and halves of words from a base that may be anywhere in a word) all places are
tried, and an answer is one only where they agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.shared_memory import SharedAccess, accesses
from tcprobe.layout.arrays import Bools, Ints
from tcprobe.layout.banks import IDLE, LINE, WORD, Judge, designed_rules
from tcprobe.sass.addresses import Reach
from tcprobe.sass.decode import Form
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.lanes import Lanes

SECTOR = 32  # bytes
_BYTES = {"U8": 1, "S8": 1, "8": 1, "U16": 2, "S16": 2, "16": 2, "64": 8, "128": 16, "256": 32}
_ATOMICS = {"ADD": "atom.shared.add.u32", "EXCH": "atom.shared.exch.b32"}


class UndecidedError(Exception):
    """Why the cost of a request does not follow."""


class Request(NamedTuple):
    """The cost of the worst warp and of most of them, and the least that this width takes with these lanes."""

    worst: int
    typical: int
    least: int
    lanes: int  # of the worst warp
    assumed: bool = False  # that a block's rows are whole warps: its shape is not stated, and another one costs else


def width(form: Form) -> int:
    """Bytes of a load or store at each lane's address."""
    return next((_BYTES[m] for m in form.opcode.split(".")[1:] if m in _BYTES), 4)


def shared_access(form: Form) -> SharedAccess:
    """The access whose measured rule holds for an instruction; UndecidedError where no rule was measured."""
    name = _name(form)
    if name not in accesses():
        raise UndecidedError(f"how {form.opcode} meets in banks is not measured")
    return accesses()[name]


def _name(form: Form) -> str:
    modifiers = form.opcode.split(".")[1:]
    if form.mnemonic in ("LDSM", "STSM"):
        plain = {"16", "M88", "MT88", "2", "4"}.issuperset(modifiers)
        count = next((m for m in modifiers if m in ("2", "4")), "1")
        move = "ldmatrix" if form.mnemonic == "LDSM" else "stmatrix"
        return f"{move}.x{count}{'.trans' if 'MT88' in modifiers else ''}" if plain else form.opcode
    if form.mnemonic == "ATOMS":
        kind = next((_ATOMICS[m] for m in modifiers if m in _ATOMICS), form.opcode)
        return kind if not {"64", "S32", "F32", "POPC", "CAS"} & set(modifiers) else form.opcode
    if form.mnemonic == "LDGSTS":
        return f"cp.async.ca.{width(form)}"
    return f"{'ld' if form.mnemonic == 'LDS' else 'st'}.shared.b{8 * width(form)}"


def conflicts(reach: Reach) -> Request | None:
    """Wavefronts of a request of shared memory; None where no lane takes part. UndecidedError with the reason."""
    access = shared_access(reach.instruction.form)
    return _answered(_conflicts(reach.address, reach.active.tobytes(), access, reach.shapes))


def sectors(reach: Reach) -> Request | None:
    """Sectors of a request of global memory, from the base that takes the fewest; None where no lane takes part."""
    address = reach.source if reach.instruction.mnemonic == "LDGSTS" else reach.address
    if address is None:
        raise UndecidedError("its address is not printed in a known form")
    return _answered(_sectors(address, reach.active.tobytes(), width(reach.instruction.form), reach.shapes))


def _answered(answer: Request | str | None) -> Request | None:
    """UndecidedError with the reason where that is the answer."""
    if isinstance(answer, str):
        raise UndecidedError(answer)
    return answer


# Many accesses of a kernel, and of kernels of one kind, are alike, or alike but for their base.
Shapes = tuple[int, ...]
ALIKE = 1 << 11


@lru_cache(maxsize=ALIKE)
def _conflicts(address: Lanes, active: bytes, access: SharedAccess, shapes: Shapes) -> Request | str | None:
    """Wavefronts of an access, or why that is not known."""
    try:
        rows, shapes = _rows(address, active, access.bytes, shapes, LINE)
        if not len(rows):
            return None
        places = _wavefronts(access, rows.tobytes(), address.xor_unknown & WORD - 1, address.add_unknown & WORD - 1)
        found = [_by_shape(costs, shapes, _counts(rows)) for costs in places]
        return _of_shapes([_agreed(list(places)) for places in zip(*found, strict=True)])
    except UndecidedError as error:
        return str(error)


@lru_cache(maxsize=ALIKE)
def _sectors(address: Lanes, active: bytes, size: int, shapes: Shapes) -> Request | str | None:
    """Sectors of an access, or why that is not known."""
    try:
        rows, shapes = _rows(address, active, size, shapes, SECTOR)
        if not len(rows):
            return None
        fewest = _fewest(rows.tobytes(), size, address.xor_unknown & SECTOR - 1, address.add_unknown & SECTOR - 1)
        return _of_shapes(_by_shape(fewest, shapes, _counts(rows)))
    except UndecidedError as error:
        return str(error)


@lru_cache(maxsize=ALIKE)
def _wavefronts(
    access: SharedAccess, addresses: bytes, xor_unknown: int, add_unknown: int
) -> list[list[tuple[int, int]]]:
    """For each place in a word that a base may have, (wavefronts, beats) of each warp's addresses."""
    rows: Ints = np.frombuffer(addresses, np.int64).reshape(-1, WARP)
    judge, found = Judge(access, designed_rules()[access.name]), []
    for flipped, added in _places(xor_unknown, add_unknown, access.bytes, WORD):
        costs = judge.costs(np.where(rows == IDLE, IDLE, (rows ^ flipped) + added))
        found.append([(cost.wavefronts, max(cost.beats, 1)) for cost in costs])
    return found


@lru_cache(maxsize=ALIKE)
def _fewest(addresses: bytes, size: int, xor_unknown: int, add_unknown: int) -> list[tuple[int, int]]:
    """Of each warp (sectors that its addresses lie in, at least, the fewest that hold so many bytes)."""
    rows: Ints = np.frombuffer(addresses, np.int64).reshape(-1, WARP)
    first = rows[np.arange(len(rows)), (rows != IDLE).argmax(axis=1)][:, None]
    lanes = np.where(rows == IDLE, first, rows)  # lanes that take no part ask for nothing that another one does not
    places = np.array(list(_places(xor_unknown, add_unknown, size, SECTOR)))
    moved = (lanes ^ places[:, 0, None, None]) + places[:, 1, None, None]
    touched = _distinct(moved // SECTOR).min(axis=0)
    fewest = -(-_distinct(lanes // size) * size // SECTOR)
    return list(zip(touched.tolist(), fewest.tolist(), strict=True))


def _distinct(numbers: Ints) -> Ints:
    """How many numbers there are in each row."""
    ordered = np.sort(numbers, axis=-1)
    count: Ints = 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(axis=-1)
    return count


def _rows(address: Lanes, taking_part: bytes, size: int, shapes: Shapes, within: int) -> tuple[Ints, Shapes]:
    """The addresses of each warp with a lane that takes part, IDLE of others, less what they lie off their width, and
    less the multiples of `within` that all of them have.
    """
    if address.unknown:
        raise UndecidedError(address.why or "its address is not followed")
    active: Bools = np.frombuffer(taking_part, np.bool_).reshape(-1, WARP)
    known = np.broadcast_to(address.known, (len(active), WARP)).astype(np.int64)
    there = np.asarray(active.any(axis=1))
    rows, on = known[there], active[there]
    off = rows & size - 1
    first = off[np.arange(len(rows)), on.argmax(axis=1)][:, None]
    if address.xor_unknown & size - 1 or ((off != first) & on).any():
        raise UndecidedError("its lanes' addresses are not multiples of the width from a common base")
    kept = tuple(shape for shape, is_there in zip(shapes, there.tolist(), strict=True) if is_there)
    rows = rows - first
    least = np.where(on, rows, rows.max(axis=1, keepdims=True)).min(axis=1, keepdims=True)
    return np.where(on, rows - (least & -within), IDLE), kept


def _places(xor_unknown: int, add_unknown: int, size: int, within: int) -> Iterator[tuple[int, int]]:
    """What a base that is not known may flip and add, below `within` bytes and by multiples of the width."""
    below = within - 1 & ~(size - 1) if size < within else 0
    return product(_subsets(xor_unknown & below), _subsets(add_unknown & below))


def _subsets(mask: int) -> list[int]:
    found, part = [0], mask
    while part:
        found.append(part)
        part = part - 1 & mask
    return found


def _counts(rows: Ints) -> list[int]:
    counts: list[int] = (rows != IDLE).sum(axis=1).tolist()
    return counts


def _by_shape(costs: list[tuple[int, int]], shapes: Shapes, counts: list[int]) -> list[Request]:
    """The request of each shape of a block."""
    found = []
    for shape in dict.fromkeys(shapes):
        own = [(*cost, count) for cost, of, count in zip(costs, shapes, counts, strict=True) if of == shape]
        worst = max(own, key=lambda each: (each[0] - each[1], each[0]))
        typical = Counter(cost for cost, _, _ in own).most_common(1)[0][0]
        found.append(Request(worst[0], typical, worst[1], worst[2]))
    return found


def _agreed(places: list[Request]) -> Request:
    """The one that all places of a base agree on; the best one where all of them cost more than they need."""
    best = min(places, key=lambda each: (each.worst - each.least, each.worst))
    if len({(each.worst, each.least) for each in places}) > 1 and best.worst == best.least:
        raise UndecidedError("where a base lies in a word decides how many wavefronts it takes")
    return best


def _of_shapes(found: list[Request]) -> Request:
    """The one that all shapes of a block agree on; else that of whole warps in a row, if it costs too much."""
    usual = found[0]
    if len({(each.worst, each.least) for each in found}) == 1:
        return usual
    if usual.worst == usual.least:
        raise UndecidedError("how wide a block is decides it, which the file does not say")
    return usual._replace(assumed=True)


def loop_of(kernel: Kernel, instruction: Instruction) -> frozenset[int] | None:
    """The innermost loop around an instruction, as its blocks."""
    block = kernel.block_of.get(instruction.number)
    return next((loop for loop in kernel.loops if block in loop), None)
