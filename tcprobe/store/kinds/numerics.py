"""What a multiply computes, one finding for all forms of one arithmetic: the parameters of the model, and its proof.

`directed` cases told the parameters; of `random` ones, nasty ones among them, `wrong` came out otherwise than the model
says, and `shown` has the first. `compared` results of the other `forms` were the same bits as the first form's. A form
of floats that no parameters describe has `unfit`, which says why; all of its cases count as wrong, and those shown have
no `model`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.parameters import Arithmetic, Integers, forms_alike, types_of
from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.store.finding import Finding, how
from tcprobe.store.kinds import Count

METHODS = ("live", "emulated")
WHAT = "measures the arithmetic of multiplies, bit by bit"


class WrongCase(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A dot product that does not follow the model: bits as hex, what came out, and what the model says.

    `scale_a` and `scale_b`: the scales of its blocks, where the form has any.
    """

    a: list[str]
    b: list[str]
    c: str
    d: str
    model: str | None
    scale_a: list[str] = []
    scale_b: list[str] = []


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What was found of an arithmetic."""

    forms: list[str]
    directed: Count
    random: Count
    wrong: Count
    compared: Count = 0
    floats: Arithmetic | None = None
    integers: Integers | None = None
    shown: list[WrongCase] = []
    unfit: str | None = None


def check(finding: Finding) -> None:
    """DataError unless it is an arithmetic that the subject's types and products can have."""
    row, body = inventory.instructions().get(finding.subject), finding.body
    rows = forms_alike(row.family).get(row.id) if row else None
    if rows is None or not rows[0].target.on(arch(finding.arch)):
        raise DataError(f"{finding.subject} is not a multiply of {finding.arch} whose arithmetic is measured.")
    if not set(body.forms) <= {row.id for row in rows} or finding.subject not in body.forms:
        raise DataError(f"{finding.subject}: forms of another arithmetic.")
    is_float = types_of(rows[0]).is_float
    fits = body.unfit is None
    if (body.floats is not None) != (is_float and fits) or (body.integers is None) != is_float:
        raise DataError(f"{finding.subject} needs the parameters of {'floats' if is_float else 'integers'}.")
    if body.floats and sorted(k for group in body.floats.groups for k in group) != list(range(rows[0].stored)):
        raise DataError(f"{finding.subject}: its groups are not its {rows[0].stored} products.")
    if body.floats and body.floats.result_bits > FORMATS[types_of(rows[0]).d].fraction:
        raise DataError(f"{finding.subject}: its results have more bits than D.")
    if not body.random:
        raise DataError(f"{finding.subject}: not one case was tried.")
    if not fits and body.wrong != body.random:
        raise DataError(f"{finding.subject} follows no parameters, but some of its cases are right.")
    if body.wrong > body.random or len(body.shown) > body.wrong:
        raise DataError(f"{finding.subject}: more cases are wrong than were tried.")


def essence(body: Body) -> object:
    """The parameters, and whether every case follows them."""
    rule: Arithmetic | Integers | None = body.floats or body.integers
    unfit = "no parameters" if body.unfit is not None else None
    return {**(msgspec.structs.asdict(rule) if rule else {"parameters": unfit}), "every case": body.wrong == 0}


def doubt(body: Body) -> str | None:
    """How many cases do not follow the parameters."""
    if body.unfit is not None:
        return f"no parameters describe it: {body.unfit}"
    return f"{body.wrong} of {body.random} cases do not follow its parameters" if body.wrong else None


def words(findings: Sequence[Finding]) -> str:
    """What the models of an arch rest on."""
    tried, wrong = (sum(getattr(f.body, name) for f in findings) for name in ("random", "wrong"))
    return f"{how(findings[0])}: {wrong} of {tried} cases do not follow the model"
