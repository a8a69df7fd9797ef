"""What the steps of a path cost in cycles, from the measured costs of their instructions."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.ask.path.boxes import BoxCopy
from tcprobe.ask.path.request import TileRequest
from tcprobe.ask.path.steps import GLOBAL_TO_SHARED, LaneCopy, PathStep, RegisterCopy
from tcprobe.ask.plan_cost import MeasuredCosts, PlanCycles, accesses_cost, copy_cost

MEASURED_LINE = 128  # bytes of a line of the boxes whose round trips are measured, without a swizzle


def step_cycles(request: TileRequest, step: PathStep) -> PlanCycles:
    """What one step costs; nothing for what a multiply reads by itself, since its own cost includes that."""
    costs_on = MeasuredCosts.of(request.rules)
    if isinstance(step, BoxCopy):
        return _boxes(step, costs_on)
    if not isinstance(step, LaneCopy | RegisterCopy):
        return PlanCycles()
    cycles = accesses_cost(step.instruction, len(step.shared), step.wavefronts, costs_on)
    others = [text for text in step.ptx if ".global" in text and ".shared" not in text]
    return cycles.lacking(*others)


def path_cycles(request: TileRequest, steps: Sequence[PathStep]) -> dict[str, PlanCycles]:
    """What every step costs by its kind, in order."""
    return {step.kind: step_cycles(request, step) for step in steps}


def _boxes(box_copy: BoxCopy, costs_on: MeasuredCosts) -> PlanCycles:
    """The cost of one box whose lines are as long as the timed ones; several boxes, or other lines, were not timed."""
    inner, rows = box_copy.box
    name = f"{box_copy.instruction}.{'shared.global' if box_copy.kind == GLOBAL_TO_SHARED else 'global.shared'}"
    line = inner * box_copy.bits // 8
    if len(box_copy.corners) > 1 or line != MEASURED_LINE:
        return PlanCycles(missing=(f"{len(box_copy.corners)} x {name}, {rows} lines of {line} bytes",))
    cycles = copy_cost(name, line * rows, costs_on)
    return cycles if box_copy.mode.span is None else cycles.lacking(f"what {box_copy.swizzle} adds")
