"""Addresses of warps as programs and people give them, checked: lines of JSON, a file of 32 numbers, an expression.

What is refused, because no such access exists: an address that is not a multiple of the access's bytes, one outside the
228 KiB of the largest shared memory, an idle lane of ldmatrix or stmatrix. What their further lanes give (8 to 31 of
.x1, 16 to 31 of .x2) does not count and may be anything. All lanes may be idle: such an access costs nothing.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tcprobe.errors import DataError, TcprobeError, UsageError
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.shared_memory import MOST_SHARED, SharedAccess, access
from tcprobe.layout.banks import Cost, as_array
from tcprobe.layout.expression import values
from tcprobe.system import files
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.bank_rules import BankRules

MOST_BYTES = 256 << 20  # of a file of patterns
MOST_LANES_BYTES = 1 << 16  # of a file of 32 addresses
ENDS = {"address": MOST_SHARED, "source": 1 << 62}  # of memory
LaneAddress = int | None
LaneAddresses = Sequence[LaneAddress]


class Pattern(NamedTuple):
    """One access: 32 addresses, None for idle lanes, also of cp.async's sources; and the arch whose rule counts."""

    row: SharedAccess
    address: LaneAddresses
    source: LaneAddresses | None = None
    arch: str | None = None


def check_pattern(access: SharedAccess, address_array: object, source: object = None) -> Pattern:
    """A checked pattern; UsageError says which lane's address cannot be."""
    counted = [*_lanes(address_array, "address")[: access.lanes], *[None] * (WARP - access.lanes)]
    _check(access, counted, "address")
    if access.is_matrix and None in counted[: access.lanes]:
        raise UsageError(
            f"address: lane {counted.index(None)} has none; {access.name} needs one of {access.lanes} lanes."
        )
    return Pattern(access, counted, None if source is None else _source(access, counted, _lanes(source, "source")))


def _source(access: SharedAccess, counted: LaneAddresses, source_addresses: LaneAddresses) -> LaneAddresses:
    """The sources of the lanes that copy."""
    if not access.has_source:
        raise UsageError(f"source: {access.name} reads no global memory; only cp.async has a source.")
    used = [None if to is None else from_ for to, from_ in zip(counted, source_addresses, strict=True)]
    _check(access, used, "source")
    if used.count(None) != counted.count(None):
        raise UsageError("source: every lane with an address needs a source too.")
    return used


def _lanes(array: object, what: str) -> LaneAddresses:
    """`array`, if it is 32 whole numbers or None."""
    if not isinstance(array, list | tuple) or len(array) != WARP:
        raise UsageError(f"{what}: {WARP} numbers or null are needed, one for each lane.")
    if not set(map(type, array)) <= {int, type(None)}:
        lane, wrong = next((i, v) for i, v in enumerate(array) if type(v) not in (int, type(None)))
        raise UsageError(f"{what}: lane {lane} has {str(wrong)[:40]!r}; whole numbers or null are needed.")
    return array


def _check(access: SharedAccess, counted: LaneAddresses, what: str) -> None:
    """UsageError unless all are multiples of the access's bytes, from 0 to below the end of what memory there is."""
    step, end = access.bytes, ENDS[what]
    for lane, value in enumerate(counted):
        if value is not None and (value % step or not 0 <= value < end):
            why = f"not a multiple of {step}" if value % step else f"outside 0 to {end - 1}"
            raise UsageError(f"{what}: lane {lane} has {_short(value)}, which is {why}.")


def _short(value: int) -> str:
    return str(value) if value.bit_length() < 80 else f"a number of {value.bit_length()} bits"


def lanes_of(text: str) -> list[LaneAddress]:
    """32 addresses from an expression in `lane`, or from @FILE: numbers and null, commas or spaces between."""
    if not text.startswith("@"):
        return list(values(text))
    words = re.sub(r"[\[\],]", " ", files.read_text(text[1:], MOST_LANES_BYTES)).split()
    wrong = [word for word in words if not re.fullmatch(r"null|[0-9]{1,18}|0[xX][0-9a-fA-F]{1,15}", word)]
    if wrong or len(words) != WARP:
        why = f"{wrong[0][:40]!r} is not a number" if wrong else f"{len(words)} numbers"
        raise DataError(f"{text[1:]}: {why}; it needs {WARP} numbers or null, one for each lane.")
    return [None if word == "null" else int(word, 16 if word[:2] in ("0x", "0X") else 10) for word in words]


def read_patterns(path: Path) -> list[Pattern]:
    """The patterns of a file of JSON lines, blank lines aside; DataError names the first bad line.

    A line has op, address and maybe source and arch; further keys are the writer's own.
    """
    patterns = []
    for number, line in enumerate(files.read_text(path, MOST_BYTES).split("\n"), 1):
        if line.strip():
            try:
                patterns.append(_pattern(line))
            except TcprobeError as error:
                raise DataError(f"{path}, line {number}: {error}") from None
    return patterns


def _pattern(line: str) -> Pattern:
    try:
        record = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON ({str(error)[:80]}).") from None
    if not isinstance(record, dict) or not isinstance(record.get("op"), str):
        raise UsageError('each line needs an object with "op" and "address".')
    row, name = access(record["op"]), record.get("arch")
    if name is not None:
        name = arch(str(name)[:20]).name
        row.check_on(arch(name))
    return check_pattern(row, record.get("address"), record.get("source"))._replace(arch=name)


def _once(pairs: list[tuple[str, object]]) -> Json:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key appears twice")
    return members


def judge_patterns(
    warp_patterns: Iterable[Pattern], rules: Callable[[str | None], BankRules]
) -> list[tuple[Cost, BankRules]]:
    """The cost of each pattern in order, with the rules that say so; patterns of one access are judged together."""
    alike: dict[tuple[str | None, SharedAccess, bool], list[tuple[int, Pattern]]] = defaultdict(list)
    for place, pattern in enumerate(warp_patterns):
        alike[pattern.arch, pattern.row, pattern.source is None].append((place, pattern))
    by_place: dict[int, tuple[Cost, BankRules]] = {}
    for (name, row, sourceless), group in alike.items():
        by = rules(name)
        sources = None if sourceless else as_array([p.source or () for _, p in group])
        answers = by.judge(row).costs(as_array([p.address for _, p in group]), sources)
        by_place |= {place: (cost, by) for (place, _), cost in zip(group, answers, strict=True)}
    return [by_place[place] for place in sorted(by_place)]
