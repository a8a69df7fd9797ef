"""Pages across archs: which layout each fragment has where, and what changes from one arch to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tcprobe.ask.compare import CONFIRMED, DIFFERS, verdicts
from tcprobe.fit import fitted
from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table
from tcprobe.references import documented
from tcprobe.sass.lowering import Lowering, words
from tcprobe.store.choose import Layers, alone
from tcprobe.store.lookup import some
from tcprobe.store.results import Results
from tcprobe.text import markdown

LETTERS = {"live": "L", "sass": "S", "derived": "D", "same-opcode": "O", "emulated": "E"}
MADE = "<!-- made by `tcprobe pages`; edit nothing here -->"


def matrix(results: Results) -> Iterator[str]:
    """Fragments x archs. Fragments with the same cells everywhere share a line."""
    names, layers = results.archs(), alone(results)
    yield from (MADE, "# Every fragment on every arch", "")
    yield "A cell names the layout; the same id means the very same map. L: measured live on a GPU, S: read from"
    yield "machine code, D: derived, O: the same opcode as on another arch, which is weaker evidence. =: a reference"
    yield "confirms it, !: one differs (see `tcprobe compare`)."
    yield "doc: documented only, not measured on that arch, and what the reference says is the layout named (see"
    yield "[documented.md](documented.md)); -: the arch does not have the fragment. The link leads to the table."
    yield ""
    lines: dict[tuple[str, ...], list[str]] = {}
    for fragment in inventory.of_a_warp().values():
        cells = tuple(_cell(results, layers, name, fragment) for name in names)
        if any(cell != "-" for cell in cells):
            lines.setdefault(cells, []).append(fragment.id)
    rows = ([", ".join(f"`{id_}`" for id_ in ids), *cells] for cells, ids in lines.items())
    yield from grid(["fragments", *names], rows)


def changes(results: Results) -> Iterator[str]:
    """For each arch against the one before it: which fragments are new, which changed their layout and how."""
    names, layers = results.archs(), alone(results)
    yield from (MADE, "# What changes between architectures", "")
    yield "Each arch is compared with the one before it, over the fragments that are measured on both."
    yield "x[i] of a fragment is not the same element across a change: code that indexes x must be told the arch."
    for before, after in pairwise(names):
        yield from _change(layers, before, after)


def documentation(results: Results) -> Iterator[str]:
    """Fragments that some arch has but nobody measured there, with the layout that a reference states."""
    yield from (MADE, "# Documented only", "")
    yield "These fragments are not measured on these archs: no GPU was at hand, and the machine code of the multiply"
    yield "takes a tensor-core instruction whose layout is known on no arch, or one that is not modelled (`tcprobe run`"
    yield "says which). The formulas are the reference's, **not a measurement**. Where the layout has a link, the very"
    yield "same one is measured on another arch. Of metadata and scales a selector chooses which lanes and slots are"
    yield "read: `tcprobe show` has the map of each."
    yield ""
    layers = alone(results)
    lines: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
    for fragment in inventory.of_a_warp().values():
        for name in results.archs():
            row = arch.arch(name)
            stated = documented(fragment, row)
            if stated and fragment.target.on(row) and not layers.choose(fragment, [name]):
                reference, claim = stated
                key = (_linked(results, claim.meant), *row_and_col(claim.meant), f"{reference}, {claim.where}")
                ids, names = lines.setdefault(key, ([], []))
                ids += [fragment.id] if fragment.id not in ids else []
                names += [name] if name not in names else []
    heads = ["fragments", "archs", "layout", "row", "col", "stated by"]
    yield from grid(heads, ([_list(ids), ", ".join(names), *key] for key, (ids, names) in lines.items()))


def opcodes(results: Results) -> Iterator[str]:
    """The layouts of tensor-core machine instructions, by opcode; archs on which all is the same share a line."""
    yield from (MADE, "# Layouts of tensor-core machine instructions", "")
    yield "Which element each register of an instruction holds: i counts a lane's elements of the operand from the low"
    yield "bits of its first register. wmma.load, the instruction and wmma.store anchor it in memory addresses; the"
    yield "last column names the multiply whose code showed it. HMMA.884 stands for all its STEPs, which share A and B;"
    yield "its .ROW and .COL are on the operands A and B. A warp does four such products at a time, one for each quad"
    yield "pair. C has the layout of D unless stated."
    yield ""
    lines: dict[tuple[str, ...], list[str]] = {}
    for name in results.archs():
        for opcode, data in results.opcodes(name).items():
            layouts = data["layouts"]
            cells = [_layout(results, layouts[operand]) for operand in "abd"]
            if layouts.get("c", layouts["d"]) != layouts["d"]:
                cells[2] += f"; C: {_layout(results, layouts['c'])}"
            lines.setdefault((f"`{opcode}`", *cells, f"`{data['source']}`"), []).append(name)
    rows = ([key[0], ", ".join(names), *key[1:]] for key, names in sorted(lines.items()))
    yield from grid(["opcode", "archs", "A", "B", "D", "shown by"], rows)


def _layout(results: Results, layout: str) -> str:
    """A linked layout with its formulas."""
    table = results.layout(layout)
    formulas = ", ".join(f"{name} `{formula}`" for name, formula in fitted(table).formulas.items())
    return f"{_linked(results, table)} {formulas}"


def lowering(results: Results) -> Iterator[str]:
    """Multiplies x archs: the tensor-core opcodes that each becomes. Forms with the same cells share a line."""
    saved = {name: data for name in results.archs() if (data := results.lowering(name))}
    yield from (MADE, "# What each multiply and matrix move becomes in machine code", "")
    yield "Tensor-core opcodes with counts, as ptxas emits them. *emulated*: opcodes of another type, or none; the"
    yield "number is that of all other instructions of the probe. -: ptxas refuses the form for that arch. Where the"
    yield "compiler links routines of its own, `tcprobe lower` names them."
    yield ""
    for name, data in saved.items():
        yield f"- {name}: {markdown(data['compiler'])}"
    yield ""
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in inventory.executed_by(WARP):
        if not any(row.id in data["instructions"] for data in saved.values()):
            continue
        cells = tuple(_lowered(data["instructions"].get(row.id), row) for data in saved.values())
        lines.setdefault(cells, []).append(row.id)
    yield from grid(["instructions", *saved], ([_list(ids), *cells] for cells, ids in lines.items()))


def _lowered(data: dict[str, Any] | None, row: Instruction) -> str:
    if data is None:
        return ""
    return words(Lowering(**data), row).replace("refused", "-").replace("emulated:", "*emulated*:")


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _cell(results: Results, layers: Layers, name: str, fragment: Fragment) -> str:
    tables, row = list(layers.tables(fragment, [name])), arch.arch(name)
    if not tables:
        stated = documented(fragment, row)
        return "-" if not fragment.target.on(row) else f"doc {_linked(results, stated[1].meant)}" if stated else ""
    layout = tables[0].table(fragment).id
    marks = {v.verdict for v in verdicts(fragment, tables[0].measured)}
    mark = "!" if DIFFERS in marks else "=" if CONFIRMED in marks else ""
    methods = "".join(LETTERS[found.measured.method] for found in tables)
    return f"[{layout[:6]}](layouts/{layout}.json) {methods}{mark}"


def _linked(results: Results, table: Table) -> str:
    """A layout's short id, with a link where its table is stored: where it is measured on some arch."""
    return f"[{table.id[:6]}](layouts/{table.id}.json)" if results.layout_path(table.id).exists() else table.id[:6]


