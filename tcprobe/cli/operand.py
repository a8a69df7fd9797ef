"""What `tcprobe path` prints of a path to an operand behind a descriptor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.cli.path_steps import steps_table, steps_words, write
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.ask.path.operand import OperandPlan
    from tcprobe.cli.requests import CodeAsked


def answer(plan: OperandPlan, code_asked: CodeAsked) -> None:
    """The answer to `tcprobe path` of an operand in shared memory."""
    from tcprobe.ask.path import operand_code
    from tcprobe.ask.path.operand import plan_json

    if code_asked["code"] or code_asked["output"]:
        write((operand_code.cute if code_asked["code"] == "cute" else operand_code.source)(plan), code_asked)
    elif code_asked["as_json"]:
        click.echo(json.dumps(plan_json(plan)))
    else:
        _text(plan)


def _text(plan: OperandPlan) -> None:

    asked, tile, shared, held = plan.request, plan.request.tile, plan.request.shared, plan.request.smem_tile
    one, ahead = held.descriptor, plan.advance
    click.echo(
        f"{tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous, {asked.ld_bytes} bytes apart "
        f"in global memory: major {held.major}"
    )
    click.echo(
        f"in shared memory {shared}: {tile.line_bytes // shared.block} blocks of {shared.block} bytes of each "
        f"of {tile.lines} lines, {shared.bytes(tile)} bytes, start aligned to {plan.alignment}"
    )
    steps_table(plan.request, plan.steps)
    for step in plan.steps:
        steps_words(asked, step)
    click.echo(
        f"  descriptor {one.encode():#018x} | start address / 16: LBO {one.lbo}, SBO {one.sbo}, "
        f"swizzle {one.swizzle or 'none'}"
    )
    click.echo(f"  LBO: {held.reasons['lbo']}")
    click.echo(f"  SBO: {held.reasons['sbo']}")
    if plan.blocks > 1:
        click.echo(
            f"  blocks of {held.block} lines: start address + {', '.join(map(str, plan.reads.starts[: plan.blocks]))}"
        )
    by = ", ".join(map(str, ahead.shared))
    click.echo(
        f"k: {ahead.steps} steps along {ahead.axis}s of {ahead.issues} issues each, start address + {by}; "
        f"the next tile {ahead.global_} bytes further in global memory"
    )
    click.echo(f"proven: every multiply finds all bytes of {len(plan.reads.starts)} operands")
    for words in plan.evidence:
        click.echo(escaped(words))
