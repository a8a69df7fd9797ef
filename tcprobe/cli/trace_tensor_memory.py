"""`trace` of tcgen05.mma: which cells and bytes feed an element of D in tensor memory."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING

import click

from tcprobe.cli import wrapping
from tcprobe.cli.options import Command, together
from tcprobe.cli.tensor_memory import SIZES, check_arch
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tcprobe.ask.trace_tensor_memory import TensorMeeting, TensorTrace
    from tcprobe.cli.requests import TraceAsked
    from tcprobe.isa.instruction import Instruction
    from tcprobe.references.memory_operand import TensorCell

ELSEWHERE = ("product", "operand", "lane", "element", "byte", "lbo", "sbo", "base_offset", "start")


def options(command: Command) -> Command:
    """The options that say which sizes and scales are meant."""
    return together(SIZES[:3], command)


def answer(instruction: Instruction, name: str | None, trace: TraceAsked, as_json: bool) -> None:
    """Answers for every element that is asked about; UsageError for what a tcgen05.mma does not have."""
    from tcprobe.ask.trace_tensor_memory import TensorTraceRequest, traced

    check_arch(instruction, name)
    options: Mapping[str, object] = trace
    if wrong := [option for option in ELSEWHERE if options[option] is not None]:
        raise UsageError(f"{instruction.id}: give --row and --col of D; --{wrong[0].replace('_', '-')} is for others.")
    rows, cols = trace["row"], trace["col"]
    if rows is None or cols is None:
        raise UsageError(f"{instruction.id}: give --row and --col of D.")
    if trace["major"] == "mn":
        raise UsageError("trace of tcgen05.mma has A and B with k contiguous: leave --major out.")
    if trace["a_in"] == "registers":
        raise UsageError(f"{instruction.id} has A in shared or in tensor memory: --a-in shared or tensor.")
    span = trace["swizzle"].span if trace["swizzle"] else 0
    in_tensor = trace["a_in"] == "tensor"
    asked = TensorTraceRequest(trace["m"], trace["n"], span, in_tensor, trace["selector"], trace["vector"])
    for row, col in product(rows, cols):
        found = traced(instruction, asked, row, col)
        if as_json:
            click.echo(json.dumps(found.to_json()))
        else:
            _print(found)


def _print(tensor_trace: TensorTrace) -> None:
    at, size = f"D[{tensor_trace.row}][{tensor_trace.col}]", tensor_trace.placed_d
    wrapping.line(f"{at} in {tensor_trace.form.id}, M {size.m}, N {size.n}: {_cells(tensor_trace.d)}", at, bold=True)
    two_ctas = "cta_group::2" in tensor_trace.form.id
    for one in tensor_trace.meetings:
        a = f"at byte {one.a_byte}{_of(tensor_trace.a_cta, two_ctas)}" if one.a_byte is not None else _cells(one.a)
        b = ", ".join(f"B[{k}][{tensor_trace.col}] at byte {at}" for k, at in zip(one.k, one.b_bytes, strict=True))
        click.echo(
            f"  A[{tensor_trace.row}][{one.stored}] {a}  x  {b}{_of(tensor_trace.b_cta, two_ctas)}{_beside(one)}"
        )
    a, b = tensor_trace.to_json()["descriptors"]
    shared = f"B behind {b}" if tensor_trace.meetings[0].a else f"A behind {a}, B behind {b}"
    wrapping.line(f"{shared} with start addresses added, k contiguous")
    wrapping.line(f"documented only, by {'; '.join(tensor_trace.sources)}")


def _of(cta: int, two_ctas: bool) -> str:
    return f" of cta {cta}" if two_ctas else ""


def _beside(tensor_meeting: TensorMeeting) -> str:
    """The index and the scales of a product, the first place of each: warps have the same."""
    said = [f"index {_cells(tensor_meeting.e[:1])}"] if tensor_meeting.e else []
    said += [
        f"{name.upper()}[{row}][{col}] {_cells(cells[:1])}" for name, (row, col, cells) in tensor_meeting.scales.items()
    ]
    return f"  ({'; '.join(said)})" if said else ""


def _cells(tensor_cells: tuple[TensorCell, ...]) -> str:
    return "; ".join(
        f"cta {c.cta}, lane {c.lane}, column {c.column}" + (f", bit {c.bit}" if c.bit else "") for c in tensor_cells
    )
