"""What `tcprobe path` prints of a path to an operand behind a descriptor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.cli.path_steps import write
from tcprobe.question import wrapping

if TYPE_CHECKING:
    from tcprobe.ask.path.operand import OperandPlan
    from tcprobe.cli.requests import CodeRequest


def answer(plan: OperandPlan, code_request: CodeRequest) -> None:
    """The answer to `tcprobe path` of an operand in shared memory."""
    from tcprobe.ask.path import operand_code
    from tcprobe.ask.path.operand import plan_json

    if code_request["code"] or code_request["output"]:
        write((operand_code.cute if code_request["code"] == "cute" else operand_code.source)(plan), code_request)
    elif code_request["as_json"]:
        click.echo(json.dumps(plan_json(plan)))
    else:
        wrapping.lines(plan.in_words)
