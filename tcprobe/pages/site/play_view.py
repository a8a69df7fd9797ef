"""The playground: bank conflicts of a tile that readers choose, by the published rule, in the page."""

from __future__ import annotations

from dataclasses import asdict

from tcprobe.ask.banks.accesses import UNTYPED, bits_of
from tcprobe.ask.banks.patterns import rules_for
from tcprobe.isa.dtypes import DTYPES
from tcprobe.isa.shared_memory import accesses
from tcprobe.pages.site import addresses, markup
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.render import View
from tcprobe.values import Json

SWIZZLES = ("1,4,3", "2,4,3", "3,4,3", "5,2,5", "32B", "64B", "128B")


def view(facts: Facts) -> View:
    """The page."""
    rules = rules_for(None, facts.layers)
    types = {name: bits_of(name) for name in (*(d.name for d in DTYPES), *(f"b{n}" for n in UNTYPED))}
    by_access: Json = {
        name: {**asdict(rules.rule(row)), "bytes": row.bytes, "lanes": row.lanes} for name, row in accesses().items()
    }
    swept = [
        name if row.is_matrix else f"{name}@{order}"
        for name, row in accesses().items()
        for order in (("",) if row.is_matrix else ("rows",) if row.has_source else ("rows", "cols"))
    ]
    context = {
        "evidence": rules.evidence,
        "types": list(types),
        "swizzles": SWIZZLES,
        "accesses": swept,
        "data": markup.data({"kind": "banks", "types": types, "rules": by_access}),
    }
    return View(
        addresses.PLAYGROUND,
        "banks",
        "Bank conflicts of a tile",
        "Swizzles and padding tried out, by the measured rule",
        context,
    )
