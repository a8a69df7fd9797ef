"""The descriptors of tcgen05: what `tcprobe descriptor --tcgen05` and `--idesc` take and print."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import click

from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.options import Command, Given, Number, given, together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tcprobe.cli.requests import TileDescriptorRequest
    from tcprobe.values import Json

FIELDS: Final = ("m", "n", "a_type", "b_type", "d_type", "scale_type")
OPTIONS = (
    click.option("--tcgen05", is_flag=True, help="The tile's descriptor for tcgen05 instead of wgmma."),
    click.option("--idesc", is_flag=True, help="The instruction descriptor of tcgen05.mma; with 0xVALUE, decode it."),
    click.option("--zero-mask", is_flag=True, help="The zero-column mask of tcgen05.mma.ws; with 0xVALUE, decode it."),
    click.option(
        "--kind",
        "mma_kind",
        type=Given(),
        metavar="KIND",
        help="With --idesc: f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 or mxf4nvf4.",
    ),
    click.option("--m", type=Number(), help="With --idesc and --zero-mask: M."),
    click.option("--n", type=Number(), help="With --idesc and --zero-mask: N."),
    click.option("--a-type", type=Given(), metavar="TYPE", help="With --idesc: type of A."),
    click.option("--b-type", type=Given(), metavar="TYPE", help="With --idesc: type of B."),
    click.option("--d-type", type=Given(), metavar="TYPE", help="With --idesc: type of D."),
    click.option("--scale-type", type=Given(), metavar="TYPE", help="With --idesc: type of the block scales."),
    click.option(
        "--set",
        "others",
        type=Given(),
        multiple=True,
        metavar="FIELD=VALUE",
        help="With --idesc: another field, such as b_major=mn, sparse=1, negate_a=1, max_shift=8, k=96. With "
        "--zero-mask: skip_span=3, use_span=4 (columns), first_span_0=1, start_count_0=2, column_shift=8.",
    ),
)
NAMES = ("mma_kind", *FIELDS, "others")


def options(command: Command) -> Command:
    """The options that say what a descriptor of tcgen05 says."""
    return together(OPTIONS, command)


def check_none(params: Mapping[str, object]) -> None:
    """UsageError for options of the instruction descriptor and the mask without --idesc and --zero-mask."""
    for name in NAMES:
        if params[name] not in (None, ()):
            option = {"mma_kind": "kind", "others": "set"}.get(name, name.replace("_", "-"))
            mask = " or --zero-mask" if name in ("m", "n", "others") else ""
            raise UsageError(f"--{option} needs --idesc{mask}.")


def instruction(value: str | None, descriptor_request: TileDescriptorRequest, as_json: bool) -> None:
    """The answer of --idesc."""
    from tcprobe.ask import tcgen05_descriptor as ask

    fields = {name: descriptor_request[name] for name in FIELDS}
    typed = {name: field for name, field in fields.items() if field is not None} | _others(descriptor_request["others"])
    if value is not None:
        if typed:
            raise UsageError(f"0xVALUE holds every field except the kind: remove {next(iter(typed))}.")
        plain = ask.instruction_value_json(bits_of(value, 32), descriptor_request["mma_kind"])
    elif descriptor_request["mma_kind"] is None:
        raise UsageError("give --kind, --m, --n and the types, or a value such as 0x08400490.")
    else:
        plain = ask.instruction_json(descriptor_request["mma_kind"], typed)
    if as_json:
        click.echo(json.dumps(plain))
    else:
        _print_instruction(plain)


def zero_mask(value: str | None, descriptor_request: TileDescriptorRequest, as_json: bool) -> None:
    """The answer of --zero-mask."""
    from tcprobe.ask.tcgen05_descriptor import zero_mask_json
    from tcprobe.isa import zero_column_mask as zeros

    m, n = descriptor_request["m"], descriptor_request["n"]
    if m is None or n is None or given("zero_mask", "m", "n", "others"):
        raise UsageError("--zero-mask takes only --m, --n, and the fields with --set or as a value.")
    if (value is None) == (not descriptor_request["others"]):
        raise UsageError("--zero-mask: give --set skip_span=3 and the like, or a value of 64 bits.")
    bits = zeros.encode(_others(descriptor_request["others"])) if value is None else bits_of(value, zeros.WIDTH)
    plain = zero_mask_json(bits, m, n)
    if as_json:
        click.echo(json.dumps(plain))
    else:
        _print_zero_mask(plain)


def _print_zero_mask(plain: Json) -> None:
    wrapping.line(
        plain["value"] + f", zero-column mask of tcgen05.mma.ws, M {plain['m']}, N {plain['n']} ({plain['status']})",
        plain["value"],
        bold=True,
    )
    fields = (f"{name} {value}" for name, value in plain["fields"].items() if value is not None)
    wrapping.line(f"  {', '.join(fields)}")
    _print_undocumented(plain["undocumented"])
    wrapping.line(f"  columns of B treated as zero: {_spans(plain['zero'])}, by {plain['source']}")
    for other in plain["differs"]:
        wrapping.line(f"  differs in {other['source']}: {_spans(other['zero'])}")
    if plain["b_columns"]:
        wrapping.line("  B is read from column {} to {}".format(*plain["b_columns"]))
    click.echo(f"  CUDA: {plain['cuda']}")


def _spans(runs: list[list[int]]) -> str:
    return ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in runs) or "none"


def _others(assignments: tuple[str, ...]) -> dict[str, int | str]:
    """Fields by name, numbers where digits stand."""
    fields: dict[str, int | str] = {}
    for word in assignments:
        name, equal, value = word.partition("=")
        if not (equal and re.fullmatch(r"[a-z_]{1,20}[0-3]?", name) and re.fullmatch(r"[a-z0-9]{1,9}", value)):
            raise UsageError(f"--set {word[:40]!r}: expected FIELD=VALUE, such as b_major=mn.")
        if name in fields:
            raise UsageError(f"--set gives {name} twice.")
        fields[name] = int(value) if value.isdigit() else value
    return fields


def bits_of(value: str, width: int, otherwise: str = "") -> int:
    """The number of a text such as 0x08400490, or of decimal digits that are too many for hexadecimal ones.

    UsageError for another one, also where the digits may be both.
    """
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", value):
        return int(value, 0)
    if re.fullmatch(f"[1-9][0-9]{{{width // 4},19}}", value):
        return int(value)
    if re.fullmatch(r"[0-9a-fA-F]{1,16}", value):
        decimal = f", or 0x{int(value):x} if it is decimal" if value.isdigit() else ""
        raise UsageError(f"{value} does not say that it is hexadecimal: give 0x{value}{decimal}.")
    example = "0x08400490" if width <= 32 else "0x4000004000010000"
    raise UsageError(f"{value[:40]!r} is not a number of {width} bits such as {example}{otherwise}.")


def _print_instruction(plain: Json) -> None:
    wrapping.line(
        plain["value"] + f", instruction descriptor of tcgen05.mma ({plain['status']}, {plain['source']})",
        plain["value"],
        bold=True,
    )
    for reading in plain.get("readings", [plain]):
        _reading(reading)
    if "cuda" in plain:
        click.echo(f"  CUDA: {plain['cuda']}")


def _reading(plain: Json) -> None:
    fields = ", ".join(f"{name} {value}" for name, value in plain["fields"].items() if value is not None)
    wrapping.line(f"  kind::{plain['kind']}: {fields}")
    _print_undocumented(plain["undocumented"])
    for reason in plain["refused"]:
        wrapping.line(f"    refused: {reason}")
    if plain["forms"]:
        wrapping.line(f"    accepted by {', '.join(plain['forms'])}")
    for words in plain["contradictions"]:
        wrapping.line(f"    sources differ: {words}")


def _print_undocumented(runs: list[Json]) -> None:
    for run in runs:
        field = f" ({run['field']})" if run["field"] else ""
        verb = "bits {} are" if "-" in run["bits"] else "bit {} is"
        wrapping.line(f"    {verb.format(run['bits'] + field)} {run['value']}: not documented")


def value(bits: int, as_json: bool) -> None:
    """What 64 bits say to tcgen05."""
    from tcprobe.ask.tcgen05_descriptor import value_json

    plain = value_json(bits)
    if as_json:
        click.echo(json.dumps(plain))
        return
    reading = f", for tcgen05 according to its version bits ({plain['status']}, {plain['source']})"
    wrapping.line(plain["value"] + reading, plain["value"], bold=True)
    for name, number in plain["fields"].items():
        click.echo(f"  {name:<12} {'-' if number is None else number}")
    _print_undocumented(plain["undocumented"])


def tile(size: tuple[int, int], descriptor_request: TileDescriptorRequest, as_json: bool) -> None:
    """The descriptor of a tile for tcgen05."""
    from tcprobe.ask import tcgen05_descriptor as ask

    if descriptor_request["instruction"] is not None or descriptor_request["kind"] is None:
        raise UsageError("--tcgen05 needs --type, the tile's element type; --instruction is for wgmma.")
    shared_tile = ask.Tcgen05Tile(
        ask.tile(size, descriptor_request["kind"], descriptor_request["major"], descriptor_request["swizzle"].span)
    )
    if as_json:
        click.echo(json.dumps(shared_tile.to_json()))
    else:
        wrapping.lines(shared_tile.in_words, f"{shared_tile.value:#018x}")
