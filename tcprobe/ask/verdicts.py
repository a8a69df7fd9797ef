"""Verdicts, and what formulas have of the PTX manual's names, in words with their styles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, Verdict
from tcprobe.fit import Formula
from tcprobe.fit.formula import manual_names
from tcprobe.question.wrapping import BAD, DOUBT, GOOD, LESS, Style, Styled

STYLE: dict[str, Style] = {
    CONFIRMED: GOOD,
    DIFFERS: BAD,
    NOT_COVERED: LESS,
    "measured": GOOD,
    "refused": DOUBT,
    "failed": BAD,
}


def named_parts(formulas: Iterable[Formula | None]) -> list[str]:
    """What the PTX manual calls the parts of a lane's number that formulas have: a line, or none."""
    return [f"  {names}"] if (names := manual_names(formulas)) else []


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """What a reference says of a table, and why it is known to be wrong where it is."""
    words = f"{verdict.verdict} ({verdict.detail})"
    yield Styled(f"{verdict.reference}: {words}", verdict.verdict, **STYLE[verdict.verdict])
    if verdict.erratum:
        yield f"  stated erratum: {verdict.erratum}"
