"""`banks`: conflicts in shared memory of a tile with all its accesses, of 32 addresses, of patterns by the thousand.

accesses    a tile and where it lies; the accesses that walk it
patterns    which rule holds, addresses of warps by it, and who collides with whom
tiles       what the accesses of a tile cost together, and what would cost least
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, SupportsIndex

import click

from tcprobe.errors import UsageError
from tcprobe.question import terminal, words
from tcprobe.question.answers import declare, plain
from tcprobe.question.arguments import Sizes, TypeName, addresses, arch_name, checked
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.options import ElementType, Named, NonEmptyText
from tcprobe.question.shared import (
    ArchOption,
    GlobalOption,
    JsonOption,
    OnlyOption,
    PermuteOption,
    ResultsOption,
    SharedOption,
    SvgOption,
    SwizzleOption,
    WarpsOption,
    place_of,
    tile_text,
    tiled_cell,
)
from tcprobe.store.cell import Cell
from tcprobe.store.choose import layers

if TYPE_CHECKING:
    from tcprobe.ask.banks.patterns import BankRules, PatternCost
    from tcprobe.ask.banks.tiles import TileAnswer

_ACCESS = re.compile(r"(ld|st|atom|red)\.shared\.|(ld|st)matrix\.|cp\.async\.")
# what decides the form of the question, and what else goes with it
FORMS = {
    "tile": {"name", "kind", "contiguous", "access", "placed", "swizzle", "propose", "warps", "permute"},
    "lane_addresses": {"source_addresses", "access"},
    "patterns": set[str](),
    "rule": set[str](),
}
COUNTED = {
    "words": "the most words in a bank",
    "lanes": "the most lanes in a bank",
    "order": "lanes one by one, each after earlier lanes that use its bank",
}


@checked
def banks(
    name: Annotated[str | Cell | None, NameWords("[FRAGMENT | ACCESS]", required=False)] = None,
    *,
    tile: Annotated[
        Sizes | None,
        Option(
            "--tile",
            "Size of the tile in shared memory, in FRAGMENT's rows and columns.",
            "ROWSxCOLS",
            NonEmptyText(),
            word=words.TILE,
        ),
    ] = None,
    warps: WarpsOption = None,
    permute: PermuteOption = None,
    kind: Annotated[
        TypeName | None, Option("--type", "Its element type. Default: FRAGMENT's.", "T", ElementType())
    ] = None,
    contiguous: GlobalOption = None,
    access: Annotated[
        str | Sequence[str],
        Option(
            "--with",
            "ld.shared.b64, st.shared.v4, ldmatrix.x4, ...: follows FRAGMENT's slots; OP@rows, OP@cols and "
            "cp.async.16 sweep the tile.",
            "ACCESS...",
            NonEmptyText(),
            multiple=True,
            word=words.ACCESS,
        ),
    ] = (),
    placed: SharedOption = None,
    swizzle: SwizzleOption = None,
    propose: Annotated[
        bool, Option("--propose", "Find the smallest swizzle and padding for all accesses together.")
    ] = False,
    lane_addresses: Annotated[
        str | Sequence[SupportsIndex | None] | None,
        Option(
            "--address",
            "Addresses of 32 lanes: an expression in lane, or a file.",
            "EXPR|@FILE",
            NonEmptyText(),
            word=words.LANES,
        ),
    ] = None,
    source_addresses: Annotated[
        str | Sequence[SupportsIndex | None] | None,
        Option("--source", "With --address and cp.async.ca: the global addresses.", "EXPR|@FILE", NonEmptyText()),
    ] = None,
    patterns: Annotated[
        Path | None,
        Option(
            "--patterns",
            'Many accesses, one per line: {"op": "ld.shared.b64", "address": [32 numbers or null]}. - is standard '
            "input.",
            "FILE.jsonl",
            Named(path_type=Path, dir_okay=False),
        ),
    ] = None,
    rule: Annotated[bool, Option("--rule", "Print the rule for each access, with its evidence.")] = False,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "TileAnswer | PatternCost | list[PatternCost] | BankRules":
    """Count bank conflicts by the measured rule: wavefronts, and which lanes collide.

    It takes a tile with all its accesses (--tile, --with), the addresses of 32 lanes (--address, --with), or many
    patterns at once (--patterns). --rule shows the rule.
    \f
    `name` is the fragment whose slots the accesses walk, `kind` the element type where there is none; `placed` is
    plain, pad:16, 128B or sw:3,4,3. With `propose` the answer has the smallest swizzle and padding without conflicts.
    `lane_addresses` are an expression in lane, or 32 byte addresses (None: an idle lane); the answer has wavefronts.
    `source_addresses` say likewise where cp.async reads global memory.
    """
    given = dict(locals())
    from tcprobe.ask.banks.patterns import costs_of, read_patterns, rules_for

    folders, asked_arch = layers(results, only), arch_name(arch)
    accesses = [each for text in ([access] if isinstance(access, str) else access) for each in text.split(",")]
    if spelled := _as_access(name):
        name, accesses, given["name"] = None, [spelled, *accesses], None
    form = _form(given)

    @cache
    def rules(other: str | None) -> "BankRules":
        return rules_for(other or asked_arch, folders)

    if form == "rule":
        return rules(None)
    if patterns is not None:
        return costs_of(read_patterns(patterns), rules)
    if lane_addresses is not None:
        from tcprobe.ask.banks.patterns import check_pattern
        from tcprobe.isa.shared_memory import access as access_row

        if len(accesses) != 1:
            raise UsageError(f"`lane_addresses` needs exactly one access in `access`; got {len(accesses)}.")
        row, lanes = access_row(accesses[0]), _lanes("lane_addresses", lane_addresses)
        pattern = check_pattern(row, lanes, _lanes("source_addresses", source_addresses))
        return costs_of([pattern._replace(arch=asked_arch)], rules)[0]
    from tcprobe.ask.banks.accesses import parse_access, parse_shared, parse_tile, slots_of, walk
    from tcprobe.ask.banks.tiles import answer

    if not accesses:
        raise UsageError("no accesses are given; add them, for example `access` cp.async.16 ldmatrix.x4.")
    if warps is not None and name is None:
        raise UsageError("`warps` needs a FRAGMENT.")
    typed = None if kind is None else str(kind)
    cell, size = (None, tile) if name is None else tiled_cell(name, tile, warps, permute, arch, folders, typed)
    if kind is None and cell is None:
        raise UsageError("`tile` needs the type of its elements: `kind` f16, or a FRAGMENT.")
    slots = slots_of(cell) if cell else None
    type_ = str(kind) if kind is not None else cell.fragment.type if cell else ""
    parsed = parse_tile(tile_text(size or ""), type_, contiguous or "row")
    walks = [walk(parse_access(text), parsed, slots) for text in accesses]
    found = answer(parsed, parse_shared(place_of(placed, swizzle)), walks, rules(None), propose)
    return replace(found, fragment=slots.name) if slots else found


def _form(given: dict[str, object]) -> str:
    """Which of the four forms was asked for; UsageError unless it is one, by parameters of its own."""
    named = [key for key in given if key not in ("arch", "results", "only") and given[key] not in (None, (), False)]
    forms = [key for key in named if key in FORMS]
    if len(forms) != 1:
        raise UsageError("give one of `tile`, `lane_addresses`, `patterns` and `rule`.")
    if extra := [key for key in named if key not in FORMS[forms[0]] | {forms[0]}]:
        words = ", ".join("FRAGMENT" if key == "name" else f"`{key}`" for key in extra)
        raise UsageError(f"{words} cannot be combined with `{forms[0]}`.")
    return forms[0]


def _as_access(name: str | Cell | None) -> str | None:
    """The access that a name means, as in `banks ldmatrix x4`; None for that of a fragment."""
    from tcprobe.ask.banks.accesses import parse_access

    spelled = ".".join(name.split()) if isinstance(name, str) else ""
    if not _ACCESS.match(f"{spelled}."):
        return None
    try:
        return parse_access(spelled).name
    except UsageError:
        return None


def _lanes(name: str, python_addresses: object) -> list[int | None] | None:
    """An address a lane, of an expression in lane or of numbers; None where the parameter is not given."""
    from tcprobe.ask.banks.patterns import lanes_of

    if python_addresses is None:
        return None
    return lanes_of(python_addresses) if isinstance(python_addresses, str) else addresses(name, python_addresses)


class Accesses(click.Command):
    """A command whose --with takes all accesses that follow it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Every access gets a --with of its own."""
        spread: list[str] = []
        for arg in args:
            follows = _ACCESS.match(arg) and spread[-2:-1] == ["--with"]
            spread += ["--with", arg] if follows else arg.split("=", 1) if arg.startswith("--with=") else [arg]
        return super().parse_args(ctx, spread)


declare("pattern", "tcprobe.ask.banks.patterns:PatternAnswer")


@command(
    banks,
    short="Bank conflicts in shared memory, and what avoids them.",
    cls=Accesses,
    json={"": "tcprobe.ask.banks.tiles:BanksAnswer", "--rule": "tcprobe.ask.banks.patterns:AllRules"},
)
def print_banks(
    found: "TileAnswer | PatternCost | list[PatternCost] | BankRules",
    *,
    explain: Annotated[bool, Option("--explain", "With --json: also which lanes collide.")] = False,
    svg: SvgOption = None,
    as_json: JsonOption = False,
) -> None:
    """Words or JSON of each form."""
    from tcprobe.ask.banks.patterns import BankRules
    from tcprobe.ask.banks.tiles import TileAnswer

    if svg:
        if isinstance(found, BankRules | list):
            raise UsageError("`svg` draws one tile or one access: give `tile` or `lane_addresses`.")
        from tcprobe.system import files

        files.write(svg, found.picture.encode())
    if isinstance(found, BankRules):
        if explain:
            raise UsageError("`explain` cannot be combined with `rule`.")
        _print_rules(found, as_json)
    elif isinstance(found, list):
        lines = [json.dumps(each.answer_json(explain)) for each in found]
        if not as_json:
            lines = [f"{each.pattern.row.name}: {each}" for each in found]
            lines += [f"rule: {words}" for words in dict.fromkeys(each.rules.evidence for each in found)]
            lines += dict.fromkeys(f"confidence: {each.rules.confidence}" for each in found)
        click.echo("\n".join(lines), nl=bool(lines))
    elif not as_json:
        terminal.lines(found.in_words if isinstance(found, TileAnswer) else found.answer_words)
    elif isinstance(found, TileAnswer):
        click.echo(json.dumps(found.to_json(explain)))
    else:
        click.echo(json.dumps(found.answer_json(explain)))


def _print_rules(by: "BankRules", as_json: bool) -> None:
    """Every access that the arch has: its phases, and what is counted in them."""
    from tcprobe.ask.banks.patterns import AllRules
    from tcprobe.isa.arch import arch
    from tcprobe.isa.shared_memory import accesses

    rows = {row.name: by.rule(row) for row in accesses().values() if row.target.on(arch(by.for_arch))}
    if as_json:
        click.echo(json.dumps(plain(AllRules(by.answer, rows))))
        return
    for name, rule in rows.items():
        joins = f"; {rule.joined} where neighbouring phases agree" if rule.joined > rule.phase else ""
        idle = "; an idle phase costs a beat" if rule.idle else ""
        terminal.line(f"{name:<22}phases of {rule.phase} lanes{joins}; {COUNTED[rule.passes]}{idle}")
    terminal.line(f"rule: {by.evidence}")
    terminal.line(f"confidence: {by.confidence}")
