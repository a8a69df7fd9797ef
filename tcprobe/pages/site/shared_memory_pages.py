"""Pages of shared memory: swizzles drawn by bank, and the conflicts of an access phase by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import NamedTuple

from markupsafe import Markup

from tcprobe import facts as tables
from tcprobe.ask.banks.accesses import (
    TMA,
    UNTYPED,
    bits_of,
    parse_access,
    parse_shared,
    parse_tile,
    slots_of,
    swizzle_offset,
    walk,
)
from tcprobe.ask.banks.patterns import BankRules, Phase, rules_for
from tcprobe.ask.banks.tiles import TileCost, cost
from tcprobe.isa.dtypes import DTYPES
from tcprobe.isa.shared_memory import accesses
from tcprobe.pages.site import addresses, markup
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.markup import ListPart, View, colour, list_page
from tcprobe.values import Json

LINES, PIECE, LINE = 8, 16, 128  # lines that are drawn; bytes


class Access(NamedTuple):
    """An access to a tile, and the ways in which the tile may lie; `fragment` walks its slots."""

    name: str
    words: str
    size: str
    type: str
    contiguous: str
    access: str
    shared: tuple[str, ...]
    fragment: str | None


@cache
def shown_accesses() -> tuple[Access, ...]:
    """The accesses that have a page."""
    optional = tables.optional(str)
    return tables.read(__file__, "accesses.csv", Access, shared=tables.words, fragment=optional)


def shared_memory_pages(facts: Facts) -> list[View]:
    """All pages, their list first."""
    rules = rules_for(None, facts.layers)
    swizzles = [_swizzle(mode) for mode in TMA]
    there = [access for access in shown_accesses() if access.fragment is None or access.fragment in facts.facts]
    accesses = [_access(facts, access, rules) for access in there]
    parts = [
        ListPart("Swizzles", "swizzles", links=[(view.title, view.page) for view in swizzles]),
        ListPart("Accesses, phase by phase", "accesses", links=[(view.title, view.page) for view in accesses]),
    ]
    rule = "The lanes of an access form phases; a phase takes as many passes as its fullest bank has distinct words."
    words = f"Shared memory has 32 banks of 4 bytes. {rule} The rule is {rules.evidence}."
    about = "Swizzles by bank, and bank conflicts phase by phase"
    index = list_page("s/index.html", "Shared memory", about, [words], parts)
    return [index, *swizzles, *accesses]


def _swizzle(mode_name: str) -> View:
    b, m, s = TMA[mode_name]
    starts = range(0, LINE, PIECE)
    offsets = [[int(swizzle_offset(line * LINE + byte, TMA[mode_name])) for byte in starts] for line in range(LINES)]
    passes = max(Counter(row[0] // PIECE % 8 for row in offsets).values())
    heads = "".join(f"<th>{piece * PIECE}</th>" for piece in range(len(offsets[0])))
    cells = (
        "".join(f"<td class=c{o // PIECE % 8}>{o // 4 % 32}-{o // 4 % 32 + 3}</td>" for o in row) for row in offsets
    )
    rows = "".join(f"<tr><th>{number}</th>{text}</tr>" for number, text in enumerate(cells))
    context = {
        "words": f"Where the 16-byte pieces of each 128-byte line are in shared memory, over {LINES} lines.",
        "formula": f"Swizzle<{b},{m},{s}>: offset ^ ((offset >> {s}) & {((1 << b) - 1) << m:#x})",
        "grid": Markup(f"<thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody>"),
        "passes": "once" if passes == 1 else f"{passes} times",
        "command": f"tcprobe swizzle draw {mode_name} --extent 64,8 --bits 16",
    }
    page = addresses.shared_memory_page(f"swizzle {mode_name}")
    return View(page, "swizzle", mode_name, f"{mode_name} drawn by bank", context)


def _access(facts: Facts, shown_access: Access, rules: BankRules) -> View:
    size, type_, lines = shown_access.size, shown_access.type, shown_access.contiguous
    tile, parsed = parse_tile(size, type_, lines), parse_access(shown_access.access)
    slots = slots_of(facts.facts[shown_access.fragment].main) if shown_access.fragment else None
    walked = walk(parsed, tile, slots)
    cases = [_case(cost(walked, tile, parse_shared(how), rules), how) for how in shown_access.shared]
    named = f"{shown_access.fragment} " if shown_access.fragment else ""
    of_type = f"--type {type_} " if not shown_access.fragment else ""
    command = f"tcprobe banks {named}--tile {size} {of_type}--global {lines} --shared {shown_access.shared[0]}"
    command += f" --with {shown_access.access}"
    context = {"words": shown_access.words, "evidence": rules.evidence, "cases": cases, "command": command}
    title = f"{shown_access.access}: {shown_access.name}"
    return View(addresses.shared_memory_page(shown_access.name), "access", title, shown_access.words, context)


def _case(cost: TileCost, how: str) -> Json:
    head = f"{how}: {cost.wavefronts} wavefronts for {cost.instructions} instructions, at best {cost.ideal}"
    return {
        "head": head,
        "anchor": addresses.slug(how),
        "words": f"Instruction {cost.worst}, one of those that cost most.",
        "phases": [_phase(phase) for phase in cost.phases],
    }


def _phase(phase: Phase) -> Json:
    lanes = f"Lanes {phase.lanes[0]} to {phase.lanes[-1]}"
    passes = f"{phase.passes} pass{'es' if phase.passes != 1 else ''}"
    met = str(phase.collisions[0]) if phase.collisions else "no two lanes meet in a bank"
    return {"words": f"{lanes}: {passes}; {met}.", "grid": _meetings(phase)}


def _meetings(phase: Phase) -> Markup:
    """Passes by set of banks that several parties need, or the lanes, which are served together."""
    if not phase.collisions:
        cells = "".join(f"<td class=c{colour(lane)}>{lane}</td>" for lane in phase.lanes)
        return Markup(f"<tbody><tr><th>pass 0</th>{cells}</tr></tbody>")
    collisions = sorted(phase.collisions, key=lambda c: c.banks)[:16]
    heads = "".join(f"<th>{c.banks[0]}{f'-{c.banks[-1]}' if len(c.banks) > 1 else ''}</th>" for c in collisions)
    rows = "".join(_pass(number, [c.parties for c in collisions]) for number in range(phase.passes))
    return Markup(f"<thead><tr><th>banks</th>{heads}</tr></thead><tbody>{rows}</tbody>")  # numbers only


def _pass(number: int, by_banks: Sequence[Sequence[tuple[int, ...]]]) -> str:
    served = [parties[number] if number < len(parties) else () for parties in by_banks]
    classes = [f" class=c{colour(lanes[0])}" if lanes else "" for lanes in served]
    cells = "".join(f"<td{c}>{' '.join(map(str, lanes))}</td>" for c, lanes in zip(classes, served, strict=True))
    return f"<tr><th>pass {number}</th>{cells}</tr>"


PLAYED_SWIZZLES = ("1,4,3", "2,4,3", "3,4,3", "5,2,5", "32B", "64B", "128B")


def playground(facts: Facts) -> View:
    """The page."""
    rules = rules_for(None, facts.layers)
    types = {name: bits_of(name) for name in (*(d.name for d in DTYPES), *(f"b{n}" for n in UNTYPED))}
    by_access: Json = {
        name: {**asdict(rules.rule(row)), "bytes": row.bytes, "lanes": row.lanes} for name, row in accesses().items()
    }
    swept = [
        name if row.is_matrix else f"{name}@{order}"
        for name, row in accesses().items()
        for order in (("",) if row.is_matrix else ("rows",) if row.has_source else ("rows", "cols"))
    ]
    context = {
        "evidence": rules.evidence,
        "types": list(types),
        "swizzles": PLAYED_SWIZZLES,
        "accesses": swept,
        "data": markup.data({"kind": "banks", "types": types, "rules": by_access}),
    }
    about = "Swizzles and padding tried out, by the measured rule"
    return View(addresses.PLAYGROUND, "banks", "Bank conflicts of a tile", about, context)
