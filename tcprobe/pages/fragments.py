"""The part of the overview on fragments: a section a family, a line for what is known alike on every arch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.pages.tables import code, fitting, grid, heading_anchor, spans
from tcprobe.store.cell import DOCUMENTED, Cell
from tcprobe.store.evidence import METHODS

HEADS = {
    "live": "live",
    "sass": "machine code",
    "derived": "derived",
    "same-opcode": "same opcode",
    "emulated": "emulated",
    DOCUMENTED: "documented only",
}
ByFragment = Mapping[str, Mapping[str, Cell]]  # by fragment id and arch, both in their order
HowAndArchs = tuple[tuple[str, str], ...]  # (how, archs)
MAndK = tuple[int, int]  # m and k


def sections(facts: ByFragment) -> Iterator[str]:
    """All families."""
    families = _families(facts)
    yield from ("", "## Fragments", "")
    yield "On which archs the layouts of a shape are measured, and how: live on a GPU, read from machine code, derived"
    yield "from it, or, which is weaker evidence, by an identically encoded opcode of another arch. What nobody"
    yield "measured on an arch is documented only. An arch that is not named does not have the fragments."
    yield ""
    yield from (f"- [{family}](#{heading_anchor(family)})" for family in families)
    for family, lines in families.items():
        hows = [how for how in (*METHODS, DOCUMENTED) if any(how in dict(kinds) for kinds, _ in lines)]
        yield from ("", f"### {family}", "")
        yield from grid(["fragments", *(HEADS[how] for how in hows)], _rows(lines, hows))


FragmentsOfLines = dict[tuple[HowAndArchs, MAndK], list[Fragment]]


def _families(facts: ByFragment) -> dict[str, FragmentsOfLines]:
    """By family the fragments with one m and k and the same status."""
    families: dict[str, FragmentsOfLines] = {}
    for id_, archs in facts.items():
        fragment = inventory.fragments()[id_]
        key = (_kinds(archs), (fragment.shape.m, fragment.shape.k))
        families.setdefault(fragment.family, {}).setdefault(key, []).append(fragment)
    return families


def _kinds(archs: Mapping[str, Cell]) -> HowAndArchs:
    by_kind: dict[str, list[str]] = {}
    for name, cell in archs.items():
        by_kind.setdefault(cell.how, []).append(name)
    return tuple((how, spans(names)) for how, names in by_kind.items())


def _rows(lines_by_kind: FragmentsOfLines, hows: Sequence[str]) -> Iterator[list[str]]:
    """Fragments in words, or, where the same words would stand twice, by their ids."""
    names_by_line = [_line_text(shape, fragments) for (_, shape), fragments in lines_by_kind.items()]
    for ((kinds, _), fragments), name in zip(lines_by_kind.items(), names_by_line, strict=True):
        text = name if names_by_line.count(name) == 1 else fitting(code(fragment.id for fragment in fragments))
        yield [text, *(dict(kinds).get(how, "") for how in hows)]


def _line_text(m_and_k: MAndK, fragments: Sequence[Fragment]) -> str:
    """Shape, operands, types, how many: m64nNk16, N of 8 to 256: A, D of f16, f32 (64)."""
    ns = sorted({fragment.shape.n for fragment in fragments})
    m, k = m_and_k
    deep = f"k{k}" if k else ""  # a matrix that is moved has none
    size = f"m{m}n{ns[0]}{deep}" if len(ns) == 1 else f"m{m}nN{deep}, {len(ns)} N from {ns[0]} to {ns[-1]}"
    operands = fitting([o.upper() if len(o) == 1 else o for o in dict.fromkeys(f.operand for f in fragments)], 30)
    types = fitting(sorted({f.type for f in fragments}), 30)
    return f"{size}: {operands} of {types} ({len(fragments)})"
