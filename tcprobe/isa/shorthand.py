"""Which ids a shortened name or a pattern means: text alone.

>>> from tcprobe.isa import shorthand
>>> shorthand.meant("m16n8k16.d", ["mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k8.row.col.f32.f16.f16.f32.d"])
['mma.m16n8k16.row.col.f32.f16.f16.f32.d']
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable

from tcprobe.isa.instruction import id_of

SAID = ("sp", "sp::ordered_metadata", "wgmma", "block_scale")  # parts of a name that a shortened one keeps
_VECTOR = re.compile(r"(scale_vec::\d)x")  # the one capital letter of an id


def short(name: str) -> str:
    """`name` without the qualifiers that every form has: the form in which ids are."""
    written = _VECTOR.sub(r"\1X", name.strip().lower())
    if written.startswith("sm90") or "gmma." in written[:6]:
        from tcprobe.isa.words import warpgroup

        written = warpgroup(written) or written
    return id_of(written)


def meant(wanted: str, known: Collection[str]) -> list[str]:
    """The ids that a shortened id or a pattern means: where it is one itself, that alone."""
    if wanted in known:
        return [wanted]
    if any(c in wanted for c in "*?["):
        return globbed(wanted, known)
    return [i for i in known if shortens(wanted, i)]


def globbed(wanted: str, ids: Iterable[str]) -> list[str]:
    """The ids that a pattern means; where it means none as it is, those of which it means some parts, in order."""
    listed = list(ids)
    for pattern in (wanted, f"*.{wanted}", f"{wanted}.*", f"*.{wanted}.*"):
        matches = [id_ for id_ in listed if fnmatch.fnmatchcase(id_.lower(), pattern.lower())]
        if matches:
            return matches
    return [id_ for id_ in listed if shortens(wanted, id_)]


def shortens(wanted: str, full: str) -> bool:
    """Whether `wanted` has parts of `full`, in order, or patterns of them; what sets a form apart (that it is sparse)
    must be said.
    """
    whole = full.split(".")
    if not {part for part in whole if part in SAID} <= set(wanted.split(".")):
        return False
    parts = iter(whole)
    if any(c in wanted for c in "*?["):
        return all(any(fnmatch.fnmatchcase(part, one) for part in parts) for one in wanted.split("."))
    return bool(wanted) and all(part in parts for part in wanted.split("."))
