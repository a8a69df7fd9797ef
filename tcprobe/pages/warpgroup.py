"""The part of an arch's page on warpgroup multiplies: a line for all N of a type, and what descriptors lead to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.ask.compare import verdicts
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table
from tcprobe.pages.archs import grid, row_and_col
from tcprobe.store.measurement import Measurement
from tcprobe.store.results import Results
from tcprobe.store.surveys import DESCRIPTORS


def warpgroup(results: Results, name: str, method: str) -> Iterator[str]:
    """The sections; nothing where no warpgroup multiply was measured."""
    found: dict[str, list[tuple[Fragment, Measurement]]] = {}
    saved = set(results.experiments(name, method))
    for row in inventory.instructions().values():
        measured = results.measurement(name, method, row.id) if row.threads > WARP and row.id in saved else None
        for fragment in row.fragments if measured and measured.status == "measured" else ():
            anonymous = fragment.id.replace(f"m64n{row.shape.n}k", "m64nNk")
            found.setdefault(anonymous, []).append((fragment, measured))  # type: ignore[arg-type]
    if found:
        yield from _registers(found)
        yield from _descriptors(results, name)


def _registers(found: dict[str, list[tuple[Fragment, Measurement]]]) -> Iterator[str]:
    yield from ("", "## Warpgroup multiplies", "")
    yield "Lanes count the 128 threads of a warpgroup. A line stands for every N: *same* says that each of them has the"
    yield "formula of the largest on the elements that it has. Numbers are from addresses behind descriptors."
    yield ""
    rows = ((f"`{name}`", str(len(of)), *_formulas(of), _confirmed(of)) for name, of in found.items())
    yield from grid(["fragment", "N", "row", "col", "all N", "CuTe"], rows)


def _formulas(of: Sequence[tuple[Fragment, Measurement]]) -> list[str]:
    """Row and column of the largest N, and whether the others are parts of it."""
    tables = [measured.tables[fragment.operand] for fragment, measured in of]
    shown = tables[-1].selection(0) if of[-1][0].selectors else tables[-1]
    return [*row_and_col(shown), "same" if all(_part(table, tables[-1]) for table in tables) else "differ"]


def _part(small: Table, large: Table) -> bool:
    """Whether a table is what another says of the elements that it has."""
    if small.space == large.space:
        return small == large
    starts = range(0, large.points, large.elements)
    return small.cells == tuple(cell for s in starts for cell in large.cells[s : s + small.elements])


def _confirmed(of: Sequence[tuple[Fragment, Measurement]]) -> str:
    """How many of all N CuTe confirms."""
    marks = [v.verdict for f, m in of for v in verdicts(f, m) if v.reference == "CuTe"]
    return "not covered" if set(marks) == {"not covered"} else f"{marks.count('confirmed')} of {len(of)} confirmed"


def _descriptors(results: Results, name: str) -> Iterator[str]:
    body = DESCRIPTORS.read(results, name)
    if body is None:
        return
    of = body["provenance"]
    yield from ("", "## Operands behind descriptors", "")
    yield f"Measured on {of['device']}, driver {of['driver']}, CUDA {of['cuda']}. *Elements*: how many lie where"
    yield "`tcprobe show` says, of all behind so many descriptors. *Ignored*: fields that made no difference. *Base*"
    yield "*offset*: of the descriptors that tell readings apart, those explained by subtracting it from the row of the"
    yield f"pattern. {body['products']['products']} products of random matrices through random descriptors, said by"
    yield f"these maps and the tables of registers alone: {body['products']['wrong']} wrong."
    yield ""
    heads = ["operand", "form", "bits", "major", "swizzle", "descriptors", "elements", "ignored", "base offset"]
    yield from grid(heads, (
        [case["operand"], inventory.instructions()[case["instruction"]].family, str(case["bits"]), case["major"],
         str(case["swizzle"] or "none"), str(case["descriptors"]), f"{case['agree']} of {case['elements']}",
         ", ".join(case["ignored"]) or "-", "{} of {}".format(*case["base_offset"]["subtracted"])]
        for case in body["cases"]))  # fmt: skip
