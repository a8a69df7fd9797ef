"""Pages of words: the guide with the method, and how to contribute. What they say stands in their templates."""

from __future__ import annotations

from tcprobe.pages.site import addresses
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.render import View

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
WMMA = "wmma.m16n16k16.d.f32"


def views(facts: Facts) -> list[View]:
    """Guide and contributing; examples are left out where the site has no page of them."""
    pages = {"mma": addresses.instruction(MMA), "a": addresses.fact(f"{MMA}.a"), "d": addresses.fact(f"{MMA}.d")}
    example = pages if MMA in facts.instructions else {}
    wmma = addresses.fact(WMMA) if WMMA in facts.facts else ""
    about = "Questions and where they are answered; how layouts are measured"
    context = {"example": example, "wmma": wmma, "mma": MMA, "wmma_name": WMMA}
    helps = "Measure your GPU, report a difference, add a form"
    return [
        View("method.html", "guide", "Guide and method", about, context),
        View("contribute.html", "contribute", "Contribute", helps, {"mma": MMA}),
    ]
