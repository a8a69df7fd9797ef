"""A path in words: the tile, each step, the order of the registers, the k-loop, the proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tcprobe.ask.confidence import least, line
from tcprobe.ask.path.boxes import BoxCopy
from tcprobe.ask.path.cycles import path_cycles
from tcprobe.ask.path.progress import advance, formulas
from tcprobe.ask.plan_cost import cycle_lines
from tcprobe.text import Whole, columns, escaped

if TYPE_CHECKING:
    from tcprobe.ask.path import PathPlan
    from tcprobe.ask.path.operand import OperandPlan
    from tcprobe.ask.path.request import TileRequest
    from tcprobe.ask.path.steps import PathStep, RegisterCopy


def to_registers(plan: PathPlan) -> Iterator[str]:
    """The path of a tile to or from registers."""
    request, tile, shared = plan.request, plan.request.tile, plan.request.shared
    yield _in_global_memory(request)
    yield (
        f"in shared memory {shared}: {shared.words(tile)}, {shared.bytes(tile)} bytes, "
        f"start aligned to {plan.alignment}"
    )
    if request.widens:
        yield f"{request.cell.fragment.type} in registers; needs {plan.needs}"
    yield from _counts(request, plan.steps)
    for step in plan.steps:
        yield from _step(request, step)
        if step is plan.registers:
            yield from _order(plan, plan.registers)
    yield from _k_loop(plan)
    elements = "slots' elements" if request.loads else "elements"
    count = plan.fragments * request.cell.table.points if request.loads else tile.rows * tile.cols
    yield f"proven: all {count} {elements} arrive at their places"
    yield from map(escaped, plan.evidence)
    yield line(least([request.cell]))


def to_shared_memory(plan: OperandPlan) -> Iterator[str]:
    """The path of a tile to an operand behind a descriptor."""
    request, tile, shared, smem_tile = plan.request, plan.request.tile, plan.request.shared, plan.request.smem_tile
    descriptor, ahead = smem_tile.descriptor, plan.advance
    yield f"{_in_global_memory(request)}: major {smem_tile.major}"
    yield (
        f"in shared memory {shared}: {tile.line_bytes // shared.block} blocks of {shared.block} bytes of each "
        f"of {tile.lines} lines, {shared.bytes(tile)} bytes, start aligned to {plan.alignment}"
    )
    yield from _counts(request, plan.steps)
    for step in plan.steps:
        yield from _step(request, step)
    yield (
        f"  descriptor {descriptor.encode():#018x} | start address / 16: LBO {descriptor.lbo}, SBO {descriptor.sbo}, "
        f"swizzle {descriptor.swizzle or 'none'}"
    )
    yield f"  LBO: {smem_tile.reasons['lbo']}"
    yield f"  SBO: {smem_tile.reasons['sbo']}"
    if plan.blocks > 1:
        starts = ", ".join(map(str, plan.reads.starts[: plan.blocks]))
        yield f"  blocks of {smem_tile.block} lines: start address + {starts}"
    yield (
        f"k: {ahead.steps} steps along {ahead.axis}s of {ahead.issues} issues each, start address + "
        f"{', '.join(map(str, ahead.shared))}; the next tile {ahead.global_} bytes further in global memory"
    )
    yield f"proven: every multiply finds all bytes of {len(plan.reads.starts)} operands"
    yield from map(escaped, plan.evidence)


def _in_global_memory(request: TileRequest) -> str:
    tile = request.tile
    return (
        f"{tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous, {request.ld_bytes} bytes apart "
        f"in global memory"
    )


def _counts(request: TileRequest, steps: Sequence[PathStep]) -> Iterator[str]:
    """A line for each step, then what they cost in cycles."""
    heads = ("step", "instruction", "issues", "wavefronts", "ideal")
    yield from columns([heads, *map(_count, steps)], 2)
    yield from (f"cycles, {text}" for text in cycle_lines(path_cycles(request, steps)))


def _count(step: PathStep) -> tuple[str, ...]:
    counted = ["-" if n is None else str(n) for n in (step.wavefronts, step.ideal)]
    return (step.kind, step.instruction, str(len(step.issues())), *counted)


def _step(request: TileRequest, step: PathStep) -> Iterator[str]:
    """The instructions of a step and its addresses."""
    yield f"{step.kind}: {', '.join(step.ptx)}"
    if isinstance(step, BoxCopy):
        yield f"  boxes of {step.box[0]} x {step.box[1]} elements, {step.swizzle}"
    for where, text in formulas(request, step).items():
        yield Whole(f"  {where + ' address':<15} {text or 'no closed form; --json has them all'}")


def _order(plan: PathPlan, copy: RegisterCopy) -> Iterator[str]:
    """The first issue's pieces, and which fragment follows which."""
    what, arrow = "matrix" if copy.tables else "piece", "->" if plan.request.loads else "<-"
    for number, (row, col, i) in enumerate(copy.issues()[0]["slots"]):
        register, bit = plan.request.cell.fragment.place(i)
        of = f", bit {bit} on" if bit else ""
        where = f"the fragment at ({row}, {col}), i = {i} on: its register {register}{of}"
        yield f"  {what} {number} of issue 0 {arrow} {where}"
    if plan.fragments > 1:
        (row, col), inner = (
            copy.origins[copy.warps].tolist(),
            "rows" if plan.request.slots.outer == "col" else "columns",
        )
        yield f"  {plan.fragments} fragments follow each other along {inner}: the next at ({row}, {col})"
    if copy.warps > 1:
        each = len(copy.shared) // len(copy.origins)
        yield f"  {copy.warps} warps: each has its own {each} issues of a fragment, warp 0 the first {each}"


def _k_loop(plan: PathPlan) -> Iterator[str]:
    loop = advance(plan)
    if not loop:
        return
    ahead = f"the next tile {loop.global_} bytes further in global memory"
    if not loop.issues:
        yield f"k: {loop.steps} steps along {loop.axis}s; an issue serves several; {ahead}"
        return
    sign = {"+": "+ ", "^": "^ "}.get(loop.op, "")
    by = f"shared address {sign}{', '.join(map(str, loop.shared))}" if sign else "addresses as the formula says"
    yield f"k: {loop.steps} steps along {loop.axis}s of {loop.issues} issues each, {by}; {ahead}"
