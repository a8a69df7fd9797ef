"""`tcprobe numerics`: what a multiply computes, bit by bit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import AmbiguousError, NoMajorityError, UsageError
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import ARCH, JSON, Given, Named, Number, fragment_names, print_notes, read_results
from tcprobe.text import quoted

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.arithmetic.parameters import Arithmetic, Integers
    from tcprobe.cli.requests import NumericsRequest
    from tcprobe.isa.instruction import Instruction
    from tcprobe.isa.names import Meaning
    from tcprobe.store.choose import Layers

MOST_CASES = 64 << 20  # bytes of the file of --cases


@click.command(short_help="What a multiply computes, bit by bit.")
@click.argument("instruction", nargs=-1, required=True, shell_complete=fragment_names)
@ARCH
@click.option("--a", "a", type=Given(), metavar="LIST", help="A of a dot product: k numbers, or bits such as 0x3c00.")
@click.option("--b", "b", type=Given(), metavar="LIST", help="B, as A.")
@click.option("--c", "c", type=Given(), metavar="VALUE", help="C. Default: 0.")
@click.option(
    "--cases",
    type=Named(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE.jsonl",
    help='D of dot products, one per line: {"a": ["0x3c00", ...], "b": [...], "c": "0x0"}. - is standard input.',
)
@click.option(
    "--bound", "length", type=Number(1), metavar="K", help="Print the error bound of a dot product of K products."
)
@click.option(
    "--split",
    "parts",
    type=Number(1),
    metavar="N",
    help="With --bound: k is cut into N parts, which are added in order.",
)
@click.option("--header", is_flag=True, help="Print the arithmetic as a C++17 header, for hosts and CUDA.")
@read_results
@JSON
@named("instruction", count="one")
def numerics(
    instruction: str,
    name: str | None,
    layers: Layers,
    as_json: bool,
    parts: int | None,
    **request: Unpack[NumericsRequest],
) -> None:
    """Say what a multiply computes: which products enter one sum, what is cut, and how D is rounded.

    PTX leaves this open. tcprobe measured it on a GPU; for an arch that it did not measure, it takes what published
    research code says. --a and --b give D of one dot product with every step. --bound says how far a dot product can
    be from the exact one.
    """
    from tcprobe.isa import names

    row = _resolve(names.resolve(instruction), name, layers)
    options = {
        "--a": request["a"],
        "--cases": request["cases"],
        "--bound": request["length"],
        "--header": request["header"],
    }
    ways = [option for option, value in options.items() if value]
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} cannot be combined: give one of them.")
    if bool(request["a"]) != bool(request["b"]) or (request["c"] and not request["a"]):
        raise UsageError("a dot product needs --a and --b; --c is 0 by default.")
    if parts is not None and request["length"] is None:
        raise UsageError("--split needs --bound.")
    if request["header"] and as_json:
        raise UsageError("--json does not apply to --header, which prints C++.")
    if request["header"]:
        from tcprobe.ask.numeric_header import text

        click.echo(text(row, name, layers), nl=False)
        return
    if not ways:
        _facts(row, name, layers, as_json)
        return
    from tcprobe import numerics as library

    rule = library.model(row, name, layers)
    if request["cases"]:
        _cases(row, rule, request["cases"])
    elif request["length"] is not None:
        _bound(row, rule, (request["length"], parts or 1), as_json)
    else:
        _product(row, rule, (request["a"] or "", request["b"] or "", request["c"] or "0"), as_json)


def _resolve(meaning: Meaning, name: str | None, layers: Layers) -> Instruction:
    """The instruction that a name means, or one of several with one arithmetic; AmbiguousError where they differ."""
    from tcprobe.ask.numerics import find
    from tcprobe.isa.arch import arch
    from tcprobe.numerics import MEASURED
    from tcprobe.store.choose import some

    rows = meaning.some_instructions
    if len(rows) < 2:
        return meaning.instruction
    device = arch(name or MEASURED)
    models = [model for row in rows if (model := find(row, device, layers))]
    groups: dict[tuple[str, ...], list[str]] = {}
    for model in models:
        groups.setdefault(tuple(model.parameters), []).append(model.form.id)
    if not models:
        return meaning.instruction
    listed = "; ".join(some(ids, 1) for ids in groups.values())
    if len(groups) > 1:
        words = f"{quoted(meaning.name)} matches {len(models)} multiplies with {len(groups)} arithmetics: {listed}."
        raise AmbiguousError(words, meaning.name, [ids[0] for ids in groups.values()])
    print_notes(f"{quoted(meaning.name)} matches {len(models)} multiplies, all with this arithmetic: {listed}")
    return models[0].form


def _facts(instruction: Instruction, name: str | None, layers: Layers, as_json: bool) -> None:
    from tcprobe.ask.numerics import answer

    arithmetic = answer(instruction, name, layers)
    if as_json:
        click.echo(json.dumps(arithmetic.to_json()))
    else:
        wrapping.lines(arithmetic.in_words)
    if arithmetic.status == "contradicted":
        sys.exit(NoMajorityError.exit_code)


def _cases(instruction: Instruction, rule: Arithmetic | Integers, file: Path) -> None:
    from tcprobe.ask.numeric_steps import cases
    from tcprobe.system.files import read_text

    for d in cases(instruction, rule, read_text(file, MOST_CASES).splitlines()):
        click.echo(json.dumps(d))


def _bound(instruction: Instruction, rule: Arithmetic | Integers, cut: tuple[int, int], as_json: bool) -> None:
    from tcprobe.ask.numeric_steps import bound_error

    error_bound = bound_error(instruction, rule, *cut)
    if as_json:
        click.echo(json.dumps({"id": instruction.id, **error_bound}))
        return
    parts = f" in {error_bound['parts']} parts" if error_bound["parts"] > 1 else ""
    wrapping.line(
        f"{error_bound['length']} products{parts}: |D - exact| <= {error_bound['factor']:.3g} x (|C| + sum of |a x b|)"
    )
    if error_bound["samples"]:
        wrapping.line(f"largest of {error_bound['samples']} random ones: {error_bound['measured']:.3g}")
    if parts:
        wrapping.line(f"results that differ from those in one part: {error_bound['changed']}")


def _product(
    instruction: Instruction, rule: Arithmetic | Integers, operand_texts: tuple[str, str, str], as_json: bool
) -> None:
    from tcprobe.ask.numeric_steps import parse_case, result_bits, steps

    case = parse_case(instruction, *operand_texts)
    if as_json:
        click.echo(json.dumps({"d": result_bits(instruction, rule, case)}))
        return
    for line in steps(instruction, rule, case):
        wrapping.line(line)


COMMANDS = (numerics,)
