"""`trace` of tcgen05.mma: which cells and bytes feed an element of D in tensor memory."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING

import click

from tcprobe.cli.tensor_memory import LOAD, SIZES, check_arch, parse_load
from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.options import Command, together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tcprobe.ask.trace_tensor_memory import TensorMeeting, TensorTrace
    from tcprobe.cli.requests import TraceRequest
    from tcprobe.isa.instruction import Instruction
    from tcprobe.references.memory_operand import TensorCell
    from tcprobe.store.choose import Layers

MAJOR = click.Choice(["k", "mn"])
MAJORS = (
    click.option("--a-major", type=MAJOR, help="With tcgen05.mma: what of A is contiguous. Default: --major, or k."),
    click.option("--b-major", type=MAJOR, help="With tcgen05.mma: what of B is contiguous. Default: --major, or k."),
)
ELSEWHERE = ("product", "operand", "lane", "element", "byte", "lbo", "sbo", "base_offset", "start")


def options(command: Command) -> Command:
    """The options that say which sizes and scales are meant, what is contiguous, and how D is read."""
    return together((*SIZES[:3], *MAJORS, LOAD), command)


def answer(instruction: Instruction, known_by: tuple[Layers, str | None], trace: TraceRequest, as_json: bool) -> None:
    """Answers for every element that is asked about; UsageError for what a tcgen05.mma does not have."""
    from tcprobe.ask.trace_tensor_memory import TensorTraceRequest, trace_element

    check_arch(instruction, known_by[1])
    options: Mapping[str, object] = trace
    if wrong := [option for option in ELSEWHERE if options[option] is not None]:
        raise UsageError(
            f"{instruction.id}: give --row and --col of D; --{wrong[0].replace('_', '-')} does not apply to it."
        )
    rows, cols = trace["row"], trace["col"]
    if rows is None or cols is None:
        raise UsageError(f"{instruction.id}: give --row and --col of D.")
    if trace["a_in"] == "registers":
        raise UsageError(f"{instruction.id} has A in shared or in tensor memory: --a-in shared or tensor.")
    span = trace["swizzle"].span if trace["swizzle"] else 0
    in_tensor = trace["a_in"] == "tensor"
    if in_tensor and trace["a_major"]:
        raise UsageError("--a-major needs A in shared memory.")
    a, b = (trace[name] or trace["major"] or "k" for name in ("a_major", "b_major"))
    request = TensorTraceRequest(
        trace["m"],
        trace["n"],
        span,
        in_tensor,
        trace["selector"],
        trace["vector"],
        ("k" if in_tensor else a, b),
        parse_load(trace["ld"]) if trace["ld"] else None,
        *known_by,
    )
    for row, col in product(rows, cols):
        traced_element = trace_element(instruction, request, row, col)
        if as_json:
            click.echo(json.dumps(traced_element.to_json()))
        else:
            _print(traced_element)


def _print(tensor_trace: TensorTrace) -> None:
    element, size = f"D[{tensor_trace.row}][{tensor_trace.col}]", tensor_trace.placed_d
    wrapping.line(
        f"{element} in {tensor_trace.form.id}, M {size.m}, N {size.n}: {_cells(tensor_trace.d)}", element, bold=True
    )
    if tensor_trace.loaded:
        click.echo(f"  loaded: {', '.join(f'{name} {place}' for name, place in tensor_trace.loaded._asdict().items())}")
    two_ctas = "cta_group::2" in tensor_trace.form.id
    for meeting in tensor_trace.meetings:
        a = (
            f"at byte {meeting.a_byte}{_of(tensor_trace.a_cta, two_ctas)}"
            if meeting.a_byte is not None
            else _cells(meeting.a)
        )
        b = ", ".join(
            f"B[{k}][{tensor_trace.col}] at byte {byte}" for k, byte in zip(meeting.k, meeting.b_bytes, strict=True)
        )
        factors = f"A[{tensor_trace.row}][{meeting.stored}] {a}  x  {b}{_of(tensor_trace.b_cta, two_ctas)}"
        click.echo(f"  {factors}{_beside(meeting)}")
    a, b = tensor_trace.to_json()["descriptors"]
    shared = f"B behind {b}" if tensor_trace.meetings[0].a else f"A behind {a}, B behind {b}"
    a, b = (major.replace("mn", name) for major, name in zip(tensor_trace.majors, "mn", strict=True))
    contiguous = f"{a} of A and {b} of B" if a != b else a
    wrapping.line(f"{shared} with start addresses added, {contiguous} contiguous")
    by = "; ".join(tensor_trace.sources)
    wrapping.line(f"cells {by}" if tensor_trace.is_measured else f"documented only, by {by}")


def _of(cta: int, two_ctas: bool) -> str:
    return f" of cta {cta}" if two_ctas else ""


def _beside(tensor_meeting: TensorMeeting) -> str:
    """The index and the scales of a product, the first place of each: warps have the same."""
    factors = [f"index {_cells(tensor_meeting.e[:1])}"] if tensor_meeting.e else []
    factors += [
        f"{name.upper()}[{row}][{col}] {_cells(cells[:1])}" for name, (row, col, cells) in tensor_meeting.scales.items()
    ]
    return f"  ({'; '.join(factors)})" if factors else ""


def _cells(tensor_cells: tuple[TensorCell, ...]) -> str:
    return "; ".join(
        f"cta {c.cta}, lane {c.lane}, column {c.column}" + (f", bit {c.bit}" if c.bit else "") for c in tensor_cells
    )
