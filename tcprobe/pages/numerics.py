"""The page of what multiplies compute: a table of parameters, forms of the same arithmetic together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.arithmetic.forms import subject
from tcprobe.arithmetic.parameters import BEFORE, Arithmetic
from tcprobe.isa import inventory
from tcprobe.isa.operand import MATRICES
from tcprobe.pages.tables import MADE, code
from tcprobe.references.numerics import published_row
from tcprobe.store.choose import alone
from tcprobe.store.finding import Finding
from tcprobe.store.kinds.numerics import words
from tcprobe.store.results import Results
from tcprobe.text import markdown

KIND = "numerics"
HEAD = ("form", "products a sum", "F", "result", "C", "wrong of cases", "published")
ENDS = ("form", "least exponent", "NaN", "beyond the largest", "all -0", "subnormals", "otherwise")
WHOLE = ("form of integers", "beyond 32 bits", "with .satfinite", "cases", "wrong")


def page(results: Results) -> Iterator[str]:
    """A section an arch: floats by parameters, then integers."""
    yield from (MADE, "# What multiplies compute", "")
    yield (
        "Measured by `tcprobe run --family numerics`. *Products a sum*: how many one sum adds; each term is cut "
        "toward zero"
    )
    yield "to a multiple of 2^(top - F), and the result rounded once. Forms that differ in m, n and layout are one row."
    layers = alone(results)
    for name in results.archs():
        findings = [sourced.finding for sourced in layers.findings(KIND, name).values() if not sourced.rivals]
        if findings:
            yield from ("", f"## {name}", "", markdown(words(findings)) + ".", "")
            yield from _table([finding for finding in findings if finding.body.floats])
            yield from _ends([finding for finding in findings if finding.body.floats])
            yield from _unfit([finding for finding in findings if finding.body.unfit])
            yield from _integers([finding for finding in findings if finding.body.integers])


def _table(findings: Sequence[Finding]) -> Iterator[str]:
    yield from (_row(HEAD), _row(["---"] * len(HEAD)))
    for finding in _in_order(findings):
        yield _row(
            [
                *code([finding.subject]),
                *parameters(finding.body.floats),
                f"{finding.body.wrong} of {finding.body.random}",
                _published_words(finding),
            ]
        )


def _ends(findings: Sequence[Finding]) -> Iterator[str]:
    """What becomes of terms and sums at the ends of the formats."""
    yield from ("", "A cell without a word: no case of the form can show it, or its types have no such number.", "")
    yield from (_row(ENDS), _row(["---"] * len(ENDS)))
    for finding in _in_order(findings):
        rule = finding.body.floats
        floor = "" if rule.exponent_floor is None else str(rule.exponent_floor)
        zero = "-0" if rule.negative_zero else "+0"
        yield _row(
            [
                *code([finding.subject]),
                floor,
                rule.nan or "several",
                rule.overflow or "",
                zero,
                _subnormals(rule),
                _otherwise(rule),
            ]
        )


def _subnormals(arithmetic: Arithmetic) -> str:
    """The operands whose subnormals count, and those whose do not."""
    handling = {name: getattr(arithmetic.subnormals, name) for name in MATRICES}
    count, lost = ("".join(name for name, value in handling.items() if value is kept) for kept in (True, False))
    return " ".join(filter(None, (count.upper(), f"not {lost.upper()}" if lost else "")))


def _otherwise(arithmetic: Arithmetic) -> str:
    """Operands that are not read as they are stored, and sums that are not of D's type."""
    unread = f"low {arithmetic.unread_bits} bits of A, B unread" if arithmetic.unread_bits else ""
    normal = f"{', '.join(arithmetic.normalized).upper()} normalized" if arithmetic.normalized else ""
    through = f"sums are f32, {arithmetic.through_f32}" if arithmetic.through_f32 else ""
    first = f"{arithmetic.summed_first} products summed first" if arithmetic.summed_first > 1 else ""
    return "; ".join(filter(None, (unread, normal, through, first)))


def _unfit(findings: Sequence[Finding]) -> Iterator[str]:
    """Forms that no parameters describe, and why."""
    if findings:
        yield ""
    yield from (
        f"- {code([finding.subject])[0]} has no model: {markdown(finding.body.unfit)}"
        for finding in _in_order(findings)
    )


def parameters(arithmetic: Arithmetic) -> list[str]:
    """Products a sum, F, the result and what C is, as the page has them."""
    sizes = [len(group) for group in arithmetic.groups]
    exact = arithmetic.fraction_bits is None
    single = f"1, in f32: {' + '.join(map(str, sizes))}" if arithmetic.c == BEFORE else "1, fused"
    groups = single if exact else str(sizes[0]) if len(sizes) == 1 else " + ".join(map(str, sizes))
    result = f"{arithmetic.result_bits} bits, {arithmetic.rounding}"
    return [groups, "" if exact else str(arithmetic.fraction_bits), result, arithmetic.c]


def _published_words(finding: Finding) -> str:
    """What others say of the chip: products and F, where they speak of such an instruction."""
    row = inventory.instructions()[finding.subject]
    published = published_row(row, finding.arch)
    if published is None or row.family not in published.families:
        return ""
    return " ".join(
        f"{name} {value}" for name, value in (("K", published.products), ("F", published.fraction_bits)) if value
    )


def _integers(findings: Sequence[Finding]) -> Iterator[str]:
    yield from ("", _row(WHOLE), _row(["---"] * len(WHOLE)))
    for finding in _in_order(findings):
        rule, body = finding.body.integers, finding.body
        yield _row([*code([finding.subject]), rule.overflow, rule.satfinite or "", str(body.random), str(body.wrong)])


def _in_order(findings: Sequence[Finding]) -> list[Finding]:
    """In the order of the inventory."""
    order = {subject(row): n for n, row in enumerate(inventory.instructions().values()) if _measurable(row.id)}
    return sorted(findings, key=lambda finding: order.get(finding.subject, len(order)))


def _measurable(id_: str) -> bool:
    row = inventory.instructions()[id_]
    return row.multiplies and not row.unprobed


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"
