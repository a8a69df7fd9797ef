"""What the commands print that answer questions: where, trace, convert, verify. Nothing here takes long to import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from tcprobe.cli import wrapping
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.ask.compare import Against
    from tcprobe.ask.convert import Conversion
    from tcprobe.ask.convert.stmatrix import StorePlan
    from tcprobe.ask.plan_cost import PlanCycles
    from tcprobe.ask.trace import Holder, Meeting, Trace
    from tcprobe.run.backend import Device
    from tcprobe.run.verify import Verified
    from tcprobe.store.cell import Cell


def bold(text: str) -> str:
    """Text that stands out on a terminal."""
    return click.style(text, bold=True)


def holders(cell: Cell, holders: Sequence[Holder], by_lane: bool) -> None:
    """`where`: a line an element, or a line a slot; then what it rests on."""
    name = cell.fragment.operand.upper()
    if by_lane:
        for holder in holders:
            click.echo(f"{holder}: {name}{holder.element}")
    else:
        lines: dict[str, list[str]] = {}
        for holder in holders:
            lines.setdefault(holder.element, []).append(str(holder))
        for element, texts in lines.items():
            click.echo(f"{name}{element}: {'; '.join(texts)}")
    chosen = "" if cell.selector is None else f" under selector {cell.selector}"
    wrapping.line(f"{cell.fragment.id}{chosen} on {cell.arch}, {cell.evidence}", cell.fragment.id, bold=True)
    sure([cell])


def sure(cells: Iterable[Cell], aside: bool = False) -> None:
    """How sure an answer is that rests on these tables: the last line, on stderr if `aside`."""
    from tcprobe.ask.confidence import line
    from tcprobe.ask.table_confidence import least

    click.echo(line(least(cells)), err=aside)


def side_by_side(cells: Sequence[Cell]) -> None:
    """`show --arch a,b`: a line an arch, and which have one table."""
    from tcprobe.fit import fitted

    click.echo(bold(cells[0].fragment.id))
    lines = [("arch", *cells[0].table.outputs, "layout", "known")]
    for cell in cells:
        texts = (str(formula) if formula else "no closed form" for formula in fitted(cell.table).formulas.values())
        lines.append((cell.arch, *texts, cell.table.id, cell.known))
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(text.ljust(size) for text, size in zip(line, wide, strict=True)).rstrip())
    count = len({cell.table.id for cell in cells})
    click.echo("the same table on all" if count == 1 else f"{count} different tables")


def trace(trace: Trace) -> None:
    """`trace`: the slots on both sides, a line for each product of A and B, and what it rests on."""
    wrapping.line(f"{trace.about} in {trace.instruction.id} on {trace.arch}", trace.about, bold=True)
    if trace.d:
        click.echo(f"  held by {_slots(trace, 'd', trace.d)}; adds C: {_slots(trace, 'c', trace.c)}")
    lines = [
        (
            f"A{m.a[0].element}",
            _slots(trace, "a", m.a) + _by(trace, m),
            _rows(m),
            _slots(trace, "b", m.b),
            f"D{m.d[0].element}",
            _slots(trace, "d", m.d),
        )
        for m in trace.meetings
    ]
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for a, a_slots, b, b_slots, d, d_slots in lines:
        left = f"{a:<{wide[0]}} {a_slots:<{wide[1]}}  x  {b:<{wide[2]}} {b_slots:<{wide[3]}}"
        click.echo(f"  {left}  ->  {d:<{wide[4]}} {d_slots}".rstrip())
    if "e" in trace.operands:
        wrapping.line(f"selector {trace.operands['e'].selector}; B for each index; the field of E picks one")
    for evidence in dict.fromkeys(cell.evidence for cell in trace.operands.values()):
        wrapping.line(evidence)
    sure(trace.operands.values())


def conversion(answer: Conversion, aside: bool) -> None:
    """`convert`: what is tiled how, what has to move, what it costs; all that on stderr, and no code, if `aside`."""
    from tcprobe.code.origin import origin

    tiles, say = answer.tiling, partial(wrapping.line, err=aside)
    turned = ", transposed" if tiles.transpose else ""
    say(f"{tiles.rows} x {tiles.cols} on {tiles.source.arch}")
    for head, count, cell, note in (
        ("from", tiles.source_tiles, tiles.source, ""),
        ("to  ", tiles.target_tiles, tiles.target, turned),
    ):
        size = f"{cell.fragment.rows} x {cell.fragment.cols} of {cell.fragment.type}"
        say(f"  {head} {count} x {bold(cell.fragment.id)}, {size}{note}")
    say(answer.summary + (f" ({answer.reason})" if answer.reason else ""))
    if answer.plan and answer.fills:
        say(answer.fills)
    if answer.plan:
        fewest = (
            "; no exchange of 32-bit words needs fewer shuffles" if answer.fewest and "shuffle" in answer.costs else ""
        )
        say(f"per lane: {answer.words}{fewest}")
        _say_cycles(say, {"moves between lanes": answer.cycles} if answer.costs else {})
    if tiles.order:
        say(f"order of k: {' '.join(map(str, tiles.order))}")
        say("  position p of this factor holds the k at position p of this list; the other factor needs the same order")
    if answer.load:
        row, col = (answer.load[name] or "no closed form" for name in ("row", "col"))
        say(f"  {answer.load['id']}: load i of a lane from row {row}, column {col}")
    if answer.plan and not aside:
        click.echo(f"\n{answer.code}\n")
    for words in dict.fromkeys(map(origin, (tiles.source, tiles.target))):
        say(words)
    sure([tiles.source, tiles.target], aside)


def _say_cycles(say: Callable[[str], None], cycles: Mapping[str, PlanCycles]) -> None:
    from tcprobe.ask.plan_cost import cycle_lines

    for line in cycle_lines(cycles):
        say(f"cycles, {line}")


def stored(answer: StorePlan, aside: bool) -> None:
    """`convert` to stmatrix: the tile, what happens in registers, the addresses; on stderr, and no code, if `aside`."""
    from tcprobe.code.cuda import holder, of_holder
    from tcprobe.code.origin import of_tables

    say, tile, cell = partial(wrapping.line, err=aside), answer.tile, answer.cell
    say(f"{bold(cell.fragment.id)} on {cell.arch}, {cell.fragment.rows} x {cell.fragment.cols} of {cell.fragment.type}")
    say(
        f"into {tile.rows} x {tile.cols} of {tile.type} in shared memory, {tile.contiguous}s contiguous, "
        f"{answer.shared.words(tile).removeprefix('lines ')}, {answer.shared}: {answer.shared.bytes(tile)} bytes, "
        f"start aligned to {answer.alignment}"
    )
    say(answer.conversion.summary + f"; per lane: {answer.conversion.words}")
    say(f"{len(answer.addresses)} x {answer.ptx}: {answer.wavefronts} wavefronts for all warps, ideal {answer.ideal}")
    _say_cycles(say, {answer.access: answer.cycles})
    threads = cell.fragment.threads
    said = of_holder(str(answer.formula), threads) if answer.formula else "no closed form"
    click.echo(f"  byte of {holder(threads)} 0 to {threads - 1}: {said}", err=aside)
    say("  issue, warp: bytes of its lanes")
    for issue, row in enumerate(answer.addresses.tolist()):
        for warp in range(len(row) // 32):
            given = [str(at) for at in row[32 * warp : 32 * warp + 32] if at >= 0]
            click.echo(f"  {issue:3} {warp}: {' '.join(given)}", err=aside)
    if not aside:
        click.echo(f"\n{answer.conversion.code}\n")
    for words in answer.evidence:
        say(of_tables(words))
    sure([cell], aside)


def against(path: str, cell: Cell, answer: Against) -> None:
    """`compare FILE.csv`: how many slots agree, the first that do not, and what it is compared with."""
    from tcprobe.ask.diagnosis import WORDS

    missing = WORDS["missing"].format(answer.not_stated, "; ".join(answer.holes[:4])) if answer.not_stated else ""
    chosen = "" if cell.selector is None else f", selector {cell.selector},"
    head = f"{escaped(path)} against {cell.fragment.id}{chosen} on {cell.arch}"
    wrapping.line(f"{head}: {WORDS['agree'].format(answer.agreed, answer.given)}{missing}")
    for line in answer.first:
        wrapping.line(f"  {line}")
    for words in answer.diagnosis:
        wrapping.line("  " + WORDS["diagnosis"].format(words), "  diagnosis: ", bold=True)
    if answer.diagnosis:
        wrapping.line("  " + WORDS["cured"])
    if answer.elsewhere:
        wrapping.line("  " + WORDS["elsewhere"].format(", ".join(answer.elsewhere)), "  this is: ", bold=True)
    if answer.renumbered:
        wrapping.line("  " + WORDS["renumbered"])
    wrapping.line(cell.evidence)


def verified(verdict: Verified) -> None:
    """`verify`: one multiply."""
    mark = click.style("ok   ", **wrapping.GOOD) if verdict.good else click.style("WRONG", **wrapping.BAD)
    words = [verdict.first] if not verdict.exact else []
    words += [verdict.floats.first] if verdict.floats and verdict.floats.wrong else []
    words += [f"never read: {o.upper()} i = {', '.join(map(str, i))}" for o, i in verdict.unread.items()]
    if verdict.expected not in (None, verdict.unread):
        words.append(f"the results list as never read: {verdict.expected}")
    words += ["a wrong layout goes unnoticed"] if not verdict.noticed else []
    case = verdict.case
    chosen = "" if case.selector is None else f" selector {case.selector}"
    placed = f" ({case}; swizzles {', '.join(str(s or 'none') for s in case.swizzles)})" if case.shared else ""
    click.echo(f"{mark} {case.instruction.id}{chosen}{placed}" + (f": {'; '.join(words)}" if words else ""))


def verified_all(device: Device, verdicts: Sequence[Verified], others: int, untold: int) -> None:
    """The counts at the end of `verify`; `untold` forms have tables that nobody says."""
    exact, noticed = (sum(getattr(v, name) for v in verdicts) for name in ("exact", "noticed"))
    click.echo(
        f"{bold(escaped(device.name))} ({device.arch}): D is exact in {exact} of {len(verdicts)} multiplies; "
        f"a wrong layout of A was noticed in {noticed}; {_by_model(verdicts)}tables: "
        f"{escaped(', '.join(dict.fromkeys(v.source for v in verdicts)))}"
    )
    if others:
        click.echo(f"{device.arch} does not have {others} other forms", err=True)
    if untold:
        click.echo(f"{untold} forms lack a table on {device.arch}: `tcprobe run` measures them", err=True)


def _by_model(verdicts: Sequence[Verified]) -> str:
    """Of random floats, how many results are the model's bits; nothing where no form has a model."""
    found = [verdict.floats for verdict in verdicts if verdict.floats]
    count, wrong = sum(one.results for one in found), sum(one.wrong for one in found)
    return f"of random floats {count - wrong} of {count} results have the model's bits; " if found else ""


def _by(trace: Trace, meeting: Meeting) -> str:
    """Which field of the metadata picks what A meets."""
    return f" by E {_slots(trace, 'e', meeting.e)}" if meeting.e else ""


def _rows(meeting: Meeting) -> str:
    """The element of B, or of a sparse multiply those that may be met."""
    if not meeting.k:
        return f"B{meeting.b[0].element}"
    return f"B[{'|'.join(map(str, meeting.k))}][{meeting.b[0].col}]"


def _slots(trace: Trace, operand: str, holders: Sequence[Holder]) -> str:
    """lane:i of every holder; one that the multiply never reads in parentheses."""
    texts = (f"{h.lane}:{h.i}" for h in holders)
    return " ".join(
        f"({t})" if (operand, h.lane, h.i) in trace.unread else t for t, h in zip(texts, holders, strict=True)
    )
