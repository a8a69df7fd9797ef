"""The table of words that the search box reads: names as commands take them, pages with their headings, layouts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

from tcprobe.isa import inventory
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.gpus import GPUS
from tcprobe.isa.names.words import APART, MEANT, NOISE, STEMS
from tcprobe.layout.descriptor import SWIZZLES
from tcprobe.pages.site import addresses, markup, payload, words
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.subjects import SUBJECTS
from tcprobe.sass.lowering import Lowering
from tcprobe.values import Json

MOST_FORMS = 4  # of an opcode
ALIKE = ("a/", "g/", "c/", "recipes/", "path/")  # pages whose headings say what those of many others say
_HEAD = re.compile(r'<h[23] id="([^"]+)"[^>]*>(.*?)</h[23]>', re.DOTALL)
_TITLE = re.compile(r"<title>(.*?) · tcprobe</title>")
_TAG = re.compile(r"<[^>]*>")


def table(facts: Facts, pages: Mapping[str, str]) -> Json:
    """Ids with the number of their layout, words, GPUs, opcodes, and all other pages."""
    ordinal = {id_: number for number, id_ in enumerate(facts.tables)}
    return {
        "schema": 1,
        "stems": sorted(STEMS),
        "meant": MEANT,
        "noise": sorted(NOISE),
        "apart": {part: sorted(also) for part, also in APART.items()},
        "gpus": [[f"sm_{number}", gpu_words, pattern] for number, gpu_words, pattern in GPUS],
        "ids": list(_ids(facts, ordinal)),
        "instructions": _instructions(facts),
        "opcodes": _opcodes(facts),
        "others": _others(facts, ordinal),
        "layouts": [payload.with_formula(layout) for layout in facts.tables.values()],
        "archs": facts.archs,
        "modes": {bits: width for width, bits in SWIZZLES.items()},
        "pages": list(_pages(facts, pages)),
    }


def files(facts: Facts, pages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The table for programs, and the same as a script, for pages that are opened as files."""
    text = markup.plain(table(facts, pages))
    yield "search.json", text + "\n"
    yield "words.js", f"globalThis.tcprobeWords={text};\n"


def _ids(facts: Facts, ordinal: Mapping[str, int]) -> Iterator[list[Any]]:
    """[what ids have in common, their last parts, the number of the layout of each, archs with a table, main arch].

    Archs are bits in the order of `archs`; the main one is its number there.
    """
    runs: list[list[Any]] = []
    for id_, fact in facts.facts.items():
        prefix, _, last = id_.rpartition(".")
        number, on = ordinal[fact.main.table.id], sum(1 << facts.archs.index(arch) for arch in fact.cells)
        archs_and_main = [on, facts.archs.index(fact.main.arch)]
        if runs and runs[-1][0] == prefix and runs[-1][3:] == archs_and_main:
            runs[-1][1] += f" {last}"
            runs[-1][2].append(number)
        else:
            runs.append([prefix, last, [number], *archs_and_main])
    yield from runs


def _instructions(facts: Facts) -> list[str]:
    """Ids of pages of instructions that are not what ids of fragments have in common."""
    prefixes = {id_.rpartition(".")[0] for id_ in facts.facts}
    return [*(name for name in facts.instructions if name not in prefixes), *facts.bare]


def _opcodes(facts: Facts) -> dict[str, list[str]]:
    """By opcode the forms that become it natively; those of a warpgroup tell their form themselves."""
    rows, forms = inventory.instructions(), dict[str, dict[str, None]]()
    for bodies in facts.lowerings.values():
        for body in bodies:
            for id_, plain in body["instructions"].items():
                low = Lowering(**plain)
                if id_ in facts.page_names and not rows[id_].described and not low.refused and low.native(rows[id_]):
                    for opcode in low.opcodes:
                        forms.setdefault(opcode, {})[id_] = None
    return {opcode: [*ids][:MOST_FORMS] for opcode, ids in sorted(forms.items())}


def _others(facts: Facts, ordinal: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """By id the archs on which its layout is another one than the main one's."""
    several = [fact for fact in facts.facts.values() if len(fact.tables) > 1]
    return {
        fact.id: {arch: ordinal[cell.table.id] for arch, cell in fact.cells.items() if cell.table != fact.main.table}
        for fact in several
    }


def _pages(facts: Facts, pages: Mapping[str, str]) -> Iterator[list[str]]:
    """[title, address, further words] of every page that is none of a fragment or an instruction, and its headings."""
    for id_ in facts.tables:
        _, cell, _ = facts.sharing[id_][0]
        yield [f"layout {id_}: {words.layout_name(cell.fragment)}", addresses.layout(id_), ""]
    for address, text in pages.items():
        if address.startswith(("f/", "m/", "l/")) or not address.endswith(".html"):
            continue
        title = _TITLE.search(text)
        page_title = unescape(title[1]) if title else address
        yield [page_title, address, SUBJECTS.get(address, "") or _generation(address)]
        for anchor, head in _HEAD.findall(text) if not address.startswith(ALIKE) else ():
            anchor_address = f"{address}#{anchor}"
            yield [f"{page_title}: {unescape(_TAG.sub('', head))}", anchor_address, SUBJECTS.get(anchor_address, "")]


def _generation(address: str) -> str:
    """What the GPUs of an arch's page are called."""
    name = address.removeprefix("a/").removesuffix(".html")
    return arch_row(name).generation.lower() if address.startswith("a/") else ""
