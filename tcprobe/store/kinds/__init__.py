"""Kinds of findings: a module each, found by being here. A new kind is a file here and one of probes.

A module has `METHODS`, which can find it; `Body`, the shape of what is found (its JSON Schema follows); `check`,
which raises DataError for a body that has the shape and cannot be true of its subject and arch; `essence`, what of a
body two devices of one arch must agree on; and `words`, which says of all findings of an arch what was found. It may
have `WITHIN`, how far numbers of the essence may differ, `also`, what a number of it may be besides, and `doubt`, which
says of a body that contradicts the model.
The module's name is the kind's. A kind whose findings of an arch are one document has its own `read` and `save`.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from types import ModuleType
from typing import Annotated, Any

import msgspec

from tcprobe import plugins
from tcprobe.errors import DataError
from tcprobe.store.finding import Finding
from tcprobe.values import Json

MOST = 10**12  # more than a run can count
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
SwizzleBytes = Annotated[int, msgspec.Meta(ge=0, le=128, multiple_of=32)]  # of a descriptor's mode; 0 for none
NEEDS = ("METHODS", "Body", "check", "essence", "words")


@cache
def names() -> tuple[str, ...]:
    """All kinds but tables, sorted."""
    return plugins.module_names(__name__)


@cache
def kind(name: str) -> ModuleType:
    """The module of a kind; KeyError for a name that is none."""
    if name not in names():
        raise KeyError(name)
    return plugins.load(__name__, name, NEEDS)


def to_body(name: str, body: Json) -> Any:
    """Plain data as the kind's Body; DataError where it does not have that shape."""
    try:
        return msgspec.convert(body, kind(name).Body)
    except msgspec.ValidationError as error:
        raise DataError(f"not a body of {name}: {error}") from None


def check(finding: Finding) -> None:
    """DataError unless the finding can be true: its method, and what its kind says of its body."""
    rules = kind(finding.kind)
    if finding.method not in rules.METHODS:
        raise DataError(f"{finding.kind} cannot be found by method {finding.method}.")
    if finding.status == "measured":
        rules.check(finding)


def documented(name: str) -> bool:
    """Whether all findings of the kind on an arch are one document."""
    return hasattr(kind(name), "save")


def essence(finding: Finding) -> Any:
    """What of a finding two devices must agree on, as plain data: no counts, no timings."""
    return msgspec.to_builtins(kind(finding.kind).essence(finding.body))


def differences(first: Finding, other: Finding) -> list[tuple[str, object, object]]:
    """In what two findings of a subject disagree: (part, the first's, the other's), by name of the part.

    Measured numbers of a kind with `WITHIN` may differ by that, relative, and only one may have them; each may be
    what the kind's `also` says besides.
    """
    sides = [_leaves("", essence(finding)) for finding in (first, other)]
    rules = kind(first.kind)
    within, also = getattr(rules, "WITHIN", 0.0), getattr(rules, "also", None)
    besides: list[dict[str, list[float]]] = [{}, {}]
    if also and first.body is not None and other.body is not None:
        besides = [also(first.body, other.body), also(other.body, first.body)]

    def agree(part: str, a: object, b: object) -> bool:
        each = product((a, *besides[0].get(part, ())), (b, *besides[1].get(part, ())))
        return any(_alike(one, another, within) for one, another in each)

    pairs = [(part, sides[0].get(part), sides[1].get(part)) for part in dict.fromkeys((*sides[0], *sides[1]))]
    return [(part, a, b) for part, a, b in pairs if not agree(part, a, b)]


def doubt(finding: Finding) -> str | None:
    """Why a finding, as it says itself, contradicts the model of its kind; None where it does not."""
    judge = getattr(kind(finding.kind), "doubt", None)
    words: str | None = judge(finding.body) if judge else None
    return words


def _leaves(part: str, content: object) -> dict[str, object]:
    """The plain values of an essence by the way to them."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    leaves = {k: v for key, value in inner for k, v in _leaves(f"{part} {key}".strip(), value).items()}
    return leaves or {part: content}


def _alike(a: object, b: object, within: float) -> bool:
    if a == b or not within:
        return a == b
    if a is None or b is None:
        return isinstance(a or b, float)
    return isinstance(a, float) and isinstance(b, float) and abs(a - b) <= within * max(abs(a), abs(b))


def schema(name: str) -> Json:
    """The JSON Schema of a kind's body."""
    return msgspec.json.schema(kind(name).Body)
