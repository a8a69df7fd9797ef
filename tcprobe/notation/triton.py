"""Triton's layouts of two dimensions, as linear layouts: bases of register, lane, warp and block, or of offset.

>>> found = bases_over(read("#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [2, 1], "
...     "order = [1, 0]}>"), (16, 16))
>>> found.bases["lane"], found.bases["warp"], found.sizes
([(0, 4), (0, 8), (1, 0), (2, 0), (4, 0)], [(8, 0)], [16, 16])

An attribute is written as in Triton's IR, with others that it names before it (`#mma = ...`), or as the class of Gluon
that makes it. What a parameter means is Triton's: lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp, as compiled
into triton 3.9, which tests ask for each layout's bases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tcprobe.errors import UsageError
from tcprobe.notation.tokens import Reader, Token

REGISTERS = ("register", "lane", "warp", "block")
OFFSET = "offset"
RANK = 2
BOX = 256  # the most elements of a side of a TMA box
Basis = tuple[int, int]


class Attribute(NamedTuple):
    """A layout as it is written: `kind` is Triton's name (nvidia_mma), `values` by Triton's names; where it begins."""

    kind: str
    values: Mapping[str, Any]
    token: Token
    reader: Reader

    def fail(self, words: str) -> UsageError:
        """The error with the place where the attribute begins."""
        return UsageError(f"column {self.token.column} of the layout: {self.kind}: {words}.")

    def number(self, name: str, default: int | None = None) -> int:
        """A parameter that is a number."""
        value = self.values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail(f"{name} is missing" if value is None else f"{name} is not a number")
        return value

    def flag(self, name: str) -> bool:
        """A parameter that is true or false, which it is where it is missing."""
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise self.fail(f"{name} is neither true nor false")
        return value

    def numbers(self, name: str, count: int = RANK) -> list[int]:
        """A parameter that is so many powers of two, or an order."""
        value = self.values.get(name)
        if value is None:
            raise self.fail(f"{name} is missing")
        if not isinstance(value, list) or not all(type(each) is int for each in value):
            raise self.fail(f"{name} is not a list of numbers")
        if len(value) != count:
            raise self.fail(
                f"{name} has {len(value)} numbers; layouts of {RANK} dimensions are read, which need {count}"
            )
        if name != "order" and not all(each > 0 and each & each - 1 == 0 for each in value):
            raise self.fail(f"{name} {value} are not powers of two")
        if name == "order" and sorted(value) != list(range(count)):
            raise self.fail(f"order {value} is no order of {count} dimensions")
        return value

    def bases(self, name: str) -> list[Basis]:
        """A parameter that is a list of bases (row, col), none where it is missing."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(each, list) and len(each) == RANK and all(type(n) is int and n >= 0 for n in each)
            for each in value
        ):
            raise self.fail(f"{name} is not a list of bases [row, col]")
        return [(each[0], each[1]) for each in value]


# by Triton's name: what it takes, in the order of Gluon's class; that class, with its own names of them
class Kind(NamedTuple):
    """What an attribute takes: Gluon's class, and its parameters by Gluon's name, in order, with Triton's names."""

    gluon: str
    parameters: Mapping[str, str]
    optional: frozenset[str] = frozenset({"CGALayout"})


