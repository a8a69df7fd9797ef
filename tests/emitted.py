"""Code that commands print, as cases: each is run by all its threads on the host, and compared with the table."""

import re
from functools import cache
from itertools import groupby, product
from typing import NamedTuple

import host_cuda
import numpy as np

from tcprobe.ask.convert import convert
from tcprobe.ask.convert.stmatrix import StoreOptions
from tcprobe.ask.convert.store_code import plan_store_code
from tcprobe.ask.reduce import reduce
from tcprobe.ask.reduce.mask import mask_fragment
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import select
from tcprobe.isa.operand import WHOLE
from tcprobe.store.cell import emittable, for_emit, selected
from tcprobe.store.results import published

FAMILIES = {
    "wmma",
    "mma",
    "mma.sp",
    "mma.block_scale",
    "mma.sp.block_scale",
    "wgmma",
    "wgmma.sp",
    "ldmatrix",
    "stmatrix",
    "movmatrix",
}

CHUNK = 120
FROM = re.compile(r"const (unsigned long long|unsigned|float|int|double) \(&from\)\[(\d+)\]\[(\d+)\]")
TO = re.compile(r"(unsigned long long|unsigned) \(&to\)\[(\d+)\]\[(\d+)\]")
WORD = {"float": np.float32, "int": np.int32, "unsigned": np.uint32, "unsigned long long": np.uint64}


class Case(NamedTuple):
    """`body` is what a thread does: it reads what is `given` from `input`, and then `wanted` lies in `made`.

    `of`: what the code was made for.
    """

    of: str
    code: str
    body: str
    threads: int
    given: bytes
    wanted: bytes
    made: str = "output"


class Tried(NamedTuple):
    """How many functions were made, how many of them differ in their text and were run, and the wrong ones."""

    functions: int
    run: int
    wrong: list

    def __str__(self):
        return f"{self.functions} functions tried, {self.run} of them different, {len(self.wrong)} wrong"


def tried(folder, cases, before=""):
    """Run cases, those of the same text and data once; the text `before` stands above all."""
    cases = list(cases)
    different = list({case._replace(of=""): case for case in cases}.values())
    wrong = []
    for start in range(0, len(different), CHUNK):
        part = different[start : start + CHUNK]
        codes = [before, *dict.fromkeys(renamed(case.code, number) for number, case in enumerate(part))]
        codes += [f"void case{number}() {{ {renamed(case.body, number)} }}" for number, case in enumerate(part)]
        out = host_cuda.execute(folder, codes, map(call, range(len(part)), part), b"".join(c.given for c in part))
        for case in part:
            found, out = out[: len(case.wanted)], out[len(case.wanted) :]
            wrong += [case.of] if found != case.wanted else []
        assert not out
    return Tried(len(cases), len(different), wrong)


def renamed(text, number):
    """With the function f called otherwise in each case."""
    return re.sub(r"\bf(_registers|_k|_total)?\(", rf"f{number}\1(", text)


def call(number, case):
    return f"step({case.threads}, {len(case.given)}, {len(case.wanted)}, {case.made}, case{number});"


def uncommented(code):
    """Without what a comment says of the fragment, so that equal code is run once."""
    return re.sub(r"^ *//.*\n", "", code, flags=re.MULTILINE)


# which tables


@cache
def cells():
    """A matrix of every family, type and layout, on the last arch that has it."""
    found = {}
    for cell in for_emit([f for f in inventory.fragments().values() if f.role in WHOLE], "all", published()):
        fragment = cell.fragment
        if None not in cell.table.cells:
            found[fragment.family, fragment.operand, fragment.type, fragment.slot_bits, cell.table.id] = cell
    return list(found.values())


def of_role(role):
    """Every layout that an operand of a role has, for each selector."""
    listed = for_emit([f for f in inventory.fragments().values() if f.role is role], "all", published())
    return list({(c.fragment.family, c.table.id): c for c in selected(listed, None, every=True)}.values())


@cache
def on(name):
    """Every matrix that an arch has a table of."""
    fragments = select(device=arch(name))
    return emittable([f for f in fragments if f.role in WHOLE], name, published())[0]


def spread(found, every):
    """Of each family and operand every so many, the smallest among them."""

    def kind(cell):
        return cell.fragment.family, cell.fragment.operand

    ordered = sorted(found, key=lambda cell: (kind(cell), cell.table.points))
    return [cell for _, group in groupby(ordered, kind) for cell in list(group)[::every]]


def element(cell, row, col, number_of_product=0):
    """A number of its own for each element, not in the order of rows."""
    return (row * 37 + col * 11 + number_of_product * 101) % 257 - 100


def held(cell):
    """The numbers that threads hold, [thread, i]."""
    return np.array([element(cell, *at) for at in cell.table.cells], np.float32).reshape(cell.table.threads, -1)


# of a fragment's elements
ELEMENTS = """float own[{elements}], out[{results}] = {{}};
  memcpy(own, MINE(input, own), sizeof own);
  {use}
  memcpy(MINE(output, {made}), {made}, sizeof {made});"""


# reduce


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
            found = reduce(cell, over, op, "f", size)
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
            found = reduce(cell, "row", "softmax", "f", size)
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


# convert


