"""`verify`: the tables on a live GPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.errors import UsageError
from tcprobe.question.naming import named
from tcprobe.question.options import JSON, Number, read_results

if TYPE_CHECKING:
    from tcprobe.store.choose import Layers


@click.command(short_help="Check the tables on a live GPU against NumPy.")
@click.argument("patterns", nargs=-1, metavar="[INSTRUCTION]...")
@click.option("--device", "index", type=Number(), default=0, show_default=True, metavar="N", help="GPU number N.")
@click.option("--seed", type=Number(), default=0, show_default=True, help="Seed of the random matrices.")
@read_results
@JSON
@named("patterns")
def verify(patterns: tuple[str, ...], index: int, seed: int, layers: Layers, as_json: bool) -> None:
    """Check the tables on a live GPU: the emitted code loads and stores operands, and D is compared with a model.

    NumPy gives D of whole numbers. The measured arithmetic (`tcprobe numerics`) gives D of random floats, bit by bit.

    The CUDA header loads and stores fragments. Factors in shared memory are written with what `tcprobe descriptor`
    prints, for every swizzle and major; A is tried in registers and in shared memory. INSTRUCTION is a shortened name
    or a pattern. Without one, every form that the GPU has is tried (warpgroup forms with N 8, 24, 64, 128 and 256),
    sparse forms under each selector with random metadata. It also shows which slots are never read, and that a
    wrong layout fails. Exit code 1 if something is wrong.
    """
    from tcprobe.cli import answers
    from tcprobe.isa import arch
    from tcprobe.run.gpu import Gpu
    from tcprobe.run.verify import verifiable
    from tcprobe.run.verify import verify as verified
    from tcprobe.store.cell import find_operands

    rows = verifiable(*patterns)
    gpu = Gpu()
    gpu.open(index)
    device = gpu.devices()[index]
    row = arch.arch(device.arch)
    allowed = [i for i in rows if i.target.on(row)]
    if not allowed:
        raise UsageError(f"{device.name} ({device.arch}) has none of these: `tcprobe why-not` says why.")
    known_forms, unknown_ids = [], []
    for instruction in allowed:
        if tables := find_operands(instruction, row.name, layers):
            known_forms.append((instruction, tables))
        else:  # neither measured nor documented there
            unknown_ids.append(instruction.id)
    if not known_forms:
        raise UsageError(f"nothing is known about {unknown_ids[0]} on {row.name}: `tcprobe run` measures it.")
    verdicts = []
    for verdict in verified(gpu, known_forms, seed, layers):
        verdicts.append(verdict)
        if as_json:
            click.echo(json.dumps(verdict.to_json()))
        else:
            answers.print_verdict(verdict)
    if not as_json:
        answers.verified_all(device, verdicts, len(rows) - len(allowed), len(unknown_ids))
    if not all(verdict.good for verdict in verdicts):
        raise SystemExit(1)


COMMANDS = (verify,)
