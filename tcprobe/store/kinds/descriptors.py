"""Where descriptors of shared memory lead: one finding for each operand, width, major and swizzle, and of products.

`descriptors` were measured; of their `elements` the formula of `layout.descriptor` says `agree`. `base_offset`: by
reading, how many of the descriptors that tell readings apart it explains. `ignored`: fields that made no difference.
A subject ID.products counts random matrices through random descriptors, and those that came out `wrong`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.layout.descriptor import SWIZZLES
from tcprobe.store.finding import Finding, makers
from tcprobe.store.kinds import Count, SwizzleBytes

METHODS = ("live",)
FIELDS, READINGS = {"lbo", "sbo", "base_offset", "start"}, {"subtracted", "added", "ignored"}
PRODUCTS = ".products"
ALL = "wgmma"  # in place of an instruction: earlier documents counted the products of all of them together


class CaseCounts(msgspec.Struct, forbid_unknown_fields=True):
    """Descriptors of an operand with one swizzle and one major."""

    operand: str
    bits: Annotated[int, msgspec.Meta(ge=1, le=64)]
    major: str
    swizzle: SwizzleBytes
    instruction: str
    descriptors: Count
    elements: Count
    agree: Count
    base_offset: dict[str, tuple[Count, Count]]
    ignored: list[str]


class ProductCounts(msgspec.Struct, forbid_unknown_fields=True):
    """Products, and those that are wrong."""

    products: Count
    wrong: Count


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One of the two."""

    case: CaseCounts | None = None
    products: ProductCounts | None = None


def subject(case: CaseCounts) -> str:
    """What a case is the case of."""
    return f"{case.instruction}.{case.operand}.{case.major}.{case.swizzle}"


def check(finding: Finding) -> None:
    """DataError unless it is of an operand behind a descriptor of the arch, with counts that can be."""
    body = finding.body
    id_ = body.case.instruction if body.case else finding.subject.removesuffix(PRODUCTS)
    row = inventory.instructions().get(id_)
    if id_ == ALL and body.products:
        row = next(row for row in inventory.instructions().values() if row.described)
    if row is None or not row.described or not row.target.on(arch(finding.arch)):
        raise DataError(f"{id_} has no operand behind a descriptor on {finding.arch}.")
    wanted = subject(body.case) if body.case else f"{id_}{PRODUCTS}"
    if (body.case is None) == (body.products is None) or finding.subject != wanted:
        raise DataError(f"{finding.subject}: its body is not that of its name.")
    if body.case and not _is_case(body.case):
        raise DataError(f"{finding.subject}: counts that cannot be, or another operand, major or swizzle.")
    if not (body.case.elements if body.case else body.products.products):
        raise DataError(f"{finding.subject}: nothing was tried.")
    if body.products and body.products.wrong > body.products.products:
        raise DataError(f"{finding.subject}: more wrong than tried.")


def _is_case(case: CaseCounts) -> bool:
    """Whether it is of an operand that the instruction has, under fields that descriptors have."""
    held = {operand.held.name: operand.held for operand in inventory.instructions()[case.instruction].described}
    known = case.operand in held and case.major in held[case.operand].majors and case.swizzle in SWIZZLES
    named = set(case.ignored) <= FIELDS and set(case.base_offset) == READINGS
    counted = all(right <= tried for right, tried in case.base_offset.values()) and case.agree <= case.elements
    return known and named and counted and case.bits == held[case.operand].slot_bits


def essence(body: Body) -> object:
    """Whether all is where the formula says."""
    if body.case:
        return {"where the formula says": body.case.agree == body.case.elements, "ignored": body.case.ignored}
    return {"every product right": body.products is not None and body.products.wrong == 0}


def doubt(body: Body) -> str | None:
    """How much is elsewhere than the formula says."""
    if body.case and body.case.agree < body.case.elements:
        return f"{body.case.elements - body.case.agree} of {body.case.elements} elements are not where the formula says"
    if body.products and body.products.wrong:
        return f"{body.products.wrong} of {body.products.products} products are wrong"
    return None


def words(findings: Sequence[Finding]) -> str:
    """How many descriptors, and how many elements lie where the formula says."""
    cases = [f.body.case for f in findings if f.body.case]
    count, agree, elements = (sum(getattr(c, key) for c in cases) for key in ("descriptors", "agree", "elements"))
    made = makers(findings)
    return f"{made}: {count} descriptors, {agree} of {elements} elements where the formula says"
