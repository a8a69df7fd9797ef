"""Code of `reduce` and of its masks, as cases: what every thread is to hold afterwards, by NumPy."""

import re
from itertools import product

import numpy as np
from emitted import Case, element, held, uncommented

from tcprobe.ask.reduce.mask import mask_fragment
from tcprobe.ask.reduce.reduction import reduce_fragment
from tcprobe.errors import UsageError

# of a fragment's elements
ELEMENTS = """float own[{elements}], out[{results}] = {{}};
  memcpy(own, MINE(input, own), sizeof own);
  {use}
  memcpy(MINE(output, {made}), {made}, sizeof {made});"""


REDUCED = """float own{shaped}, out[{results}] = {{}};
  memcpy(own, MINE(input, own), sizeof own);
  f(own, out);
  memcpy(MINE(output, out), out, sizeof out);"""
SOFTMAX = """struct {{ float x{shaped}, maximum[{results}], scale[{results}], sum[{results}]; }} own;
  float given[{steps}]{shaped};
  memcpy(given, MINE(input, given), sizeof given);
  for (int g = 0; g < {results}; ++g) {{ own.maximum[g] = -INFINITY; own.sum[g] = 0; }}
  for (int j = 0; j < {steps}; ++j) {{
    memcpy(own.x, given[j], sizeof own.x);
    f(own.x, own.maximum, own.sum, own.scale);
  }}
  f_total(own.sum);
  memcpy(MINE(output, own), &own, sizeof own);"""


def reductions(cells_, over_=("row", "col"), op_=("max", "sum"), tiles_=((1, 1),)):
    """`reduce --over`, for fragments of a warp and of a warpgroup, with --tile too."""
    for cell, over, op, (down, across) in product(cells_, over_, op_, tiles_):
        fragment = cell.fragment
        size = None if down == across == 1 else f"{down * fragment.rows}x{across * fragment.cols}"
        try:
            found = reduce_fragment(cell, over, op, "f", size)
        except UsageError:
            continue
        table, axis, threads = found.tile.table, ("row", "col").index(over), fragment.threads
        x = np.array([element(cell, *at) for at in table.cells], np.float32).reshape(threads, -1)
        rows = numbered(table, axis)
        join = max if op == "max" else sum
        wanted = [[join(element(cell, *e) for e in rows[row]) for row in lane] for lane in found.plan.rows]
        shaped = f"[{down * across}][{cell.table.elements}]" if size else f"[{cell.table.elements}]"
        body = REDUCED.format(shaped=shaped, results=len(found.plan.groups))
        yield Case(
            f"{fragment.id} over {over}, {size}",
            uncommented(found.code),
            body,
            threads,
            x.tobytes(),
            np.array(wanted, np.float32).tobytes(),
        )


def softmaxes(cells_, tiles_=((1, 1), (2, 3)), steps=3):
    """`reduce --op softmax`: steps with whole numbers, a row of which is masked in the first; then the total."""
    for cell, (down, across) in product(cells_, tiles_):
        fragment = cell.fragment
        size = None if down == across == 1 else f"{down * fragment.rows}x{across * fragment.cols}"
        try:
            found = reduce_fragment(cell, "row", "softmax", "f", size)
        except UsageError:
            continue
        table, count = found.tile.table, len(found.plan.groups)
        row, col = (np.array(table.values[axis]).reshape(fragment.threads, -1) for axis in ("row", "col"))
        if fragment.products > 1:  # the rows of several products are counted through
            row = row + np.array(table.values["product"]).reshape(row.shape) * table.extent["row"]
        matrix = np.random.default_rng(9).integers(-6, 7, (steps, row.max() + 1, col.max() + 1)).astype(np.float32)
        matrix[0, 3] = -np.inf
        shaped = f"[{down * across}][{cell.table.elements}]" if size else f"[{cell.table.elements}]"
        body = SOFTMAX.format(shaped=shaped, results=count, steps=steps)
        running = np.maximum.accumulate(matrix.max(2), axis=0)
        base = np.where(np.isinf(running), 0, running)
        before = np.concatenate([np.full((1, len(matrix[0])), -np.inf), running[:-1]])
        numbers, scale = np.exp2(matrix - base[..., None]), np.exp2(before - base)
        total = sum(
            numbers[j].sum(1) * np.exp2(np.where(np.isinf(running[j]), 0, running[j]) - running[-1])
            for j in range(steps)
        )
        rows = np.array(found.plan.rows)
        parts = [numbers[-1][row, col], running[-1][rows], scale[-1][rows], total[rows]]
        wanted = np.concatenate(parts, axis=1).astype(np.float32)
        given = np.stack([matrix[j][row, col] for j in range(steps)], axis=1)
        yield Case(
            f"{fragment.id} softmax {size}",
            uncommented(found.code),
            body,
            fragment.threads,
            given.tobytes(),
            wanted.tobytes(),
        )