class Matrix(NamedTuple):
    """What the fragments of one side hold: `ids` [warp, row, col] of the matrix that each warp's band is."""

    ids: np.ndarray
    cell: object
    tiles: int

    def held(self, at=lambda row, col: (row, col)):
        """[thread, tile, i]; `at` leads from rows and columns of this side to those of `ids`."""
        fragment, table = self.cell.fragment, self.cell.table
        threads = 32 * len(self.ids)
        band = fragment.rows * 32 // fragment.threads
        found = np.zeros((threads, self.tiles, table.elements), np.int64)
        for thread, tile, i in np.ndindex(*found.shape):
            warp = thread // 32
            row, col = table.cells[thread % fragment.threads * table.elements + i]
            row -= warp * band if fragment.threads > 32 else 0
            down, right = divmod(tile, self.across(at) // fragment.cols)
            found[thread, tile, i] = self.ids[warp][at(row + down * band, col + right * fragment.cols)]
        return found

    def across(self, at):
        """Columns of this side's matrix."""
        return self.ids.shape[1 if at(0, 1)[0] else 2]


def packed(values, bits, word):
    """Elements as registers hold them, low bits first."""
    word_bits = 8 * np.dtype(word).itemsize
    size = word_bits // bits
    parts = (values.astype(np.uint64) & np.uint64((1 << bits) - 1)).reshape(*values.shape[:-1], -1, size)
    shifts = (np.arange(size) * bits).astype(np.uint64)
    return np.bitwise_or.reduce(parts << shifts, axis=-1).astype(word)


CONVERT = """{type} from[{tiles}][{count}];
  {word} to[{to_tiles}][{to_count}];
  memcpy(from, MINE(input, from), sizeof from);
  f(from, to);
  memcpy(MINE(output, to), to, sizeof to);"""
ORDER = "for (int k = 0; k < {k} && !running; ++k) ((int*)(output + {at}))[k] = f_k(k);"


def conversions(pairs, transposes=(False,), permutes=(False,)):
    """`convert`, with --transpose and --permute-k too."""
    for (source, target), transpose, permute in product(pairs, transposes, permutes):
        try:
            found = convert(source, target, transpose, permute, "f")
        except UsageError:
            continue
        if found.code:
            yield conversion(source, target, found)


def conversion(source, target, found):
    tiles, threads = found.tiling, max(source.fragment.threads, target.fragment.threads)
    size, most = (threads // 32, tiles.rows, tiles.cols), 1 << min(20, source.fragment.slot_bits)
    ids = np.random.default_rng(5).integers(0, most, size)

    def at(row, col):
        if tiles.order:
            row, col = (row, tiles.order[col]) if target.fragment.operand == "a" else (tiles.order[row], col)
        return (col, row) if tiles.transpose else (row, col)

    type_, count, each = FROM.search(found.code).groups()
    word, to_count, to_each = TO.search(found.code).groups()
    given = as_given(Matrix(ids, source, int(count)).held(), source.fragment.slot_bits, type_)
    wanted = packed(Matrix(ids, target, int(to_count)).held(at), target.fragment.slot_bits, WORD[word])
    body = CONVERT.format(type=type_, word=word, tiles=count, count=each, to_tiles=to_count, to_count=to_each)
    body += ORDER.format(k=len(tiles.order), at=wanted.nbytes) if tiles.order else ""
    how = " transposed" * tiles.transpose + " permuted" * bool(tiles.order)
    what = f"{source.fragment.id} to {target.fragment.id} on {source.arch}{how}"
    wanted = wanted.tobytes() + np.array(tiles.order, np.int32).tobytes()
    return Case(what, uncommented(found.code), body, threads, given.tobytes(), wanted)


def as_given(numbers, bits, type_):
    """Numbers of elements as the parameter `from` has them."""
    return numbers.astype(WORD[type_]) if type_ in ("float", "int") else packed(numbers, bits, WORD[type_])


STORE = """{type} from[1][{count}];
  memcpy(from, MINE(input, from), sizeof from);
  f(0, running, from);"""


def stores(cells_, options_):
    """`convert ... stmatrix`."""
    for cell, options in product(cells_, options_):
        try:
            found = plan_store_code(cell, StoreOptions(*options), "f")
        except UsageError:
            continue
        fragment, code = cell.fragment, found.conversion.code
        ids = np.random.default_rng(7).integers(0, 1 << min(20, fragment.slot_bits), (fragment.rows, fragment.cols))
        row, col = (np.array(cell.table.values[name]).reshape(fragment.threads, -1) for name in ("row", "col"))
        type_, _, count = FROM.search(code).groups()
        given, memory = as_given(ids[row, col], fragment.slot_bits, type_), stored(found, ids)
        what, body = f"{fragment.id} by {' '.join(map(str, options))}", STORE.format(type=type_, count=count)
        yield Case(what, uncommented(code), body, fragment.threads, given.tobytes(), memory.tobytes(), "memory")


def stored(found, ids):
    """Shared memory with every byte of a tile in its place."""
    tile = found.tile
    memory = np.full(found.shared.bytes(tile), 0xEE, np.uint8)
    for r, c, byte in np.ndindex(tile.rows, tile.cols, tile.bits // 8):
        line, place = (r, c) if tile.contiguous == "row" else (c, r)
        memory[found.shared.offset(tile, line, place * tile.bits // 8 + byte)] = ids[r, c] >> 8 * byte & 255
    return memory
