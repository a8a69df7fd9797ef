"""A path as plain data: its steps with formulas and issues, the order of the registers, and the k-loop's advance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcprobe.ask.confidence import least
from tcprobe.ask.path.boxes import BoxCopy
from tcprobe.ask.path.cycles import step_cycles
from tcprobe.ask.path.progress import advance, formulas
from tcprobe.ask.path.request import TileRequest
from tcprobe.ask.path.steps import PathStep
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.path import PathPlan


def plan_json(plan: PathPlan) -> Json:
    """The whole answer as plain data."""
    request, tile = plan.request, plan.request.tile
    ahead = advance(plan)
    return {
        "fragment": request.cell.fragment.id,
        "arch": request.cell.arch,
        "tile": [tile.rows, tile.cols],
        "type": tile.type,
        "global": tile.contiguous,
        "ld": request.ld,
        "shared": str(request.shared),
        "pitch": request.shared.pitch(tile),
        "block": request.shared.block or None,
        "bytes": request.shared.bytes(tile),
        "alignment": plan.alignment,
        "fill": request.fill,
        "fragments": plan.fragments,
        "registers": request.cell.fragment.registers,
        "proven": True,
        "needs": plan.needs,
        "steps": [step_json(request, step) for step in plan.steps],
        "k": ahead.to_json() if ahead else None,
        "evidence": plan.evidence,
        "confidence": least([request.cell]).to_json(),
        "rule": request.rules.to_json(),
    }


def step_json(request: TileRequest, step: PathStep) -> Json:
    """A step as plain data."""
    plain = {
        "kind": step.kind,
        "instruction": step.instruction,
        "ptx": list(step.ptx),
        "wavefronts": step.wavefronts,
        "ideal": step.ideal,
        "formula": formulas(request, step),
        "cycles": step_cycles(request, step).to_json(),
    }
    box = {"swizzle": step.swizzle} if isinstance(step, BoxCopy) else {}
    return {**plain, **box, "issues": step.issues()}