def numbered(table, axis):
    """The elements of each row (or column), each once; where there are several products, counted through."""
    rows = {}
    for cell in table.inverse:
        size = table.extent["row" if axis == 0 else "col"]
        rows.setdefault(cell[axis] + (cell[2] * size if len(cell) > 2 else 0), set()).add(cell)
    return rows


VALUES = {"row0": 3, "col0": 1}
# what is asked, and what it means, in NumPy
MASKS = {
    "row >= col": lambda row, col: row >= col,
    "row + row0 >= col + col0": lambda row, col: row + 3 >= col + 1,
    "col + col0 < 5 or row == 3": lambda row, col: (col + 1 < 5) | (row == 3),
    "not (2 * row - col > 7) and row != 1": lambda row, col: (2 * row - col <= 7) & (row != 1),
    None: lambda row, col: np.zeros(row.shape, bool),
    "col < row0 + 3": lambda row, col: col < 6,
    "row >= 0": lambda row, col: np.ones(row.shape, bool),
}
FILLS = {
    None: lambda row, col: -1.5,
    "-inf": lambda row, col: -np.inf,
    "row * 16 + col": lambda row, col: row * 16 + col,
    "-7": lambda row, col: -7,
    "nan": lambda row, col: np.array(0x7FFFFFFF, np.uint32).view(np.float32),
    "col - row + row0": lambda row, col: col - row + 3,
    "1e30": lambda row, col: 1e30,
    "INFINITY": lambda row, col: np.inf,
    "-2.5f": lambda row, col: -2.5,
}
NUMBERS = ("-inf", "nan", "1e30", "INFINITY", "-2.5f", "-7")  # that elements of some types cannot be


def masks(cells_, masks_=tuple(MASKS), fills_=tuple(FILLS)):
    """`reduce --mask`, `--fill`, for fragments of a warp and of a warpgroup."""
    for cell, mask, fill in product(cells_, masks_, fills_):
        if "product" in cell.table.outputs or mask is fill is None:
            continue
        try:
            found = mask_fragment(cell, mask, fill, "f")
        except UsageError:
            assert fill in NUMBERS, (cell.fragment.id, mask, fill)
            continue
        x, threads = held(cell), cell.table.threads
        first_use = dict.fromkeys(re.findall("row0|col0", f"{mask} {fill}"))
        arguments = ["own", *(["-1.5f"] if fill is None else []), *(str(VALUES[name]) for name in first_use)]
        body = ELEMENTS.format(use=f"f({', '.join(arguments)});", made="own", elements=x.shape[1], results=1)
        wanted = expected(cell, x, mask, fill)
        what = f"{cell.fragment.id} {mask} {fill}"
        yield Case(what, uncommented(found.code), body, threads, x.tobytes(), wanted.tobytes())


def expected(cell, x, mask, fill):
    """What every slot is after it."""
    row, col = (np.array(cell.table.values[name]).reshape(x.shape) for name in ("row", "col"))
    return np.where(MASKS[mask](row, col), x, np.float32(FILLS[fill](row, col)))
