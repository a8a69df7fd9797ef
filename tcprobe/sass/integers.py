"""What integer instructions make of what lanes hold, one function an opcode: registers, predicates and addresses.

Results are by number of an output its low register, and by HIGH more the one behind it; of what is not followed there
is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.opcodes import of_kind
from tcprobe.layout.arrays import Array
from tcprobe.sass import lanes
from tcprobe.sass.decode import Form, Operand
from tcprobe.sass.lanes import CHOICE, UNKNOWN, Lanes, constant
from tcprobe.sass.reader import Reader
from tcprobe.sass.registers import BASE
from tcprobe.sass.state import Held, held_in

HIGH = 100
Model = Callable[[Reader, Form, Held], dict[int, Lanes]]
MODELLED: dict[str, Model] = {}


def _models(*mnemonics: str) -> Callable[[Model], Model]:
    def register(function: Model) -> Model:
        MODELLED.update(dict.fromkeys(mnemonics, function))
        return function

    return register


def _sources(reader: Reader, form: Form, held: Held) -> list[Lanes]:
    return [reader.read(operand, held) for operand in form.operands[form.outputs :]]


@_models("MOV", "UMOV")
def _mov(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    return {0: reader.read(form.operands[1], held)} if len(form.operands) >= 2 and "64" not in form.opcode else {}


@_models("R2UR", "CS2UR")
def _to_uniform(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    value = reader.read(form.operands[-1], held)
    return {form.outputs - 1: value if value.uniform else UNKNOWN}


@_models("LDC", "LDCU", "ULDC")
def _load_constant(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    return {0: reader.read(form.operands[1], held)} if form.opcode in ("LDC", "LDCU", "ULDC") else {}


@_models(*of_kind("special register"))
def _special(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    name = form.operands[1].text
    if name in TID:
        value = reader.threads.tid[TID.index(name)]
        return {0: value if form.mnemonic == "S2R" or value.uniform else UNKNOWN}
    if name == "SR_LANEID":
        return {0: lanes.made(np.arange(WARP, dtype=np.uint32)[None])}
    if name == "SRZ":
        return {0: constant(0)}
    if name == "SR_CgaCtaId":
        return {0: lanes.made(np.zeros((1, 1), np.uint32), 0, MOST_CLUSTER - 1)}
    return {0: UNKNOWN if name.startswith(ALIKE) else lanes.unknown(f"{name} is not followed")}


TID = ("SR_TID.X", "SR_TID.Y", "SR_TID.Z")
ALIKE = ("SR_CTAID", "SR_NCTAID", "SR_NTID", "SR_WARPID", "SR_VIRTID", "SR_SMEMSZ", "SR_SWINHI", "SR_Cga", "SR_SWINLO")
MOST_CLUSTER = 16  # blocks of a cluster


@_models("IADD3", "UIADD3", "IADD", "VIADD", "UIADD", "UVIADD")
def _add(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    sources = form.operands[form.outputs :]
    if form.has("64"):
        pairs = [_pair(reader, operand, held) for operand in sources if operand.kind not in ("P", "UP")][:2]
        if all(half.exact for pair in pairs for half in pair):
            (a, above), (b, beside) = ((pair[0].known, pair[1].known) for pair in pairs)
            return {0: lanes.made(a + b), HIGH: lanes.made(above + beside + (a + b < b))}
        low, carry = _sum([each for each, _ in pairs], sources)
        high = lanes.add(lanes.add(pairs[0][1], pairs[1][1]), carry or CHOICE)
        return {0: low, HIGH: high}
    values = [reader.read(o, held) for o in sources if o.kind not in ("P", "UP") or form.has("X")]
    total, carry = _sum(values, sources)
    return {0: total, 1: carry} if carry and form.outputs > 1 and not form.has("X") else {0: total}


def _sum(values: Sequence[Lanes], operands: Sequence[Operand]) -> tuple[Lanes, Lanes | None]:
    """The sum, and its carry where there can be none."""
    total = constant(0)
    for value in values:
        total = lanes.add(total, value)
    plain = not any(operand.sign in ("-", "~") for operand in operands)
    return total, constant(0) if plain and sum(map(_most, values)) <= lanes.ALL else None


def _most(value: Lanes) -> int:
    """The largest number that a value may be."""
    return int(value.known.max()) + value.xor_unknown + value.add_unknown + (lanes.ALL + 1 if value.unknown else 0)


def _pair(reader: Reader, operand: Operand, held: Held) -> tuple[Lanes, Lanes]:
    """The low and the high half of an operand of 64 bits."""
    low = reader.read(operand, held)
    if operand.kind == "number":
        return low, constant(operand.value >> 32)
    if operand.kind in ("R", "UR") and operand.first >= 0 and operand.sign != "~":
        high = held_in(operand.kind, operand.first + 1, held).value
        if operand.sign != "-":
            return low, high
        # of the negative, one is carried into the high half where the low one is 0
        return low, lanes.made(~high.known + (low.known == 0)) if low.exact and high.exact else UNKNOWN
    return low, constant(0) if operand.kind in ("R", "UR") and operand.first < 0 else UNKNOWN


@_models("IMAD", "UIMAD")
def _multiply_add(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    values = [o for o in form.operands[form.outputs :] if o.kind not in ("P", "UP")]
    if len(values) != 3:
        return {}
    a, b, c = (reader.read(operand, held) for operand in values)
    if form.has("X"):
        carries = [reader.read(o, held) for o in form.operands[form.outputs :] if o.kind in ("P", "UP")]
        total = lanes.add(lanes.multiply(a, b), c)
        return {0: lanes.add(total, carries[0])} if len(carries) == 1 else {}
    if form.has("HI"):
        return (
            {0: lanes.add(_high(a, b, not form.has("U32")), c)}
            if a.exact and b.exact and form.operands[-1].first < 0
            else {}
        )
    return {0: lanes.add(lanes.multiply(a, b), c)}


def _high(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    """The high half of a product of numbers that are known."""
    if signed:
        product = a.known.view(np.int32).astype(np.int64) * b.known.view(np.int32).astype(np.int64)
        return lanes.made((product >> 32).astype(np.uint32))
    return lanes.made((a.known.astype(np.uint64) * b.known >> np.uint64(32)).astype(np.uint32))


@_models("LEA", "ULEA")
def _scaled_add(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    values = [o for o in form.operands[form.outputs :] if o.kind not in ("P", "UP")]
    if form.has("X") or len(values) < 3 or values[-1].kind != "number":
        return {}
    shift = values[-1].value
    a, b = (reader.read(operand, held) for operand in values[:2])
    if not form.has("HI"):
        return {0: lanes.add(lanes.shift_left(a, shift), b)} if len(values) == 3 else {}
    if form.has("SX32"):
        return {0: lanes.add(lanes.shift_right(a, 32 - shift, signed=True), b)} if shift and len(values) == 3 else {}
    if len(values) == 4 and shift and values[2].kind in BASE and values[2].first < 0:
        return {0: lanes.add(lanes.shift_right(a, 32 - shift), b)}
    return {}


@_models("LOP3", "ULOP3", "LOP", "PLOP3", "UPLOP3")
def _logic(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    values, tables = _logic_operands(form)
    if len(values) != 3 or not tables:
        return {}
    a, b, c = (reader.read(operand, held) for operand in values)
    if form.mnemonic in ("PLOP3", "UPLOP3"):
        return {j: lanes.bitwise(table, a, b, c) for j, table in enumerate(tables[:2])}
    result = lanes.bitwise(tables[0], a, b, c)
    if form.outputs == 1:
        return {0: result}
    if form.operands[-1].text not in ("!PT", "!UPT"):
        return {1: result}
    truth = _nonzero(result)
    return {1: result, 0: truth} if truth else {1: result}


def _logic_operands(form: Form) -> tuple[list[Operand], list[int]]:
    """The three inputs, and the tables: one, and of predicates two."""
    rest = list(form.operands[form.outputs :])
    if form.mnemonic in ("PLOP3", "UPLOP3"):
        return rest[:3], [o.value for o in rest[3:] if o.kind == "number"]
    return rest[:3], [rest[3].value] if len(rest) > 3 and rest[3].kind == "number" else []


def _nonzero(value: Lanes) -> Lanes | None:
    """Whether a value is not 0, as a predicate; None where that is not followed."""
    if value.exact:
        return lanes.made((value.known != 0).astype(np.uint32))
    return CHOICE if value.uniform else None


@_models("SHF", "USHF")
def _shift(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    low, count, high = form.operands[form.outputs :][:3]
    if form.has("W") or count.kind != "number":
        return _shift_by_lane(reader, form, held)
    wide, signed = form.has("U64") or form.has("S64"), form.has("S32") or form.has("S64")
    a, c, shift = reader.read(low, held), reader.read(high, held), count.value
    if form.has("R") and form.has("HI"):
        return {0: lanes.shift_right(c, shift, signed)}
    if form.has("L") and not form.has("HI"):
        return {0: lanes.shift_left(a, shift)} if wide or high.first < 0 else {}
    if not wide or not 0 < shift < 32:
        return {}
    parts = (lanes.shift_right(a, shift), lanes.shift_left(c, 32 - shift))
    if form.has("L"):
        parts = (lanes.shift_left(c, shift), lanes.shift_right(a, 32 - shift))
    return {0: lanes.bitwise(lanes.OR_AB, *parts, constant(0))}


def _shift_by_lane(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    """A shift of a known number by another one."""
    low, count, high = (reader.read(operand, held) for operand in form.operands[form.outputs :][:3])
    value = high if form.has("R") else low
    other = low if form.has("R") else high
    plain = form.has("U32") and form.has("HI") == form.has("R") and other.exact and not other.known.any()
    if form.has("W") or not (plain and value.exact and count.exact) or (count.known > 31).any():
        return {}
    return {0: lanes.made(value.known >> count.known if form.has("R") else value.known << count.known)}


@_models("PRMT", "UPRMT")
def _permute(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    values = form.operands[form.outputs :]
    if form.opcode not in ("PRMT", "UPRMT") or len(values) != 3 or values[1].kind != "number":
        return {}
    a, c = reader.read(values[0], held), reader.read(values[2], held)
    total = constant(0)
    for byte in range(4):
        nibble = values[1].value >> 4 * byte & 15
        if nibble > 7:
            return {}
        moved = lanes.bitwise(
            lanes.AND_AB, lanes.shift_right(c if nibble > 3 else a, 8 * (nibble & 3)), constant(255), constant(0)
        )
        total = lanes.bitwise(lanes.OR_AB, total, lanes.shift_left(moved, 8 * byte), constant(0))
    return {0: total}


@_models("SEL", "USEL")
def _select(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    a, b, condition = _sources(reader, form, held)[:3]
    first, second = (str(operand) for operand in form.operands[form.outputs :][:2])
    return {0: a if first == second else lanes.choose(condition, a, b)}


@_models("SGXT", "USGXT")
def _sign_extend(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    value, width = form.operands[form.outputs :][:2]
    if width.kind != "number" or form.has("W") or not 0 < width.value < 32:
        return {}
    moved = lanes.shift_left(reader.read(value, held), 32 - width.value)
    return {0: lanes.shift_right(moved, 32 - width.value, signed=not form.has("U32"))}


COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "NE": np.not_equal,
    "EQ": np.equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
JOINED = {"AND": lanes.AND_AB, "OR": lanes.OR_AB, "XOR": lanes.XOR_AB}  # with another predicate


@_models("ISETP", "UISETP")
def _compare(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    modifiers = form.opcode.split(".")[1:]
    compare = next((COMPARED[m] for m in modifiers if m in COMPARED), None)
    joined = next((JOINED[m] for m in modifiers if m in JOINED), None)
    values = _sources(reader, form, held)
    if compare is None or joined is None or form.has("EX") or form.has("64") or len(values) != 3:
        return {}
    a, b, other = values
    if not (a.exact and b.exact):
        return {}
    left, right = (a.known, b.known) if form.has("U32") else (a.known.view(np.int32), b.known.view(np.int32))
    truth = compare(left, right)
    results = (lanes.made(np.asarray(t).astype(np.uint32)) for t in (truth, ~truth))
    return {j: lanes.bitwise(joined, result, other, constant(0)) for j, result in enumerate(results)}


@_models("IABS")
def _absolute(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    value = reader.read(form.operands[1], held)
    return {0: lanes.made(np.abs(value.known.view(np.int32)).view(np.uint32))} if value.exact else {}


@_models("IMNMX", "VIMNMX", "UIMNMX")
def _least(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    a, b, first = _sources(reader, form, held)[:3]
    if not (a.exact and b.exact and first.exact) or len(form.operands) != 4 or form.opcode.count(".") > 1:
        return {}
    left, right = (a.known, b.known) if form.has("U32") else (a.known.view(np.int32), b.known.view(np.int32))
    chosen = np.where(first.known != 0, np.minimum(left, right), np.maximum(left, right))
    return {0: lanes.made(chosen.view(np.uint32))}


@_models("SHFL")
def _shuffle(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    value, source, _ = _sources(reader, form, held)[:3]
    if value.uniform:
        return {form.outputs - 1: value}
    lane = form.operands[form.outputs + 1]
    whole = form.operands[form.outputs + 2].value == 0x1F
    number = 0 if lane.kind in BASE and lane.first < 0 else lane.value if lane.kind == "number" else None
    if form.has("IDX") and number is not None and number < WARP and whole and not value.unknown:
        return {form.outputs - 1: lanes.made(value.known[:, number : number + 1], value.xor_unknown, value.add_unknown)}
    return {form.outputs - 1: UNKNOWN if form.has("IDX") and source.uniform and whole else lanes.unknown("shuffled")}


@_models("VOTE", "VOTEU", "REDUX", "CREDUX")
def _of_the_warp(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    return {j: CHOICE if o.kind in ("P", "UP") else UNKNOWN for j, o in enumerate(form.operands[: form.outputs])}


@_models("HFMA2")
def _half_constant(reader: Reader, form: Form, held: Held) -> dict[int, Lanes]:
    """Compilers move constants as two halves: -RZ * RZ + (high, low)."""
    texts = [operand.text for operand in form.operands]
    if texts[1:3] != ["-RZ", "RZ"] or len(texts) != 5:
        return {}
    try:
        halves = [int(np.float16(float(text)).view(np.uint16)) for text in texts[3:]]
    except ValueError:
        return {}
    return {0: constant(halves[0] << 16 | halves[1])}
