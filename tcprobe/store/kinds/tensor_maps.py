"""Tensor maps: where boxes lie in shared memory, and which maps the driver takes; what is known of an arch's.

A subject is a swizzle mode (`mode`: the rule of its boxes and what was followed of it; `maps`: how many maps of boxes
the driver took), "encodings" (`calls`: what the driver said of maps, their arguments varied one at a time), or
"misaligned.N" (`fault`: a box that lost the device).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from tcprobe.errors import DataError, UsageError
from tcprobe.isa.arch import arch
from tcprobe.isa.tensor_map import SWIZZLES
from tcprobe.layout.swizzle import Swizzle
from tcprobe.store.finding import Finding, how, is_number
from tcprobe.store.kinds import Count

if TYPE_CHECKING:
    from tcprobe.store.choose import Layers

METHODS = ("live",)
FIRST = 90  # arch with tensor maps
ENCODINGS, MISALIGNED = "encodings", "misaligned."
Pitch = Literal["row"] | Annotated[int, msgspec.Meta(gt=0, le=1 << 18)]
SwizzleBits = Annotated[int, msgspec.Meta(ge=0, le=64)]
BoxSide = Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]  # of a box, in elements
SharedAddress = Annotated[int, msgspec.Meta(ge=0, lt=1 << 18)]
Rank = Annotated[int, msgspec.Meta(ge=1, le=5)]
EncodedValue = Annotated[int, msgspec.Meta(ge=-(1 << 48), le=1 << 48)]  # refused ones are tried too


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes from row to row, or "row"; then the swizzle of the absolute address; how many boxes lie elsewhere."""

    pitch: Pitch
    swizzle: tuple[SwizzleBits, SwizzleBits, SwizzleBits]
    misfits: Count


class BoxRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A box, where it lies in shared memory, and what went wrong with it."""

    type: str
    box: list[BoxSide]
    swizzle: str
    base: SharedAddress
    words: str = ""
    direction: Literal["", "load", "store"] = ""
    result: str = ""


class ModeRule(Rule, forbid_unknown_fields=True, omit_defaults=True):
    """The rule of a mode, how many bytes of how many loads and stores were followed, and the rule that comes second."""

    bytes: Count
    loads: Count
    stores: Count
    types: list[str]
    widths: list[BoxSide]
    bases: list[SharedAddress]
    ranks: list[Rank]
    second: Rule
    lost: list[BoxRecord] = []


class EncodeCall(msgspec.Struct, forbid_unknown_fields=True):
    """A call of cuTensorMapEncodeTiled: what was varied, the result, the rules that it breaks, whether it fits them."""

    argument: str
    value: EncodedValue | list[EncodedValue]
    result: str
    rules: list[str]
    fits: bool


class MapCounts(msgspec.Struct, forbid_unknown_fields=True):
    """How many maps of boxes the driver took and refused, and those where the rules say otherwise."""

    taken: Count
    refused: Count
    unlike_rules: list[BoxRecord]


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Of a mode its rule, absent where the driver takes no map of it, and what it says of the maps of the mode's boxes;
    of "encodings" the calls; of a misaligned box what came of it.
    """

    mode: ModeRule | None = None
    maps: MapCounts | None = None
    calls: list[EncodeCall] | None = None
    fault: BoxRecord | None = None


def check(finding: Finding) -> None:
    """DataError unless the body is that of its subject, with rules and counts that can be."""
    body, subject = finding.body, finding.subject
    if arch(finding.arch).number < FIRST:
        raise DataError(f"{finding.arch} has no tensor maps; sm_{FIRST} is the first with them.")
    there = {name for name in ("mode", "maps", "calls", "fault") if getattr(body, name) is not None}
    if there not in _parts(subject):
        raise DataError(f"{subject}: no mode, encodings or misaligned box of tensor maps.")
    if body.mode:
        for rule in (body.mode, body.mode.second):
            try:
                Swizzle(*rule.swizzle)
            except UsageError as error:
                raise DataError(f"{subject}: {error}") from None
        if not body.mode.loads + body.mode.stores:
            raise DataError(f"{subject}: not one box was followed.")
        if body.mode.misfits > body.mode.loads + body.mode.stores:
            raise DataError(f"{subject}: more boxes are elsewhere than were followed.")


def _parts(subject: str) -> list[set[str]]:
    """What the body of a subject may have; an earlier document counted the maps of all modes with the calls."""
    if subject in SWIZZLES:
        return [{"mode"}, {"maps"}, {"mode", "maps"}]
    if subject == ENCODINGS:
        return [{"calls"}, {"calls", "maps"}]
    number = subject.removeprefix(MISALIGNED)
    return [{"fault"}] if subject != number and is_number(number) else []


def essence(body: Body) -> object:
    """The rule of a mode, and what the driver says."""
    mode = body.mode and {"pitch": body.mode.pitch, "swizzle": body.mode.swizzle, "follows": body.mode.misfits == 0}
    return {"mode": mode, "calls": body.calls, "fault": body.fault and body.fault.result}


def doubt(body: Body) -> str | None:
    """How many boxes, and maps, are not as the rules say."""
    if body.mode and body.mode.misfits:
        return f"{body.mode.misfits} of {body.mode.loads + body.mode.stores} boxes are not where the rule says"
    if body.maps and body.maps.unlike_rules:
        return f"the driver takes or refuses {len(body.maps.unlike_rules)} maps unlike the rules"
    return None


def words(findings: Sequence[Finding]) -> str:
    """How many bytes were followed, and how many boxes lie elsewhere than stated."""
    modes = [f.body.mode for f in findings if f.body.mode]
    count, misfits = (sum(getattr(mode, key) for mode in modes) for key in ("bytes", "misfits"))
    made = " and ".join(dict.fromkeys(f"{how(f)}, tcprobe {f.provenance['tcprobe']}" for f in findings))
    return f"boxes of tensor maps measured {made}: {count} bytes followed, {misfits} boxes elsewhere than stated"


KIND = "tensor_maps"
BORROWED, STATED = "sm_90", "documented by the CUDA driver API and PTX ISA"


def newest(layers: Layers, arch: str) -> dict[str, Finding]:
    """What was measured of an arch, by subject; empty where nothing was.

    NoMajorityError where as many devices found one rule of a mode as another.
    """
    return {subject: one.settled for subject, one in layers.findings(KIND, arch).items()}


def rests_on(layers: Layers, arch: str) -> str:
    """What is known of the boxes of an arch, in words: measured there, or on sm_90, or stated."""
    own = newest(layers, arch)
    if own:
        told = [one.contradiction for one in layers.findings(KIND, arch).values() if one.otherwise]
        return "; ".join((words(list(own.values())), *told))
    other = newest(layers, BORROWED)
    return f"{words(list(other.values())) if other else STATED}; nobody measured {arch}"
