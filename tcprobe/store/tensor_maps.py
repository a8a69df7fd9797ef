"""What was measured of an arch's tensor maps: `results/<arch>/tma.json`.

`modes` by swizzle mode: the rule of its boxes (`pitch`, bytes from row to row or "row", then `swizzle` of the absolute
address), how many `loads`, `stores` and `bytes` were followed, and how many boxes are `misfits`. `encodings`: what the
driver said of maps, their arguments varied one at a time. `faults`: boxes that lost the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tcprobe.errors import DataError, UsageError
from tcprobe.isa.tensor_map import SWIZZLES
from tcprobe.layout.swizzle import Swizzle
from tcprobe.store.choose import Layers
from tcprobe.store.measurement import PROVENANCE
from tcprobe.store.surveys import SurveyFile

KIND = "tensor maps"
BORROWED, STATED = "sm_90", "documented by the CUDA driver API and PTX ISA"
KEYS = {"arch", "method", "provenance", "modes", "maps", "encodings", "lost", "faults"}
COUNTS = ("misfits", "bytes", "loads", "stores")
WHOLE = {"pitch", "swizzle", *COUNTS, "types", "widths", "bases", "ranks", "second"}


def newest(layers: Layers, arch: str) -> dict[str, Any] | None:
    """That of the nearest folder that has one to be trusted."""
    nearest = next(layers.documents(arch, KIND, lambda results: SURVEY.read(results, arch)), None)
    return nearest[0] if nearest else None


def rests_on(layers: Layers, arch: str) -> str:
    """What is known of the boxes of an arch, in words: measured there, or on sm_90, or stated."""
    own = newest(layers, arch)
    if own:
        return evidence(own)
    other = newest(layers, BORROWED)
    return f"{evidence(other) if other else STATED}; nobody measured {arch}"


def check(body: Mapping[str, Any], arch: str) -> None:
    """DataError unless it is a live measurement of `arch` by its keys, rules, counts and texts."""
    if set(body) != KEYS or (body["arch"], body["method"]) != (arch, "live") or not _is_provenance(body["provenance"]):
        raise DataError("not the keys, arch, method or provenance of a measurement of tensor maps.")
    for name, mode in body["modes"].items():
        if name not in SWIZZLES or set(mode) != WHOLE or not _is_rule(mode) or not _is_counted(mode):
            raise DataError(f"{name} is no measured swizzle mode.")
    for one in body["encodings"]:
        if set(one) != {"argument", "value", "result", "rules", "fits"} or not _is_encoding(one):
            raise DataError("an encoding has argument, value, result, rules and fits.")


def _is_provenance(of: Mapping[str, Any]) -> bool:
    return set(of) == set(PROVENANCE) and all(isinstance(text, str) for text in of.values())


def _is_rule(mode: Mapping[str, Any]) -> bool:
    pitch, swizzle = mode["pitch"], mode["swizzle"]
    with suppress(UsageError):
        Swizzle(*swizzle)
        return (pitch == "row" or (type(pitch) is int and pitch > 0)) and all(type(n) is int for n in swizzle)
    return False


def _is_counted(mode: Mapping[str, Any]) -> bool:
    whole = all(type(mode[key]) is int and mode[key] >= 0 for key in COUNTS)
    return whole and mode["misfits"] <= mode["loads"] + mode["stores"]


def _is_encoding(one: Mapping[str, Any]) -> bool:
    rules = isinstance(one["rules"], list) and all(isinstance(name, str) for name in one["rules"])
    return rules and isinstance(one["result"], str) and type(one["fits"]) is bool


def evidence(body: Mapping[str, Any]) -> str:
    """What it rests on, in words."""
    of, modes = body["provenance"], body["modes"].values()
    count, bad = (sum(mode[key] for mode in modes) for key in ("bytes", "misfits"))
    made = f"{of['device']}, driver {of['driver']}, CUDA {of['cuda']}, tcprobe {of['tcprobe']}"
    return f"boxes of tensor maps measured live on {made}: {count} bytes followed, {bad} boxes elsewhere than stated"


SURVEY = SurveyFile("tma", KIND, check)
