"""What the commands print that answer questions: where, trace, convert, verify. Nothing here takes long to import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from tcprobe.question import wrapping
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.ask.compare import Against
    from tcprobe.ask.convert import Conversion
    from tcprobe.ask.convert.stmatrix import StorePlan
    from tcprobe.ask.trace import Holder
    from tcprobe.run.backend import Device
    from tcprobe.run.verify import Verified
    from tcprobe.store.cell import Cell


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
    if cell.fragment.container:
        wrapping.line(cell.fragment.container)
    selector_text = "" if cell.selector is None else f" under selector {cell.selector}"
    wrapping.line(f"{cell.fragment.id}{selector_text} on {cell.arch}, {cell.evidence}", cell.fragment.id, bold=True)
    sure([cell])


def sure(cells: Iterable[Cell], aside: bool = False) -> None:
    """How sure an answer is that rests on these tables: the last line, on stderr if `aside`."""
    from tcprobe.ask.confidence import line
    from tcprobe.ask.table_confidence import least

    click.echo(line(least(cells)), err=aside)


def side_by_side(cells: Sequence[Cell]) -> None:
    """`show --arch a,b`: a line an arch, and which have one table."""
    from tcprobe.fit import fitted

    click.echo(wrapping.bold(cells[0].fragment.id))
    lines = [("arch", *cells[0].table.outputs, "layout", "known")]
    for cell in cells:
        texts = (str(formula) if formula else "no closed form" for formula in fitted(cell.table).formulas.values())
        lines.append((cell.arch, *texts, cell.table.id, cell.known))
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(text.ljust(size) for text, size in zip(line, wide, strict=True)).rstrip())
    count = len({cell.table.id for cell in cells})
    click.echo("the same table on all" if count == 1 else f"{count} different tables")


def conversion(converted: Conversion, aside: bool) -> None:
    """`convert`: what moves, the code, what it rests on; all but the code on stderr, and no code, if `aside`."""
    from tcprobe.ask.convert import words

    wrapping.lines(words.about(converted), err=aside)
    _code(converted.code, aside)
    wrapping.lines(words.rests_on(converted), err=aside)


def print_store(stored_tile: StorePlan, aside: bool) -> None:
    """`convert` to stmatrix, likewise."""
    from tcprobe.ask.convert import words

    wrapping.lines(words.about_stored(stored_tile), stored_tile.cell.fragment.id, aside)
    _code(stored_tile.code, aside)
    wrapping.lines(words.stored_rests_on(stored_tile), err=aside)


def _code(code: str | None, aside: bool) -> None:
    if code and not aside:
        click.echo(f"\n{code}\n")


def against(path: str, cell: Cell, comparison: Against) -> None:
    """`compare FILE.csv`: how many slots agree, the first that do not, and what it is compared with."""
    from tcprobe.ask.diagnosis import WORDS

    missing = (
        WORDS["missing"].format(comparison.not_stated, "; ".join(comparison.holes[:4])) if comparison.not_stated else ""
    )
    selector_text = "" if cell.selector is None else f", selector {cell.selector},"
    head = f"{escaped(path)} against {cell.fragment.id}{selector_text} on {cell.arch}"
    wrapping.line(f"{head}: {WORDS['agree'].format(comparison.agreed, comparison.given)}{missing}")
    for line in comparison.first:
        wrapping.line(f"  {line}")
    for words in comparison.diagnosis:
        wrapping.line("  " + WORDS["diagnosis"].format(words), "  diagnosis: ", bold=True)
    if comparison.diagnosis:
        wrapping.line("  " + WORDS["cured"])
    if comparison.elsewhere:
        wrapping.line("  " + WORDS["elsewhere"].format(", ".join(comparison.elsewhere)), "  this is: ", bold=True)
    if comparison.renumbered:
        wrapping.line("  " + WORDS["renumbered"])
    wrapping.line(cell.evidence)


def print_verdict(verdict: Verified) -> None:
    """`verify`: one multiply."""
    mark = click.style("ok   ", **wrapping.GOOD) if verdict.good else click.style("WRONG", **wrapping.BAD)
    words = [verdict.first] if not verdict.exact else []
    words += [verdict.floats.first] if verdict.floats and verdict.floats.wrong else []
    words += [f"never read: {o.upper()} i = {', '.join(map(str, i))}" for o, i in verdict.unread.items()]
    if verdict.expected not in (None, verdict.unread):
        words.append(f"the results list as never read: {verdict.expected}")
    words += ["a wrong layout goes unnoticed"] if not verdict.noticed else []
    case = verdict.case
    selector_text = "" if case.selector is None else f" selector {case.selector}"
    placed = f" ({case}; swizzles {', '.join(str(s or 'none') for s in case.swizzles)})" if case.shared else ""
    click.echo(f"{mark} {case.instruction.id}{selector_text}{placed}" + (f": {'; '.join(words)}" if words else ""))


def verified_all(device: Device, verdicts: Sequence[Verified], others: int, without_table: int) -> None:
    """The counts at the end of `verify`; `others` are forms of other archs, `without_table` those that lack one."""
    exact, noticed = (sum(getattr(v, name) for v in verdicts) for name in ("exact", "noticed"))
    click.echo(
        f"{wrapping.bold(escaped(device.name))} ({device.arch}): D is exact in {exact} of {len(verdicts)} multiplies; "
        f"a wrong layout of A was noticed in {noticed}; {_by_model(verdicts)}tables: "
        f"{escaped(', '.join(dict.fromkeys(v.source for v in verdicts)))}"
    )
    if others:
        click.echo(f"{device.arch} does not have {others} other forms", err=True)
    if without_table:
        click.echo(f"{without_table} forms lack a table on {device.arch}: `tcprobe run` measures them", err=True)


def _by_model(verdicts: Sequence[Verified]) -> str:
    """Of random floats, how many results are the model's bits; nothing where no form has a model."""
    floats = [verdict.floats for verdict in verdicts if verdict.floats]
    count, wrong = sum(f.results for f in floats), sum(f.wrong for f in floats)
    return f"of random floats {count - wrong} of {count} results have the model's bits; " if floats else ""