KINDS: dict[str, Kind] = {
    "blocked": Kind(
        "BlockedLayout",
        {
            "size_per_thread": "sizePerThread",
            "threads_per_warp": "threadsPerWarp",
            "warps_per_cta": "warpsPerCTA",
            "order": "order",
            "cga_layout": "CGALayout",
        },
    ),
    "nvidia_mma": Kind(
        "NVMMADistributedLayout",
        {
            "version": "version",
            "warps_per_cta": "warpsPerCTA",
            "instr_shape": "instrShape",
            "cga_layout": "CGALayout",
        },
        frozenset({"CGALayout", "version", "versionMajor", "versionMinor"}),
    ),
    "dot_op": Kind(
        "DotOperandLayout", {"operand_index": "opIdx", "parent": "parent", "k_width": "kWidth"}, frozenset({"kWidth"})
    ),
    "slice": Kind("SliceLayout", {"dim": "dim", "parent": "parent"}, frozenset()),
    "linear": Kind(
        "DistributedLinearLayout",
        {
            "reg_bases": "register",
            "lane_bases": "lane",
            "warp_bases": "warp",
            "block_bases": "block",
            "shape": "shape",
        },
        frozenset({"shape"}),
    ),
    "nvmma_shared": Kind(
        "NVMMASharedLayout",
        {
            "swizzle_byte_width": "swizzlingByteWidth",
            "element_bitwidth": "elementBitWidth",
            "rank": "rank",
            "transposed": "transposed",
            "fp4_padded": "fp4Padded",
            "cga_layout": "CGALayout",
        },
        frozenset({"rank", "transposed", "fp4Padded", "CGALayout"}),
    ),
    "swizzled_shared": Kind(
        "SwizzledSharedLayout",
        {
            "vec": "vec",
            "per_phase": "perPhase",
            "max_phase": "maxPhase",
            "order": "order",
            "cga_layout": "CGALayout",
        },
    ),
    "shared_linear": Kind(
        "SharedLinearLayout",
        {"offset_bases": "offset", "block_bases": "block", "alignment": "alignment"},
        frozenset({"block", "alignment"}),
    ),
}
GLUON = {kind.gluon: name for name, kind in KINDS.items()}
SHARED = ("nvmma_shared", "swizzled_shared", "shared_linear")
_TTG = re.compile(r"#ttg\.(\w+)")
# of CTAs that share a tensor, as Triton writes them before CGALayout and with it
_CTAS = ("CTAsPerCGA", "CTASplitNum", "CTAOrder")


def read(text: str) -> Attribute:
    """The last attribute of a text; UsageError with the column of what is none."""
    reader, named = Reader(text), dict[str, Attribute]()
    while True:
        found, name = _definition(reader, named)
        named[name] = found
        if not reader.next.text:
            return found


def _definition(reader: Reader, named: Mapping[str, Attribute]) -> tuple[Attribute, str]:
    """One attribute, and its name if it is `#name = ...`."""
    name = ""
    if reader.next.text.startswith("#") and not reader.next.text.startswith("#ttg."):
        name = reader.take().text
        if not reader.next.text and name in named:
            return named[name], name
        reader.expect("=")
    return _attribute(reader, named), name


