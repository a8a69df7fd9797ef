"""What `path` and `load` share: options, the table of steps, their instructions and addresses; where code goes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.options import Output, print_notes
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.cli.requests import CodeRequest
    from tcprobe.store.cell import Cell
    from tcprobe.store.choose import Layers

MAJOR = click.option(
    "--global",
    "contiguous",
    type=click.Choice(["row", "col"]),
    default="row",
    show_default=True,
    help="What is contiguous in memory: rows (row-major) or columns.",
)
OUTPUT = click.option("-o", "--output", type=Output(path_type=Path, dir_okay=False), help="File for the code.")


def only_one(code_request: CodeRequest) -> None:
    """UsageError where JSON and code are asked for, or names of code that is not."""
    coded = code_request["code"] or code_request["output"]
    if code_request["as_json"] and coded:
        raise UsageError("--json cannot be combined with --code or -o.")
    if not coded and (code_request["called"] or code_request["namespace"]):
        raise UsageError("--name and --namespace are for code: give --code or -o too.")


def cell_of(fragment: str, name: str | None, layers: Layers) -> Cell:
    """The table that a fragment's name means, on an arch; notes go to stderr."""
    from tcprobe.store.names import find_cell

    cell, note = find_cell(fragment, name, layers)
    print_notes(note)
    return cell


def write(text: str, code_request: CodeRequest) -> None:
    """Code to a file, or to standard output, by the name and in the namespace that are asked for."""
    from tcprobe.code.names import in_namespace, rename
    from tcprobe.system import files

    output, struct = code_request["output"], re.search(r"^struct (\w+)", text, re.MULTILINE)
    text = in_namespace(rename(text, struct[1] if struct else "", code_request["called"]), code_request["namespace"])
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())
        wrapping.line(escaped(f"{output}: {len(text.splitlines())} lines"), err=True)
