"""Verdicts, and what formulas have of the PTX manual's names, as `show` and other commands print them."""

from __future__ import annotations

from collections.abc import Iterable

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, Verdict
from tcprobe.fit import Formula
from tcprobe.fit.formula import manual_names
from tcprobe.question.wrapping import BAD, DOUBT, GOOD, LESS, Style, line

STYLE: dict[str, Style] = {
    CONFIRMED: GOOD,
    DIFFERS: BAD,
    NOT_COVERED: LESS,
    "measured": GOOD,
    "refused": DOUBT,
    "failed": BAD,
}


def named_parts(formulas: Iterable[Formula | None]) -> None:
    """What the PTX manual calls the parts of a lane's number that formulas have."""
    if names := manual_names(formulas):
        line(f"  {names}")


def verdict_line(verdict: Verdict) -> None:
    """What a reference says of a table, and why it is known to be wrong where it is."""
    words = f"{verdict.verdict} ({verdict.detail})"
    line(f"{verdict.reference}: {words}", verdict.verdict, **STYLE[verdict.verdict])
    if verdict.erratum:
        line(f"  stated erratum: {verdict.erratum}")
