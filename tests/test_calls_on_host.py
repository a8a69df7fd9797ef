"""Emitted calls of multiplies and moves, run by all threads on the host: what the asm is given."""

import shutil

import emitted
import numpy as np
import pytest
from call_rows import ROWS, header, one_of_each, tables

from tcprobe import emit
from tcprobe.code.names import identifier
from tcprobe.emit.common import cell_identifier
from tcprobe.isa.arch import ARCHS
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import Role

BODY = """
  using M = tcprobe::{name};
  {declared}
  {call}
  struct {{ typename M::D::word d[M::D::registers]; long long seen[{count}]; }} own;
  memcpy(own.d, d, sizeof d); memcpy(own.seen, seen[running], sizeof own.seen);
  memcpy(output + running * ({bytes}), own.d, sizeof own.d);
  memcpy(output + running * ({bytes}) + sizeof own.d, own.seen, sizeof own.seen);
"""

gcc = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")


def arguments(row, held):
    """(C++ values, template arguments, what the asm is given in PTX's order) but for arrays; `held`: A in registers."""
    chosen, given = [], []
    for fragment in [f for f in row.spelled if f.selectors]:
        picks = fragment.picked(fragment.selectors[-1])
        chosen += picks.values()
        given.append((100 + len(given), list(picks.values())))
    if not row.described:
        return chosen, given, [], []
    after, before = [], []
    if dtype(row.type("d")).is_float:
        after += [-1, 1]
        chosen += [-1, 1]
    if len(row.described[0].held.majors) > 1:
        chosen += [0 if held else 1, 1]
        after += [1] if held else [1, 1]
    return chosen, given, before, after


def call_case(row, cells, held=True):
    """The function with a number of its own in each register of each thread."""
    names = [f for f in row.spelled if not f.selectors]
    arrays = {f.operand: f for f in names if not (row.described and f.operand == "a" and not held)}
    declared, numbers, first = [], {}, 1
    for operand, f in arrays.items():
        declared.append(f"typename M::{operand.upper()}::word {operand}[{f.registers}];")
        numbers[operand] = [first + j for j in range(f.registers)]
        declared += [f"{operand}[{j}] = {first + j} + 200 * running;" for j in range(f.registers)]
        first += f.registers
    chosen, selected, _, after = arguments(row, held)
    template = f"<{', '.join(map(str, chosen))}>" if chosen else ""
    per_thread = lambda values: [[v + 200 * t for v in values] for t in range(row.threads)]  # noqa: E731
    factors = [] if row.described else [numbers[o] for o in "abc"]
    wanted = [[n for values in factors for n in per_thread(values)[t]] for t in range(row.threads)]
    extra = [f"{number}u" for number, _ in selected]
    fixed = [n for number, picks in selected for n in (number, *picks)]
    if row.described:
        a = "a" if held else "77ull"
        call_ = f"M::mma{template}({', '.join(['d', a, '88ull', *extra, '1'])});"
        held_a = per_thread(numbers["a"]) if held else [[77]] * row.threads
        wanted = [[1, *held_a[t], 88, *fixed, *after] for t in range(row.threads)]
    else:
        call_ = f"M::mma{template}({', '.join(['d', 'a', 'b', 'c', *extra])});"
        wanted = [[*values, *fixed] for values in wanted]
    d = row.fragment("d")
    bits = np.arange(1000, 1000 + d.registers, dtype=np.uint64 if d.register_bits == 64 else np.uint32)
    rows = [bits.tobytes() + np.array(values, np.int64).tobytes() for values in wanted]
    body = BODY.format(
        name=f"{cells[0].arch}::{identifier(row.id)}",
        declared=" ".join(declared),
        call=call_,
        count=len(wanted[0]),
        bytes=len(rows[0]),
    )
    what, code = f"{row.id} {'registers' if held else 'descriptors'}", "#define __CUDACC__\n" + header({row: cells})
    return emitted.Case(what, code, body, row.threads, b"", b"".join(rows))


MOVE = """
  using M = tcprobe::{name};
  using P = tcprobe::{address};
  unsigned address = P::read(running) ? 16 * P::row(running, 0) : 0;
  {rest}
"""


