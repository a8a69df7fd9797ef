"""What the commands print that answer questions: where, trace, convert, verify. Nothing here takes long to import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tcprobe.question import wrapping
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.run.backend import Device
    from tcprobe.run.verify import Verified


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
