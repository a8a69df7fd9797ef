"""`tcprobe banks`: bank conflicts of addresses, of patterns by the thousand, and of a tile with all its accesses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.cli.path_steps import MAJOR
from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import (
    ARCHS,
    JSON,
    PLACE,
    SWIZZLE,
    ElementType,
    Given,
    Named,
    fragment_names,
    given,
    place_text,
    print_notes,
    read_results,
)

if TYPE_CHECKING:  # brings NumPy along
    from typing import Unpack

    from tcprobe.ask.bank_patterns import Pattern
    from tcprobe.ask.bank_rules import BankRules
    from tcprobe.cli.requests import BanksRequest
    from tcprobe.layout.banks import Cost
    from tcprobe.store.cell import Cell

    Rules = Callable[[str | None], BankRules]

_ACCESS = re.compile(r"(ld|st|atom|red)\.shared\.|(ld|st)matrix\.|cp\.async\.")
# what decides the form of the command, and what else goes with it
FORMS = {
    "size": {"fragment", "type_", "contiguous", "access", "placed", "swizzle", "proposes", "explain"},
    "address": {"source", "access", "explain"},
    "patterns": {"explain"},
    "rule": set[str](),
}
COUNTED = {
    "words": "the most words in a bank",
    "lanes": "the most lanes in a bank",
    "order": "lanes one by one, each after earlier lanes that use its bank",
}
ALWAYS = {"name", "folder", "only", "as_json"}


class Accesses(click.Command):
    """A command whose --with takes all accesses that follow it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Every access gets a --with of its own."""
        spread: list[str] = []
        for arg in args:
            follows = _ACCESS.match(arg) and spread[-2:-1] == ["--with"]
            spread += ["--with", arg] if follows else arg.split("=", 1) if arg.startswith("--with=") else [arg]
        return super().parse_args(ctx, spread)


@click.command(cls=Accesses, short_help="Bank conflicts in shared memory, and what avoids them.")
@click.argument("fragment", nargs=-1, metavar="[FRAGMENT | ACCESS]", shell_complete=fragment_names)
@click.option(
    "--tile",
    "size",
    type=Given(),
    metavar="ROWSxCOLS",
    help="Size of the tile in shared memory, in FRAGMENT's rows and columns.",
)
@click.option("--type", "type_", type=ElementType(), metavar="T", help="Its element type. Default: FRAGMENT's.")
@MAJOR
@click.option(
    "--with",
    "access",
    multiple=True,
    type=Given(),
    metavar="ACCESS...",
    help="ld.shared.b64, st.shared.v4, ldmatrix.x4, ...: follows FRAGMENT's slots; OP@rows, OP@cols and "
    "cp.async.16 sweep the tile.",
)
@PLACE
@SWIZZLE
@click.option(
    "--propose", "proposes", is_flag=True, help="Find the smallest swizzle and padding for all accesses together."
)
@click.option(
    "--address", type=Given(), metavar="EXPR|@FILE", help="Addresses of 32 lanes: an expression in lane, or a file."
)
@click.option(
    "--source", type=Given(), metavar="EXPR|@FILE", help="With --address and cp.async.ca: the global addresses."
)
@click.option(
    "--patterns",
    type=Named(path_type=Path, dir_okay=False),
    metavar="FILE.jsonl",
    help='Many accesses, one per line: {"op": "ld.shared.b64", "address": [32 numbers or null]}. - is standard input.',
)
@click.option("--rule", is_flag=True, help="Print the rule for each access, with its evidence.")
@click.option("--explain", is_flag=True, help="With --json: also which lanes collide.")
@ARCHS
@read_results
@JSON
@click.pass_context
@named("fragment", count="one")
def banks(ctx: click.Context, /, **request: Unpack[BanksRequest]) -> None:
    """Count bank conflicts by the measured rule: wavefronts, and which lanes collide.

    It takes a tile with all its accesses (--tile, --with), the addresses of 32 lanes (--address, --with), or many
    patterns at once (--patterns). --rule shows the rule.
    """
    from tcprobe.ask.bank_rules import rules_for

    request["access"] = [name for text in request["access"] for name in text.split(",")]
    if access := _as_access(request["fragment"] or ""):
        request["fragment"], request["access"] = None, [access, *request["access"]]
        ctx.params["fragment"] = ()
    _check_form(ctx)

    @cache
    def rules(arch: str | None) -> BankRules:
        return rules_for(arch or request["name"], request["layers"])

    if request["size"] is not None:
        _tile(rules, request["size"], request)
    elif request["address"] is not None:
        _address(rules, request["address"], request)
    elif request["patterns"] is not None:
        _patterns(rules, request["patterns"], request)
    else:
        _rule(rules, request)


def _check_form(ctx: click.Context) -> None:
    """UsageError unless just one of the four forms was asked for, by options of its own."""
    options = {*given(), *(["fragment"] if ctx.params["fragment"] else [])}
    forms = sorted(options & set(FORMS))
    if len(forms) != 1:
        raise UsageError("give one of --tile, --address, --patterns and --rule.")
    extra = options - FORMS[forms[0]] - ALWAYS - {forms[0]}
    if extra:
        names = {p.name: p.opts[0] for p in ctx.command.params}
        words = ", ".join("FRAGMENT" if n == "fragment" else names[n] for n in names if n in extra)
        raise UsageError(f"{words} cannot be combined with {names[forms[0]]}.")


def _as_access(words: str) -> str | None:
    """The access that the words before the options name, as in `banks ldmatrix x4`; None for those of a fragment."""
    from tcprobe.ask.bank_access import parse_access

    name = ".".join(words.split())
    if not _ACCESS.match(f"{name}."):
        return None
    try:
        return parse_access(name).name
    except UsageError:
        return None


def _rule(rules: Rules, banks_request: BanksRequest) -> None:
    """Every access that the arch has: its phases, and what is counted in them."""
    from tcprobe.isa.arch import arch
    from tcprobe.isa.shared_memory import accesses

    by = rules(None)
    rows = {row.name: by.rule(row) for row in accesses().values() if row.target.on(arch(by.for_arch))}
    if banks_request["as_json"]:
        click.echo(json.dumps({"rule": by.to_json(), "accesses": {name: asdict(rule) for name, rule in rows.items()}}))
        return
    for name, rule in rows.items():
        joins = f"; {rule.joined} where neighbouring phases agree" if rule.joined > rule.phase else ""
        idle = "; an idle phase costs a beat" if rule.idle else ""
        wrapping.line(f"{name:<22}phases of {rule.phase} lanes{joins}; {COUNTED[rule.passes]}{idle}")
    wrapping.line(f"rule: {by.evidence}")
    wrapping.line(f"confidence: {by.confidence}")


def _patterns(rules: Rules, path: Path, banks_request: BanksRequest) -> None:
    from tcprobe.ask.bank_patterns import judge_patterns, read_patterns

    patterns = read_patterns(path)
    judgements = judge_patterns(patterns, rules)
    if banks_request["as_json"]:
        lines = [json.dumps(_answer(p, f, banks_request["explain"])) for p, f in zip(patterns, judgements, strict=True)]
    else:
        lines = [f"{p.row.name}: {cost}" for p, (cost, _) in zip(patterns, judgements, strict=True)]
        lines += [f"rule: {words}" for words in dict.fromkeys(by.evidence for _, by in judgements)]
        lines += dict.fromkeys(f"confidence: {by.confidence}" for _, by in judgements)
    click.echo("\n".join(lines), nl=bool(lines))


def _address(rules: Rules, address: str, banks_request: BanksRequest) -> None:
    from tcprobe.ask.bank_collisions import collision_lines, phases
    from tcprobe.ask.bank_patterns import check_pattern as pattern_of
    from tcprobe.ask.bank_patterns import judge_patterns, lanes_of
    from tcprobe.isa.shared_memory import access

    if len(banks_request["access"]) != 1:
        raise UsageError(f"--address needs exactly one access in --with; got {len(banks_request['access'])}.")
    row, source = access(banks_request["access"][0]), banks_request["source"]
    pattern = pattern_of(row, lanes_of(address), None if source is None else lanes_of(source))
    pattern = pattern._replace(arch=banks_request["name"])
    [judgement] = judge_patterns([pattern], rules)
    if banks_request["as_json"]:
        click.echo(json.dumps(_answer(pattern, judgement, banks_request["explain"])))
        return
    cost, by = judgement
    more = _looked_up(pattern, cost, by)
    waits = f"; {more['timed']} cycles with {more['lookups']} lookups of the source's lines" if more else ""
    wrapping.line(f"{row.name}: {cost}{waits}")
    wrapping.lines(collision_lines(phases(pattern, by.rule(row))))
    wrapping.line(f"rule: {by.evidence}")
    wrapping.line(f"confidence: {by.confidence}")


def _answer(pattern: Pattern, judgement: tuple[Cost, BankRules], explains: bool) -> dict[str, object]:
    """As JSON; the rule is named where it is not that of the arch asked for."""
    from tcprobe.ask.bank_collisions import phases

    cost, by = judgement
    plain = cost.to_json()
    if explains:
        plain |= _looked_up(pattern, cost, by)
        plain["phases"] = [phase.to_json() for phase in phases(pattern, by.rule(pattern.row))]
    return plain if by.for_arch == by.arch else {**plain, "rule": by.to_json()}


def _looked_up(pattern: Pattern, cost: Cost, by: BankRules) -> dict[str, int]:
    """Lookups of the lines of its sources, and the cycles with them, of an access that has both tags and sources."""
    from tcprobe.layout.banks import pattern_cost

    tags = by.tags.get(pattern.row.name)
    if tags is None or pattern.source is None:
        return {}
    lookups, cycles = pattern_cost(tags, pattern.address, pattern.source or (), cost.wavefronts)
    return {"lookups": lookups, "timed": cycles}


def _tile(rules: Rules, size: str, banks_request: BanksRequest) -> None:
    from tcprobe.ask.bank_access import parse_access, slots_of, walk
    from tcprobe.ask.tile import parse_shared, parse_tile
    from tcprobe.ask.tile_answer import answer

    if not banks_request["access"]:
        raise UsageError("no accesses are given; add them, for example --with cp.async.16 ldmatrix.x4.")
    cell = _fragment_cell(banks_request)
    if banks_request["type_"] is None and cell is None:
        raise UsageError("--tile needs the type of its elements: --type f16, or a FRAGMENT.")
    slots = slots_of(cell) if cell else None
    tile = parse_tile(size, banks_request["type_"] or (cell.fragment.type if cell else ""), banks_request["contiguous"])
    walks = [walk(parse_access(text), tile, slots) for text in banks_request["access"]]
    answered = answer(tile, parse_shared(place_text(banks_request)), walks, rules(None), banks_request["proposes"])
    if banks_request["as_json"]:
        click.echo(
            json.dumps({"fragment": slots.name if slots else None, **answered.to_json(banks_request["explain"])})
        )
    else:
        wrapping.lines(answered.in_words)


def _fragment_cell(banks_request: BanksRequest) -> Cell | None:
    """The fragment, where one is named."""
    from tcprobe.store.names import find_cell

    if not banks_request["fragment"]:
        return None
    cell, note = find_cell(banks_request["fragment"], banks_request["name"], banks_request["layers"])
    print_notes(note)
    return cell


COMMANDS = (banks,)