def move_case(row, cells):
    """ldmatrix and stmatrix by the addresses of their table, movmatrix; each element is a number of its own."""
    by_operand = {cell.fragment.operand: cell for cell in cells}
    name = f"{cells[0].arch}::{identifier(row.id)}"
    if row.family == "movmatrix":
        a, d = by_operand["a"], by_operand["d"]
        rest = "unsigned a[1], d[1]; memcpy(a, MINE(input, a), 4); M::movmatrix(d, a); memcpy(MINE(output, d), d, 4);"
        body = f"using M = tcprobe::{name}; {rest}"
        given, wanted = halves(a), halves(d)
        return emitted.Case(row.id, "#define __CUDACC__\n" + header({row: cells}), body, 32, given, wanted)
    held = by_operand["d" if row.family == "ldmatrix" else "a"]
    count, image = held.fragment.registers, np.arange(held.fragment.rows * held.fragment.cols, dtype=np.uint16)
    if row.family == "ldmatrix":
        rest = (
            f"if (!running) memcpy(memory, input, {image.nbytes}); meet(0); unsigned d[{count}]; "
            "M::ldmatrix(d, address); memcpy(MINE(output, d), d, sizeof d);"
        )
        given, wanted = image.tobytes(), halves(held)
    else:
        rest = f"unsigned a[{count}]; memcpy(a, MINE(input, a), sizeof a); M::stmatrix(address, a);"
        given, wanted = halves(held), image.tobytes()
    body = MOVE.format(name=name, address=f"{cells[0].arch}::{cell_identifier(by_operand['address'])}", rest=rest)
    made = "output" if row.family == "ldmatrix" else "memory"
    return emitted.Case(row.id, "#define __CUDACC__\n" + header({row: cells}), body, 32, given, wanted, made)


def halves(cell):
    """What all lanes hold of a matrix whose elements are numbered row by row."""
    return np.array([r * cell.fragment.cols + c for r, c in cell.table.cells], np.uint16).tobytes()


@pytest.mark.full
@gcc
def test_all_threads_give_the_asm_what_ptx_wants_in_its_order(tmp_path, request):
    rows = ROWS if request.config.getoption("--all") else one_of_each(lambda i: (i.family, i.operands[0].type, i.kind))
    cases, families = [], set()
    for row in [row for row in rows if row.multiplies and row.fragment("d").registers <= 128]:
        name = next((a.name for a in reversed(ARCHS) if row.target.on(a) and tables(row, a.name)), None)
        if name:
            families.add(row.family)
            cases += [call_case(row, tables(row, name), held) for held in ((True, False) if row.described else (True,))]
    tried = emitted.tried(tmp_path, cases)
    print(tried, sorted(families))
    assert tried.wrong == []
    assert families == {row.family for row in ROWS if row.multiplies}


@pytest.mark.full
@gcc
def test_all_lanes_move_matrices_by_the_emitted_addresses(tmp_path):
    rows = [row for row in ROWS if not row.multiplies and row.name.endswith("b16")]
    cases = [move_case(row, tables(row, "sm_90")) for row in rows]
    tried = emitted.tried(tmp_path, cases)
    print(tried)
    assert tried.wrong == []
    assert tried.functions == 13


@pytest.mark.full
@gcc
def test_scales_are_where_the_tables_say(tmp_path):
    cells = [cell for cell in emitted.of_role(Role.SCALE) if cell.fragment.role is Role.SCALE]
    cases = []
    for cell in cells:
        f = cell.fragment
        scale = (np.arange(f.rows * f.cols) + 7).astype(np.uint8)
        slots = [0 if place is None else scale[place[0] * f.cols + place[1]] for place in cell.table.cells]
        struct = f"tcprobe::{cell.arch}::{cell_identifier(cell)}"
        body = f"const unsigned own[1] = {{tcprobe::scales<{struct}>(running, input)}};"
        body += " memcpy(MINE(output, own), own, sizeof own);"
        cases.append(
            emitted.Case(
                cell_identifier(cell),
                emit.emit("cuda", [cell]),
                body,
                32,
                scale.tobytes(),
                np.array(slots, np.uint8).tobytes(),
            )
        )
    tried = emitted.tried(tmp_path, cases)
    assert tried.wrong == []
    assert tried.functions >= 20
