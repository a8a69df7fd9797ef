"""Prices of opcodes: what the machine instructions of a kernel's loop cost, one by one, as values.

>>> from tcprobe.store.choose import default
>>> found = prices("sm_90", default())
>>> price_of("FFMA.FTZ", found) is price_of("FFMA", found)
True
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field

from tcprobe.store.choose import Layers
from tcprobe.store.finding import Sourced, how, source_words
from tcprobe.store.kinds.prices import Body

KIND = "prices"


@dataclass(frozen=True, repr=False)
class Price:
    """What an opcode costs on an arch, in cycles; `id` names the experiment, `body.covers` the opcodes it holds for.

    `latency` is by operand, None where no chain of it can be written; `interval` is of an SM at its best, so a
    sub-partition needs four times as long where all four are at work; `one_warp` is between two of one warp; `pipe`
    is the one that both need, or "issue".
    """

    id: str
    arch: str
    latency: Mapping[str, float | None]
    interval: float | None
    one_warp: float | None
    pipe: str
    evidence: str
    body: Body = field(repr=False)


def prices(name: str, layers: Layers) -> dict[str, Price]:
    """All prices that are measured on an arch, by id; empty where there is none. Contradicted ones are left out."""
    return {id_: _price(sourced) for id_, sourced in layers.findings(KIND, name).items() if not sourced.rivals}


def price_of(opcode: str, found: Mapping[str, Price]) -> Price | None:
    """The price that covers an opcode as nvdisasm prints it, such as `LDS.U.128`; None where there is none.

    Of several that cover it the one with the longest pattern.
    """
    covering = [
        (len(pattern), price)
        for price in found.values()
        for pattern in price.body.covers
        if fnmatch.fnmatchcase(opcode, pattern)
    ]
    return max(covering, key=lambda pair: pair[0])[1] if covering else None


def _price(sourced: Sourced) -> Price:
    finding = sourced.finding
    body, evidence = finding.body, f"{how(finding)} ({source_words(sourced.source)})"
    latency = {operand: body.latency.get(operand) for operand in ("a", "b", "c")}
    interval = body.interval.cycles if body.interval else None
    return Price(finding.subject, finding.arch, latency, interval, body.one_warp, body.pipe, evidence, body)
