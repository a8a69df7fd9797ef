"""The path of a tile from global memory through shared memory into registers, or back: planned, proven, priced.

    request, nearest              what is asked, and what is near it
    steps, transfer, boxes,
    registers, memory, progress   the steps, gone on emulated memory
    operand, operand_code         to operands behind descriptors
    formula, cycles               addresses and cost
    answer, words, cuda, cute     the answer

>>> from tcprobe.store.cell import load
>>> b = load("mma.m16n8k16.row.col.f32.f16.f16.f32.b", "sm_90")
>>> found = path(request(b, PathOptions("64x64", "col", "sw:3,4,3", "ldmatrix.x4")))
>>> [(step.kind, step.instruction, step.wavefronts) for step in found.steps]
[('global->shared', 'cp.async.16', 64), ('shared->registers', 'ldmatrix.x4', 64)]
>>> found.steps[1].issues()[1]["slots"]
[[0, 16, 0], [0, 16, 2], [0, 24, 0], [0, 24, 2]]

A path is a chain of steps. It is proven by going it: the units of every element, numbered in global memory, are moved
by each step's issues, and must come to the slots where the fragment's table on the arch has them; what is not proven is
no path. The same holds for the way back. Where there is no path, the error names the nearest ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tcprobe.ask.bank_access import origins, parse_access
from tcprobe.ask.bank_rules import rules_for
from tcprobe.ask.path.boxes import box_copy
from tcprobe.ask.path.memory import NOTHING, Memory
from tcprobe.ask.path.registers import register_copy
from tcprobe.ask.path.request import MOVES, PathRequest, TileRequest
from tcprobe.ask.path.steps import PathStep, RegisterCopy
from tcprobe.ask.path.transfer import lane_copy
from tcprobe.ask.tile import parse_shared, parse_tile
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.isa.arch import arch
from tcprobe.isa.operand import Role
from tcprobe.isa.shared_memory import access, widening
from tcprobe.references.shared_memory.tma import LEAST_ARCH
from tcprobe.store.cell import Cell
from tcprobe.store.kinds.tensor_maps import rests_on
from tcprobe.text import Described

FILLERS: dict[str, Callable[[TileRequest], PathStep]] = {"cp.async": lane_copy, "plain": lane_copy, "tma": box_copy}
# by the first part of an access's name; what reaches a fragment otherwise is one more of these
ENDS: dict[str, Callable[[PathRequest], RegisterCopy]] = dict.fromkeys(MOVES, register_copy)
LOADS = (
    "ldmatrix.x4",
    "ldmatrix.x4.trans",
    "ldmatrix.x2",
    "ldmatrix.x2.trans",
    "ldmatrix.x1",
    "ldmatrix.x1.trans",
    *(f"ld.shared.b{8 * n}" for n in (16, 8, 4, 2, 1)),
)
WIDENING = tuple(widening())
STORES = tuple(name.replace("ld", "st", 1) for name in LOADS)


@dataclass(frozen=True, repr=False)
class PathPlan(Described):
    """`steps` in the order in which they are made, proven."""

    request: PathRequest
    steps: tuple[PathStep, ...]

    @property
    def in_words(self) -> Iterator[str]:
        """The tile, each step with its addresses, the order of what it moves, the k-loop, the proof."""
        from tcprobe.ask.path import words

        return words.to_registers(self)

    @property
    def code(self) -> str:
        """A CUDA header of it."""
        from tcprobe.ask.path import cuda

        return cuda.source(self)

    @property
    def registers(self) -> RegisterCopy:
        """The step that has to do with registers."""
        return next(step for step in self.steps if isinstance(step, RegisterCopy))

    @property
    def transfer(self) -> PathStep:
        """The other one."""
        return next(step for step in self.steps if not isinstance(step, RegisterCopy))

    @property
    def fragments(self) -> int:
        """How many cover the tile."""
        return len(self.registers.origins) // self.registers.warps

    @property
    def alignment(self) -> int:
        """Of the tile's start in shared memory, in bytes, so that a swizzle acts on addresses as on offsets."""
        b, m, s = self.request.shared.swizzle
        return max(128 if self.request.fill_kind == "tma" else 16, 1 << m + abs(s) + b if b else 1)

    @property
    def needs(self) -> str:
        """The first arch with all the instructions, or the targets and the PTX version that alone have them."""
        row = self.request.access.row
        if self.request.widens:
            return f"{row.needed}, and PTX {row.target.ptx}"
        filled = {"cp.async": 80, "tma": LEAST_ARCH, "plain": 0}[self.request.fill_kind]
        return f"sm_{max(filled, int(row.target.name.removeprefix('sm_')))} or later"

    @property
    def evidence(self) -> list[str]:
        """What each link rests on."""
        cell = self.request.cell
        links = [f"{step.instruction}: {words}" for step in self.steps for words in step.evidence]
        return [f"{cell.fragment.id} on {cell.arch}: {cell.evidence}", *links, f"banks: {self.request.rules.evidence}"]


