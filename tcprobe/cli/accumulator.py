"""`where` of D of tcgen05.mma: its cell of tensor memory, and the register that a tcgen05.ld leaves it in."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from tcprobe.cli.options import Given, Number, several
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tcprobe.isa.instruction import Instruction

OPTIONS = (
    click.option("--m", type=Number(), help="Of D of tcgen05.mma: M. Default: 128, or the largest."),
    click.option("--n", type=Number(), help="Of D of tcgen05.mma: N. Default: 256, or the largest."),
    click.option("--ld", type=Given(), metavar="SHAPE.xN", help="The tcgen05.ld that reads D, such as 32x32b.x32."),
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which D, and how it is read."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def form(name: str) -> Instruction | None:
    """The tcgen05.mma whose D a name is."""
    from tcprobe.isa import inventory

    row = inventory.instructions().get(name.strip().removesuffix(".d"))
    return row if row and name.strip().endswith(".d") and row.id.startswith("tcgen05.mma") else None


def check_arch(row: Instruction, name: str | None) -> None:
    """UsageError for an arch that does not have the multiply."""
    from tcprobe.isa import arch

    for at in several(name):
        if at not in (None, "all") and not row.target.on(arch.arch(str(at))):
            raise UsageError(f"{at} does not have {row.id}: `tcprobe why-not` says why.")


def located(row: Instruction, asked: dict[str, Any], as_json: bool) -> None:
    """Answers for every element that is asked about, one after the other."""
    from tcprobe.references import accumulator

    for name in ("lanes", "elements", "byte", "selector", "swizzle", "major", "lbo", "sbo", "base_offset", "start"):
        if asked[name] is not None:
            raise UsageError("D of tcgen05.mma is in tensor memory: give --row and --col.")
    if asked["rows"] is None or asked["cols"] is None:
        raise UsageError("D of tcgen05.mma is in tensor memory: give --row and --col.")
    m, n = (_extent(row, asked, name, usual) for name, usual in (("m", 128), ("n", 256)))
    letter, load = accumulator.layout(row.id, m), _load(asked["ld"])
    for at in product(asked["rows"], asked["cols"]):
        if at[0] >= m or at[1] >= n:
            raise UsageError(f"D is {m} x {n}: it has no element {at[0]}, {at[1]}.")
        cell = accumulator.place(letter, (m, n), *at)
        slot = accumulator.loaded(cell, *load)._asdict() if load else {}
        if as_json:
            click.echo(json.dumps({"id": f"{row.id}.d", "m": m, "n": n, "row": at[0], "col": at[1], "layout": letter,
                                   "tmem": cell._asdict(), **slot, "status": "documented",
                                   "source": accumulator.SOURCE}))  # fmt: skip
        else:
            _print(at, letter, cell._asdict(), slot)


def _print(at: tuple[int, int], letter: str, cell: dict[str, int], slot: dict[str, int]) -> None:
    words = ", ".join(f"{name} {value}" for name, value in cell.items())
    read = ", ".join(f"{name} {value}" for name, value in slot.items())
    click.echo(f"D[{at[0]}][{at[1]}]: tensor memory {words} (layout {letter}, documented)")
    if read:
        click.echo(f"  loaded: {read}")


def _extent(row: Instruction, asked: dict[str, Any], name: str, usual: int) -> int:
    values = [int(value) for value in row.stated[f"{name}_values"]]
    value = asked[name] if asked[name] is not None else usual if usual in values else values[-1]
    if value not in values:
        raise UsageError(f"{row.id} has no {name.upper()} {value}: it has {', '.join(map(str, values))}.")
    return value


def _load(words: str | None) -> tuple[str, int] | None:
    from tcprobe.isa import inventory

    if words is None:
        return None
    read = re.fullmatch(r"(\w{1,9})\.x(\d{1,3})", words)
    row = read and inventory.instructions().get(f"tcgen05.ld.{read[1]}")
    if not (read and row and int(read[2]) in row.stated["num"]):
        raise UsageError(f"--ld {words[:40]!r}: expected SHAPE.xN of tcgen05.ld, such as 32x32b.x32.")
    return read[1], int(read[2])
