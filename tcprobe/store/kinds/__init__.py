"""Kinds of findings: a module each, found by being here. A new kind is a file here and one of probes.

A module has `METHODS`, which can find it; `Body`, the shape of what is found (its JSON Schema follows); `check`,
which raises DataError for a body that has the shape and cannot be true of its subject and arch; `essence`, what of a
body two devices of one arch must agree on; and `words`, which says of all findings of an arch what was found. The
module's name is the kind's. A kind whose findings of an arch are one document has `read` and `save` of its own.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Annotated, Any, Literal

import msgspec

from tcprobe import plugins
from tcprobe.errors import DataError
from tcprobe.store.finding import Finding
from tcprobe.values import Json

MOST = 10**12  # more than a run can count
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
SwizzleBytes = Literal[0, 32, 64, 128]  # of a descriptor's mode; 0 for none
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


def schema(name: str) -> Json:
    """The JSON Schema of a kind's body."""
    return msgspec.json.schema(kind(name).Body)