class PathOptions(NamedTuple):
    """The options of `tcprobe path` as they are written: --tile, --global, --shared, --with, --ld, --fill, --type."""

    size: str
    contiguous: str
    placed: str = "plain"
    access: str | None = None
    ld: int | None = None
    fill: str | None = None
    kind: str | None = None

    def type_in_memory(self, type_: str) -> str:
        """That of the elements, or what becomes of it in registers, of the fragment's type; UsageError for another."""
        widened = self.access is not None and parse_access(self.access).row.wider > 1
        if type_ == "s8" and (widened or (self.kind == "s4" and self.access is None)) and self.kind in (None, "s4"):
            return "s4"
        if widened:
            instead = f"`kind` {str(self.kind)[:20]}" if type_ == "s8" else f"the fragment's elements are {type_}"
            raise UsageError(f"`access` {self.access}: it turns s4 in memory into s8 in registers; {instead}.")
        self.check_type(type_)
        return type_

    def check_type(self, type_: str) -> None:
        """UsageError where --type is another one than the fragment's."""
        if self.kind not in (None, type_):
            raise UsageError(f"`kind` {str(self.kind)[:20]}: the elements are {type_}.")


def request(cell: Cell, options: PathOptions) -> PathRequest:
    """What the options of `tcprobe path` mean; UsageError for any that means nothing.

    Without `access` the first of LOADS, for results of STORES, for s8 of s4 in memory of WIDENING, that there is a path
    with; without `ld` lines without gaps; without `fill` cp.async on the way in where the arch has it, else plain.
    """
    fragment = cell.fragment
    kind = options.type_in_memory(fragment.type)
    narrow = kind != fragment.type
    tile = parse_tile(options.size, kind, options.contiguous, None if narrow else fragment.slot_bits)
    usual = WIDENING if narrow else STORES if fragment.role is Role.RESULT else LOADS
    names = [options.access] if options.access else list(usual)
    rules = rules_for(cell.arch, cell.layers)
    way_in = "cp.async" if access("cp.async.ca.4").target.on(arch(cell.arch)) else "plain"
    boxes = rests_on(cell.layers, rules.for_arch) if options.fill == "tma" else ""
    requests = [
        PathRequest(
            tile,
            tile.length if options.ld is None else options.ld,
            parse_shared(options.placed),
            options.fill or (way_in if name.startswith("ld") else "plain"),
            rules,
            cell,
            parse_access(name),
            boxes=boxes,
        )
        for name in names
    ]
    able = (path_request for fits in (_exists, _reaches) for path_request in requests if fits(path_request))
    return requests[0] if len(requests) == 1 else next(able, requests[0])


def path(request: PathRequest) -> PathPlan:
    """The proven path; UsageError says why there is none, and names the nearest ones."""
    try:
        return prove(request)
    except UsageError as error:
        from tcprobe.ask.path.nearest import hint, nearest

        near = [" ".join(changes) for changes in nearest(request, _exists)]
        raise UsageError(f"no such path. {error} {hint(near)}") from None


def prove(request: PathRequest) -> PathPlan:
    """The path, gone from end to end; UsageError where it cannot be."""
    registers = ENDS[request.move](request)
    transfer = FILLERS[request.fill_kind](request)
    steps: tuple[PathStep, ...] = (transfer, registers) if request.loads else (registers, transfer)
    _run_steps(request, steps)
    return PathPlan(request, steps)


def _exists(request: PathRequest) -> bool:
    return answer_or_none(lambda: prove(request)) is not None


def _reaches(request: PathRequest) -> bool:
    """Whether its access can move the registers, so that what is in the way is something else."""
    return answer_or_none(lambda: ENDS[request.move](request)) is not None


def _run_steps(request: PathRequest, steps: Sequence[PathStep]) -> None:
    """Go the path; UsageError unless every slot, or every element of the tile, gets what it should."""
    slots, tile = request.slots, request.tile
    starts = origins(slots, tile)
    memory = Memory(
        tile, request.ld_bytes, request.shared.bytes(tile), len(starts) * request.warps, request.cell.fragment.elements
    )
    row, col = (
        np.where(slots.row == NOTHING, NOTHING, start[:, None, None] + values)
        for start, values in zip(starts.T, (slots.row, slots.col), strict=True)
    )
    units = memory.of_elements(row, col).reshape(memory.registers.shape)
    if not request.loads:
        memory.registers[:] = units
    for step in steps:
        step.move(memory)
    expected = units if request.loads else np.arange(len(memory.back))
    if memory.strays or not np.array_equal(memory.registers if request.loads else memory.back, expected):
        tables = "the tables of the fragment and of the instructions contradict each other"
        raise UsageError(f"{request.words}: elements would land elsewhere; {tables}.")
