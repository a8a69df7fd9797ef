"""In which order a program sums products of one N and K, from the smallest to the largest M that was called.

Its subject names the program, its library, how many multiprocessors chose with it, the types, N and K, which lines are
contiguous, and to how many bytes they are aligned: `subject` puts it together. M is divided in ranges: within one the
order is the same, as far as `called` of its M show it by the bits of one row. Each range was proven on `elements` of D
at random M in it, of which `different` were otherwise than the order says, and `elsewhere` follow another one because
of their place in D; `changed` of the elements of that row have other bits than in the range before. `kernel` is the
name that a profiler gives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from tcprobe.arithmetic import order_text
from tcprobe.arithmetic.order import MOST_K, Order, nesting
from tcprobe.errors import DataError
from tcprobe.store.finding import Finding, makers
from tcprobe.store.kinds import Count

METHODS = ("live",)
MADE = "calls of programs (benchmarks): run those"
MOST_NESTED = 100  # of a published order
Side = Annotated[int, msgspec.Meta(ge=1, le=MOST_K)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Multiprocessors = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Place = Annotated[int, msgspec.Meta(ge=0, le=4096)]  # in a list
Contiguous = Literal["row", "col"]


class MRange(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Sizes of M with one order, the number of which is `order`."""

    first: Side
    last: Side
    order: Place
    called: Side
    elements: Count
    different: Count = 0
    changed: Count | None = None
    kernel: Annotated[str, msgspec.Meta(max_length=400)] | None = None
    elsewhere: Count = 0


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The program, the product, each order once, as ORDER.json has it, and the ranges of M."""

    call: Name
    library: Name
    multiprocessors: Multiprocessors
    types: tuple[str, str, str]
    n: Side
    k: Side
    a: Contiguous
    b: Contiguous
    alignment: Bytes
    orders: list[dict[str, Any]]
    ranges: list[MRange]


def subject(body: Body) -> str:
    """What the body is found of: `cupy.matmul.cublas-13.1.0.3.132.bf16.bf16.f32.n4096.k4096.row.row.16`."""
    parts = (
        body.call,
        body.library,
        str(body.multiprocessors),
        *body.types,
        f"n{body.n}",
        f"k{body.k}",
        body.a,
        body.b,
    )
    return ".".join([*(re.sub(r"[^a-z0-9_.]+", "-", part.lower()).strip("-") for part in parts), str(body.alignment)])


def orders(body: Body) -> list[Order]:
    """The orders; DataError where one is none."""
    return [order_text.from_json(each) for each in body.orders]


def check(finding: Finding) -> None:
    """DataError unless its orders are of the arch, the types and K, and its ranges of M ascend and were proven."""
    body: Body = finding.body
    if finding.subject != subject(body):
        raise DataError(f"{finding.subject} is not what its body is found of: {subject(body)}.")
    made = _checked_orders(finding)
    if not body.ranges or len(set(made)) < len(made) or {each.order for each in body.ranges} != set(range(len(made))):
        raise DataError(f"{finding.subject}: each order stands once, and is that of a range.")
    before = 0
    for each in body.ranges:
        if not before < each.first <= each.last or each.called > each.last - each.first + 1:
            raise DataError(f"{finding.subject}: ranges of M ascend, and no M is called twice.")
        if each.elements == 0 or each.different + each.elsewhere > each.elements or (each.changed or 0) > body.n:
            raise DataError(f"{finding.subject}: more elements differ than were compared, or none were.")
        if (each.changed is not None) != (before > 0):
            raise DataError(f"{finding.subject}: every range but the first says how many elements of a row change.")
        before = each.last


def _checked_orders(finding: Finding) -> list[Order]:
    body: Body = finding.body
    if any(set(each) != set(order_text.KEYS) for each in body.orders):
        raise DataError(f"{finding.subject}: an order has the keys {', '.join(order_text.KEYS)} alone.")
    made = orders(body)
    for order in made:
        if (order.arch, tuple(order.types), order.k) != (finding.arch, body.types, body.k):
            raise DataError(f"{finding.subject}: an order of another arch, of other types or another K.")
        if nesting(order.sum) > MOST_NESTED:
            raise DataError(f"{finding.subject}: an order nested more than {MOST_NESTED} deep.")
    return made


def essence(body: Body) -> object:
    """The ranges and their orders, as far as they give other bits."""
    made = [hash_of(order) for order in orders(body)]
    return {"ranges": [[each.first, each.last, made[each.order]] for each in body.ranges], "differs": doubt(body) or ""}


def hash_of(order: Order) -> str:
    """The content of an order, short."""
    from hashlib import sha256

    return sha256(repr(order.key).encode()).hexdigest()[:12]


def doubt(body: Body) -> str | None:
    """How many elements are otherwise than the orders say."""
    different, elements = (sum(getattr(each, name) for each in body.ranges) for name in ("different", "elements"))
    return f"{different} of {elements} elements do not follow its orders" if different else None


def words(findings: Sequence[Finding]) -> str:
    """What the orders of an arch rest on."""
    if not findings:
        return "no order was found"
    elements, different, elsewhere = (
        sum(getattr(each, name) for f in findings for each in f.body.ranges)
        for name in ("elements", "different", "elsewhere")
    )
    placed = f"; {elsewhere} follow another one because of their place in D" if elsewhere else ""
    return f"{makers(findings)}: {different} of {elements} elements do not follow their orders{placed}"
