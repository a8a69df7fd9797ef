"""Code that commands print, as cases: each is run by all its threads on the host, and compared with the table."""

import re
from functools import cache
from itertools import groupby, product
from typing import NamedTuple

import host_cuda
import numpy as np

from tcprobe.ask.convert.conversion import plan_conversion
from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store_code
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
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
            found = plan_conversion(source, target, transpose, permute, "f")
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
    arrived, kind = Matrix(ids, target, int(to_count)).held(at), dtype(target.fragment.type)
    if source.fragment.type != kind.name and kind.bits < target.fragment.slot_bits:  # in a container
        arrived = (arrived & ((1 << kind.bits) - 1)) << kind.container_shift
    wanted = packed(arrived, target.fragment.slot_bits, WORD[word])
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