def _attribute(reader: Reader, named: Mapping[str, Attribute]) -> Attribute:
    token = reader.name("a layout of Triton, #ttg.blocked<{...}>, or of Gluon, BlockedLayout(...),")
    if token.text in named:
        return named[token.text]
    with reader.nested():
        if match := _TTG.fullmatch(token.text):
            kind = match[1]
            if kind not in KINDS:
                reader.fail(
                    f"#ttg.{kind[:40]} is not read; known: {', '.join(f'#ttg.{each}' for each in KINDS)}", token
                )
            reader.expect("<")
            reader.expect("{")
            values = _pairs(reader, KINDS[kind], named, "}", list(KINDS[kind].parameters.values()))
            if reader.accept(","):  # alignment of a shared_linear stands outside the braces
                _outside(reader, values)
            reader.expect(">")
        else:
            short = token.text.rpartition(".")[2]
            if short not in GLUON:
                reader.fail(f"{token.text[:40]} is not a layout; known: {', '.join(GLUON)}", token)
            kind = GLUON[short]
            reader.expect("(")
            values = _arguments(reader, KINDS[kind], named)
    found = Attribute(kind, values, token, reader)
    missing = [
        name
        for name in KINDS[kind].parameters.values()
        if name not in values and name not in KINDS[kind].optional and name not in ("warp", "block", "register")
    ]
    if missing:
        raise found.fail(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return found


def _outside(reader: Reader, values: dict[str, Any]) -> None:
    """alignment = 16, after the braces."""
    key = reader.name("a parameter")
    if key.text != "alignment":
        reader.fail(f"{key.text[:40]} is not a parameter here", key)
    reader.expect("=")
    values["alignment"] = reader.number()


def _pairs(
    reader: Reader, kind: Kind, named: Mapping[str, Attribute], close: str, known: Sequence[str]
) -> dict[str, Any]:
    """name = value, with commas between them."""
    values: dict[str, Any] = {}
    allowed = {*known, *kind.optional, *_CTAS} - {"version"}

    def pair() -> None:
        key = reader.name("the name of a parameter")
        if key.text not in allowed:
            reader.fail(
                f"{key.text[:40]} is not a parameter here; known: {', '.join(sorted(allowed - set(_CTAS)))}", key
            )
        if key.text in values:
            reader.fail(f"{key.text} is given twice", key)
        reader.expect("=")
        values[key.text] = _value(reader, named)

    reader.items(close, pair)
    return values


def _arguments(reader: Reader, kind: Kind, named: Mapping[str, Attribute]) -> dict[str, Any]:
    """Gluon's arguments, by position or by name, by Triton's names."""
    values: dict[str, Any] = {}
    names, by_name = list(kind.parameters), False

    def argument() -> None:
        nonlocal by_name
        token = reader.next
        if token.text in kind.parameters or (token.is_name and not _begins_value(token.text)):
            key = reader.take().text
            by_name = True
            if key not in kind.parameters:
                reader.fail(f"{key[:40]} is not a parameter; known: {', '.join(names)}", token)
            reader.expect("=")
        else:
            if by_name:
                reader.fail("an argument without a name after one that has one")
            if len(values) >= len(names):
                reader.fail(f"more than {len(names)} arguments")
            key = names[len(values)]
        if kind.parameters[key] in values:
            reader.fail(f"{key} is given twice", token)
        values[kind.parameters[key]] = _value(reader, named)

    reader.items(")", argument)
    return {name: value for name, value in values.items() if value is not None}


def _begins_value(text: str) -> bool:
    return text in ("True", "False", "true", "false", "None") or text.rpartition(".")[2] in GLUON or text[0] == "#"


def _value(reader: Reader, named: Mapping[str, Attribute]) -> Any:
    if reader.accept("["):
        return reader.items("]", lambda: _value(reader, named))
    if reader.accept("True", "true"):
        return True
    if reader.accept("False", "false"):
        return False
    if reader.accept("None"):
        return None
    if reader.next.is_name:
        return _attribute(reader, named)
    return reader.number()


@dataclass
class Linear:
    """`bases` of each input, by bit; `sizes` of both outputs, and in which `order` these are counted through."""

    bases: dict[str, list[Basis]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=lambda: [1, 1])
    order: Sequence[int] = (1, 0)

    def extend(self, axis: str, size: int, dim: int, moves: bool = True) -> None:
        """`size` more values of an input, along an output, or at one place of it unless it `moves`."""
        into = self.bases.setdefault(axis, [])
        for bit in range(size.bit_length() - 1):
            step = self.sizes[dim] << bit if moves else 0
            into.append((step, 0) if dim == 0 else (0, step))
        if moves:
            self.sizes[dim] *= size

    def fill(self, shape: Sequence[int], axis: str, order: Iterable[int]) -> None:
        """More of an input until a shape is covered."""
        for dim in order:
            if self.sizes[dim] < shape[dim]:
                self.extend(axis, shape[dim] // self.sizes[dim], dim)

    def cut(self, shape: Sequence[int]) -> None:
        """What lies beyond a shape is at 0 again: several slots hold what is left."""
        for dim in (0, 1):
            places = sorted(
                (
                    (basis[dim], axis, bit)
                    for axis, of in self.bases.items()
                    for bit, basis in enumerate(of)
                    if basis[dim]
                ),
                key=lambda place: -place[0],
            )
            for _, axis, bit in places:
                if self.sizes[dim] <= shape[dim]:
                    break
                basis = list(self.bases[axis][bit])
                basis[dim] = 0
                self.bases[axis][bit] = (basis[0], basis[1])
                self.sizes[dim] >>= 1


def bases_over(attribute: Attribute, shape: tuple[int, int]) -> Linear:
    """The linear layout of an attribute over a shape of powers of two; UsageError where it has none."""
    if any(side < 1 or side & side - 1 for side in shape):
        raise UsageError(f"a tile of {shape[0]} x {shape[1]}: Triton's layouts need powers of two.")
    return _MAKERS[attribute.kind](attribute, shape)


def least_shape(attribute: Attribute) -> tuple[int, int]:
    """The smallest tile in which no two slots of a thread hold one element."""
    if attribute.kind in ("linear", "shared_linear"):
        names = REGISTERS if attribute.kind == "linear" else ("offset", "block")
        if attribute.values.get("shape") is not None:
            rows, cols = attribute.numbers("shape")
            return rows, cols
        every = [basis for name in names for basis in attribute.bases(name)]
        rows, cols = (1 << max([basis[dim] for basis in every] or [0]).bit_length() for dim in (0, 1))
        return rows, cols
    if attribute.kind in SHARED:
        raise UsageError(f"a tile is needed for {attribute.kind}: say it with `tile`, such as 64x64.")
    found = _MAKERS[attribute.kind](attribute, None)
    return found.sizes[0], found.sizes[1]


Shape = tuple[int, int] | None


def _blocked(attribute: Attribute, shape: Shape) -> Linear:
    order = attribute.numbers("order")
    made = Linear(order=order)
    for axis, name in (("register", "sizePerThread"), ("lane", "threadsPerWarp"), ("warp", "warpsPerCTA")):
        sizes = attribute.numbers(name)
        made.bases[axis] = made.bases.get(axis, [])
        for dim in order:
            made.extend(axis, sizes[dim], dim)
    made = _over(made, attribute, shape)
    # since 3.9 a thread has no registers beside those that the shape needs
    made.bases["register"] = [basis for basis in made.bases["register"] if basis != (0, 0)]
    return made


def _mma_tile(made: Linear, tile: Sequence[int], width: int, inner: int) -> None:
    """Registers and lanes of one multiply: `width` elements along `inner`, 4 lanes, 8 lanes across, and the rest."""
    outer = 1 - inner
    made.extend("register", width, inner)
    made.extend("lane", 4, inner)
    made.extend("lane", 8, outer)
    made.extend("register", tile[outer] // 8, outer)
    made.extend("register", tile[inner] // (4 * width), inner)


def _version(attribute: Attribute) -> int:
    """The major version: 2 of mma.sync, 3 of wgmma; a number, or the first of Gluon's [major, minor]."""
    version = attribute.values.get("version")
    if version is None:
        return attribute.number("versionMajor")
    if not isinstance(version, list) or not version or type(version[0]) is not int:
        raise attribute.fail("version is not [major, minor]")
    return version[0]


def multiply_family(attribute: Attribute) -> str:
    """The family of the multiplies that a layout is for: mma of version 2, wgmma of 3; empty where it is for none."""
    of = attribute.values.get("parent") if attribute.kind == "dot_op" else attribute
    is_multiply = isinstance(of, Attribute) and of.kind == "nvidia_mma"
    return {2: "mma", 3: "wgmma"}.get(_version(of), "") if is_multiply else ""  # type: ignore[arg-type]


def _nvidia_mma(attribute: Attribute, shape: Shape) -> Linear:
    version, warps = _version(attribute), attribute.numbers("warpsPerCTA")
    if version not in (2, 3):
        raise attribute.fail(f"version {version} has no layout in registers; 2 (mma.sync) and 3 (wgmma) have")
    given = attribute.values.get("instrShape")
    if (
        not isinstance(given, list)
        or not all(type(side) is int and side > 0 for side in given)
        or len(given) not in (2, 3)
    ):
        raise attribute.fail("instrShape is not [m, n] or [m, n, k]")
    tile = (16, 8) if version == 2 else (given[0], given[1])
    if version == 3 and (tile[0] != 16 or tile[1] % 8 or tile[1] & tile[1] - 1):
        raise attribute.fail(f"instrShape {given} is not 16 rows of a warp and a power of two of columns from 8 on")
    if version == 2 and (given[0], given[1]) != tile:
        raise attribute.fail(f"instrShape {given} is not that of a multiply of version 2, [16, 8]")
    made = Linear(order=(1, 0))
    _mma_tile(made, tile, 2, 1)
    made.bases["warp"] = []
    for dim in (0, 1) if version == 3 else (1, 0):
        made.extend("warp", warps[dim], dim)
    return _over(made, attribute, shape)


def _dot_op(attribute: Attribute, shape: Shape) -> Linear:
    parent, operand = attribute.values.get("parent"), attribute.number("opIdx")
    if operand not in (0, 1):
        raise attribute.fail(f"opIdx {operand} is neither 0 nor 1")
    if not isinstance(parent, Attribute) or parent.kind not in ("nvidia_mma", "blocked"):
        raise attribute.fail("its parent is neither nvidia_mma nor blocked")
    k = 1 - operand
    if parent.kind == "blocked":
        return _dot_of_blocked(attribute, parent, k, shape)
    version, warps, width = _version(parent), parent.numbers("warpsPerCTA"), attribute.number("kWidth")
    if width not in (1, 2, 4, 8, 16):
        raise attribute.fail(f"kWidth {width} is not 1, 2, 4, 8 or 16")
    if (version == 3 and operand == 1) or version not in (2, 3):
        raise attribute.fail(f"operand {operand} of version {version} is not in registers")
    made = Linear(order=(1, 0) if operand == 0 else (0, 1))
    _mma_tile(made, (16, 8 * width) if operand == 0 else (8 * width, 8), width, k)
    made.bases["warp"] = []
    for dim in (0, 1) if version == 3 else (1, 0):
        made.extend("warp", warps[dim], dim, moves=dim != k)
    return _over(made, parent, shape, k)


def _dot_of_blocked(attribute: Attribute, parent: Attribute, k: int, shape: Shape) -> Linear:
    if attribute.values.get("kWidth", 0) not in (0, 1):
        raise attribute.fail("kWidth goes with nvidia_mma alone")
    order, sizes = parent.numbers("order"), parent.numbers("sizePerThread")
    made = Linear(order=order)
    made.bases["register"] = []
    for dim in order:
        made.extend("register", sizes[dim] if dim != k else shape[k] if shape else 1, dim)
    for axis, name in (("lane", "threadsPerWarp"), ("warp", "warpsPerCTA")):
        made.bases[axis] = []
        for dim in order:
            made.extend(axis, parent.numbers(name)[dim], dim, moves=dim != k)
    return _over(made, parent, shape, k)


def _slice(attribute: Attribute, shape: Shape) -> Linear:
    """What is left of a parent without one dimension, whose side is 1."""
    parent, dim = attribute.values.get("parent"), attribute.number("dim")
    if not isinstance(parent, Attribute) or parent.kind in SHARED or dim not in (0, 1):
        raise attribute.fail("a slice has dim 0 or 1 and a parent in registers")
    if shape is not None and shape[dim] != 1:
        raise attribute.fail(
            f"a slice along dimension {dim} is over {'1 x N' if dim == 0 else 'N x 1'}, not {shape[0]} x {shape[1]}"
        )
    if shape is None:
        whole = list(_MAKERS[parent.kind](parent, None).sizes)
        whole[dim] = 1
        shape = (whole[0], whole[1])
    made = _MAKERS[parent.kind](parent, shape)
    made.bases["register"] = [basis for basis in made.bases.get("register", []) if basis != (0, 0)]
    return made


def _linear(attribute: Attribute, shape: Shape) -> Linear:
    """The bases as they are; repeated in registers over a larger shape, and cut to a smaller one."""
    made = Linear({name: attribute.bases(name) for name in REGISTERS if attribute.values.get(name)})
    rows, cols = least_shape(attribute)
    made.sizes = [rows, cols]
    if shape is None or shape == (rows, cols):
        return made
    registers = made.bases.setdefault("register", [])
    made.fill(shape, "register", dict.fromkeys((*(0 if row else 1 for row, col in registers if row or col), 1, 0)))
    whole = list(registers)
    made.cut(shape)
    # a register that a cut leaves without a place of its own is none
    made.bases["register"] = [
        basis for basis, before in zip(made.bases["register"], whole, strict=True) if basis == before
    ]
    return made


def _ctas(
    attribute: Attribute, made: Linear, shape: tuple[int, int], k: int | None
) -> tuple[list[Basis], tuple[int, int]]:
    """Bases of the CTAs that share a tensor, over the shape of each; along k of a factor all have the same."""
    del made
    bases: list[Basis] = []
    if attribute.values.get("CGALayout"):
        bases = attribute.bases("CGALayout")
    elif any(name in attribute.values for name in _CTAS):
        ctas, splits, order = (attribute.values.get(name) for name in _CTAS)
        if not all(isinstance(each, list) and len(each) == RANK for each in (ctas, splits, order)):
            raise attribute.fail(f"{', '.join(_CTAS)} are lists of {RANK} numbers, all or none of them given")
        assert isinstance(ctas, list)
        assert isinstance(splits, list)
        assert isinstance(order, list)
        shared = Linear(order=order)
        for dim in order:
            shared.extend("block", splits[dim], dim)
            shared.extend("block", ctas[dim] // max(1, splits[dim]), dim, moves=False)
        bases = shared.bases.get("block", [])
    if k is not None:
        bases = [(0, basis[1]) if k == 0 else (basis[0], 0) for basis in bases]
    split = Linear({"block": list(bases)}, [1 << max([b[dim] for b in bases] or [0]).bit_length() for dim in (0, 1)])
    split.cut(shape)
    rows, cols = (max(1, side // own) for side, own in zip(shape, split.sizes, strict=True))
    return [(basis[0] * rows, basis[1] * cols) for basis in split.bases["block"]], (rows, cols)


def _over(made: Linear, attribute: Attribute, shape: Shape, k: int | None = None) -> Linear:
    """The layout of a CTA repeated, or cut, until it covers the shape; then the CTAs of a cluster."""
    if shape is None:
        return made
    blocks, own = _ctas(attribute, made, shape, k)
    made.fill(own, OFFSET if OFFSET in made.bases else "register", made.order)
    made.cut(own)
    made.bases["block"] = blocks
    made.sizes = list(shape)
    return made


def _swizzled_shared(attribute: Attribute, shape: Shape) -> Linear:
    assert shape is not None
    order = attribute.numbers("order")
    vec, per_phase, most = (attribute.number(name) for name in ("vec", "perPhase", "maxPhase"))
    if min(vec, per_phase, most) < 1 or any(each & each - 1 for each in (vec, per_phase, most)):
        raise attribute.fail("vec, perPhase and maxPhase are powers of two")
    blocks, own = _ctas(attribute, Linear(), shape, None)
    col, row = order
    made = Linear({OFFSET: []}, [1, 1], order)
    made.extend(OFFSET, own[col], col)
    for bit in range(own[row].bit_length() - 1):
        place = [0, 0]
        place[row] = 1 << bit
        place[col] = vec * ((1 << bit) // per_phase % most) % own[col]
        made.bases[OFFSET].append((place[0], place[1]))
    made.bases["block"], made.sizes = blocks, list(shape)
    return made


_PHASES = {32: (4, 2), 64: (2, 4), 128: (1, 8)}  # by bytes of a row of the pattern: rows of a phase, and phases


def _nvmma_shared(attribute: Attribute, shape: Shape) -> Linear:
    assert shape is not None
    width, bits = attribute.number("swizzlingByteWidth"), attribute.number("elementBitWidth")
    if width not in (0, *_PHASES) or bits not in (8, 16, 32):
        raise attribute.fail(f"swizzlingByteWidth {width} is 0, 32, 64 or 128, and elementBitWidth {bits} 8, 16 or 32")
    if attribute.number("rank", RANK) != RANK:
        raise attribute.fail(f"layouts of {RANK} dimensions are read")
    if attribute.flag("fp4Padded"):
        raise attribute.fail("fp4Padded has offsets without an element, which no linear layout has")
    turned = attribute.flag("transposed")
    blocks, own = _ctas(attribute, Linear(), shape, None)
    row, col = (1, 0) if turned else (0, 1)
    box = [0, 0]
    box[col] = min(own[col], BOX if not width else 8 * width // bits)
    box[row] = min(own[row], BOX)
    made = Linear({OFFSET: []}, [1, 1], (col, row))
    if not width:
        made.fill(box, OFFSET, (col, row))
    else:
        rows, cols, vec, (per_phase, phases) = 8, 8 * width // bits, 128 // bits, _PHASES[width]
        if box[col] < cols or box[row] < rows:
            raise attribute.fail(f"{own[0]} x {own[1]} of a CTA is smaller than the pattern's {rows} x {cols}")
        made.extend(OFFSET, cols, col)
        for bit in range(3):
            place = [0, 0]
            place[row], place[col] = 1 << bit, vec * ((1 << bit) // per_phase % phases)
            made.bases[OFFSET].append((place[0], place[1]))
        made.sizes[row] = rows
        made.fill(box, OFFSET, (row, col))
    made.fill(own, OFFSET, (0, 1))
    made.bases["block"], made.sizes = blocks, list(shape)
    return made


def _shared_linear(attribute: Attribute, shape: Shape) -> Linear:
    rows, cols = least_shape(attribute)
    if shape not in (None, (rows, cols)):
        assert shape is not None
        raise attribute.fail(f"its bases reach {rows} x {cols}, not {shape[0]} x {shape[1]}")
    return Linear({name: attribute.bases(name) for name in (OFFSET, "block")}, [rows, cols])


_MAKERS: dict[str, Callable[[Attribute, Any], Linear]] = {
    "blocked": _blocked,
    "nvidia_mma": _nvidia_mma,
    "dot_op": _dot_op,
    "slice": _slice,
    "linear": _linear,
    "nvmma_shared": _nvmma_shared,
    "swizzled_shared": _swizzled_shared,
    "shared_linear": _shared_linear,
}
