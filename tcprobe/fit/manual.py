"""The PTX manual's names for parts of a lane's number, if formulas have these parts.

>>> from tcprobe.fit.formula import Formula, Term
>>> manual_names([Formula((Term("lane", 28, -2),), sizes=(32, 4)), Formula((Term("lane", 3, 1),), sizes=(32, 4))])
'groupID = lane >> 2, threadID_in_group = lane & 3'
"""

from __future__ import annotations

from collections.abc import Iterable

from tcprobe.fit.formula import Formula, Term

_GROUP, _MEMBER = Term("lane", 28, -2), Term("lane", 3)  # in the manual %laneid >> 2 and %laneid % 4


def manual_names(formulas: Iterable[Formula | None]) -> str:
    """groupID and threadID_in_group with their definitions, if the formulas have them; empty without a groupID.

    Bits 0 and 1 of a lane alone are not threadID_in_group: there the manual has other groups (m8n8k4 with f16).
    """
    some = [formula for formula in formulas if formula]
    masks = {term.mask for formula in some for term in formula.terms if isinstance(term, Term) and _of_lane(term)}
    if _GROUP.mask not in masks:
        return ""
    bits = max(formula.bits.get("lane", 0) for formula in some) or None
    named = {"groupID": _GROUP} | ({"threadID_in_group": _MEMBER} if _MEMBER.mask in masks else {})
    return ", ".join(
        f"{name} = {Formula((term,)).text({'lane': bits} if bits else {})}" for name, term in named.items()
    )


def in_manual(formulas: Iterable[Formula | None]) -> str:
    """As `manual_names`, as a sentence."""
    names = manual_names(formulas)
    return f"In the PTX manual's words: {names}." if names else ""


def _of_lane(term: Term) -> bool:
    return term.variable == "lane"
