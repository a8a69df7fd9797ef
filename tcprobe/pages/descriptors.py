"""The part of the overview on operands in shared memory: what was measured of their descriptors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from tcprobe.isa import inventory
from tcprobe.layout.descriptor import SWIZZLES
from tcprobe.pages.tables import grid
from tcprobe.store.choose import alone
from tcprobe.store.finding import Finding
from tcprobe.store.results import Results
from tcprobe.text import markdown
from tcprobe.values import Json

CaseJson = Json
WIDTHS = (16, 32, 8, 1)  # bits of an element


def sections(results: Results) -> Iterator[str]:
    """A section for each arch with descriptors."""
    for name in results.archs():
        findings = [sourced.finding for sourced in alone(results).findings("descriptors", name).values()]
        if findings:
            yield from _section(name, findings)


def _section(name: str, findings: Sequence[Finding]) -> Iterator[str]:
    provenance = {name: markdown(text) for name, text in findings[0].provenance.items()}
    products = [finding.body.products for finding in findings if finding.body.products]
    yield from ("", f"## Operands behind descriptors on {name}", "")
    measured_on = "Measured on {device}, driver {driver}, CUDA {cuda}.".format(**provenance)
    yield f"{measured_on} *Elements*: how many are where"
    yield (
        "`tcprobe show` says, out of all behind that many descriptors. *Ignored*: fields that made no difference. "
        "*Base*"
    )
    yield (
        "*offset*: of the descriptors that distinguish readings, those explained by subtracting it from the row of the"
    )
    count, wrong = (sum(getattr(p, name) for p in products) for name in ("products", "wrong"))
    yield f"pattern. {count} products of random matrices through random descriptors, predicted by these maps"
    yield f"and the register tables only: {wrong} wrong."
    yield ""
    groups: dict[tuple[str, ...], list[CaseJson]] = {}
    for case in sorted((finding.plain["case"] for finding in findings if finding.body.case), key=_place):
        family = inventory.instructions()[case["instruction"]].family
        key = (case["operand"], family, str(case["swizzle"] or "none"), ", ".join(case["ignored"]) or "-")
        groups.setdefault(key, []).append(case)
    heads = ["operand of", "swizzle", "major, bits", "descriptors", "elements", "ignored", "base offset"]
    yield from grid(heads, (_row(key, cases) for key, cases in groups.items()))


def _place(plain: CaseJson) -> tuple[int, str, str, int]:
    """Where a case stands: by family and width as the inventory has them, operand, major and swizzle."""
    family = inventory.instructions()[plain["instruction"]].family
    swizzle = list(SWIZZLES).index(plain["swizzle"])
    return _widths().index((family, plain["bits"])), plain["operand"], plain["major"], swizzle


@cache
def _widths() -> list[tuple[str, int]]:
    """Families with operands behind descriptors, and bits of their elements."""
    rows = inventory.instructions().values()
    return list(dict.fromkeys((row.family, operand.held.slot_bits) for row in rows for operand in row.described))


def _row(row_key: tuple[str, ...], row_cases: Sequence[CaseJson]) -> list[str]:
    operand, family, swizzle, ignored = row_key
    majors: dict[str, list[str]] = {}
    for case in row_cases:
        majors.setdefault(case["major"], []).append(str(case["bits"]))
    tried, agree, elements = (sum(case[name] for case in row_cases) for name in ("descriptors", "agree", "elements"))
    subtracted, distinguishing = (
        sum(case["base_offset"]["subtracted"][index] for case in row_cases) for index in (0, 1)
    )
    majors_text = "; ".join(f"{major}: {', '.join(bits)}" for major, bits in majors.items())
    agreeing, offsets = f"{agree} of {elements}", f"{subtracted} of {distinguishing}"
    return [f"{operand} of {family}", swizzle, majors_text, str(tried), agreeing, ignored, offsets]
