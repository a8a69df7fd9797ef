"""The page of what multiplies compute: a table of parameters, forms of the same arithmetic together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.arithmetic.forms import subject, types
from tcprobe.arithmetic.parameters import Arithmetic
from tcprobe.isa import inventory
from tcprobe.pages.tables import MADE, code
from tcprobe.references.numerics import published
from tcprobe.store.choose import alone
from tcprobe.store.finding import Finding
from tcprobe.store.kinds.numerics import words
from tcprobe.store.results import Results
from tcprobe.text import markdown

KIND = "numerics"
HEAD = ("form", "products a sum", "F", "result", "C", "wrong of cases", "published")
WHOLE = ("form of integers", "beyond 32 bits", "with .satfinite", "cases", "wrong")


def page(results: Results) -> Iterator[str]:
    """A section an arch: floats by parameters, then integers."""
    yield from (MADE, "# What multiplies compute", "")
    yield "Measured by `tcprobe run --family numerics`. A sum takes in so many products; each term is cut toward zero"
    yield "to a multiple of 2^(top - F), and the result rounded once. Forms that differ in m, n and layout are one row."
    layers = alone(results)
    for name in results.archs():
        found = [one.finding for one in layers.findings(KIND, name).values()]
        if found:
            yield from ("", f"## {name}", "", markdown(words(found)) + ".", "")
            yield from _table([one for one in found if one.body.floats])
            yield from _unfit([one for one in found if one.body.unfit])
            yield from _integers([one for one in found if one.body.integers])


def _table(found: Sequence[Finding]) -> Iterator[str]:
    yield from (_row(HEAD), _row(["---"] * len(HEAD)))
    for finding in _sorted(found):
        yield _row([*code([finding.subject]), *parameters(finding.body.floats),
                    f"{finding.body.wrong} of {finding.body.random}", _published(finding)])  # fmt: skip


def _unfit(found: Sequence[Finding]) -> Iterator[str]:
    """Forms that no parameters describe, and why."""
    if found:
        yield ""
    yield from (f"- {code([one.subject])[0]} has no model: {markdown(one.body.unfit)}" for one in _sorted(found))


def parameters(rule: Arithmetic) -> list[str]:
    """Products a sum, F, the result and what C is, as the page has them."""
    sizes = [len(group) for group in rule.groups]
    exact = rule.fraction_bits is None
    groups = "1, fused" if exact else str(sizes[0]) if len(sizes) == 1 else " + ".join(map(str, sizes))
    result = f"{rule.result_bits} bits, {rule.rounding}"
    return [groups, "" if exact else str(rule.fraction_bits), result, rule.c]


def _published(finding: Finding) -> str:
    """What others say of the chip: products and F, where they speak of such an instruction."""
    row = inventory.instructions()[finding.subject]
    said = published(types(row).a, finding.arch, row.family)
    if said is None or row.family not in said.families:
        return ""
    return " ".join(f"{name} {value}" for name, value in (("K", said.products), ("F", said.fraction_bits)) if value)


def _integers(found: Sequence[Finding]) -> Iterator[str]:
    yield from ("", _row(WHOLE), _row(["---"] * len(WHOLE)))
    for finding in _sorted(found):
        rule, body = finding.body.integers, finding.body
        yield _row([*code([finding.subject]), rule.overflow, rule.satfinite or "", str(body.random), str(body.wrong)])


def _sorted(found: Sequence[Finding]) -> list[Finding]:
    """In the order of the inventory."""
    order = {subject(row): n for n, row in enumerate(inventory.instructions().values()) if _measurable(row.id)}
    return sorted(found, key=lambda finding: order.get(finding.subject, len(order)))


def _measurable(id_: str) -> bool:
    row = inventory.instructions()[id_]
    return row.multiplies and not row.unprobed and not row.scales


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