def _change(layers: Layers, before: str, after: str) -> Iterator[str]:
    tables: dict[str, Table] = {}
    groups: dict[tuple[str, ...], list[str]] = {}
    new = []
    for fragment in inventory.of_a_warp().values():
        one, two = (layers.choose(fragment, [name]) for name in (before, after))
        if one and two:
            pair = [found.table(fragment) for found in (one, two)]
            tables |= {table.id: table for table in pair}
            groups.setdefault(tuple(table.id for table in pair), []).append(fragment.id)
        elif two and not fragment.target.on(arch.arch(before)):
            new.append(fragment.id)
    changed = {pair: ids for pair, ids in groups.items() if len(set(pair)) > 1}
    every, count = (sum(map(len, of.values())) for of in (groups, changed))
    rows = (arch.arch(name) for name in (before, after))
    yield from ("", "## " + " to ".join(f"{row.name} ({row.generation})" for row in rows), "")
    yield f"{every - count} fragments keep their layout, {count} change it, {len(new)} are new."
    if new:
        yield f"New: {_list(new)}."
    if changed:
        yield ""
        yield from grid(
            ["fragments", f"row on {before}", f"row on {after}", f"col on {before}", f"col on {after}"],
            ([_list(ids), *_formulas([tables[id_] for id_ in pair])] for pair, ids in changed.items()),
        )


def _formulas(tables: Sequence[Table]) -> list[str]:
    texts = [row_and_col(table) for table in tables]
    return [text for pair in zip(*texts, strict=True) for text in pair]


def row_and_col(table: Table) -> list[str]:
    """The formulas of row and of col as cells; - for an output that the table does not have."""
    texts = {name: f"`{f}`" if f else "no closed form" for name, f in fitted(table).formulas.items()}
    return [texts.get(name, "-") for name in ("row", "col")]


def _list(ids: list[str]) -> str:
    return some([f"`{id_}`" for id_ in ids], 8)
