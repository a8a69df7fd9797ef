"""What an instruction computes is one thing to all that ask: of numbers, of lanes with unknown bits, of sums.

Lanes of which bits are not known hold what the same instruction makes of every number that they may be; the concrete
machine and a sum of named terms come to that number, too.
"""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.loops.iterations import _Interpreter
from tcprobe.sass import lanes
from tcprobe.sass.decode import UnreadError, decode, exact
from tcprobe.sass.emulation import EMULATION
from tcprobe.sass.machine import Machine
from tcprobe.sass.meaning import HIGH, MEANINGS
from tcprobe.sass.reader import Reader
from tcprobe.sass.registers import BASE
from tcprobe.sass.state import Register
from tcprobe.sass.sums import SUMS, Sum
from tests.meaning_oracle import computed
from tests.sampling import examples
from tests.test_check_lanes import SHAPE, Both, holds, leaves

# a register: R2 to R9, in pairs from the even ones; a number; predicates P0 to P2; results R10, R11, P3, P4
FORMS = """
MOV R10, R2
MOV R10, 0x12345
MOV.64 R10, R2
UMOV UR10, UR2
IADD3 R10, R2, R3, R4
IADD3 R10, R2, -R3, RZ
IADD3 R10, R2, -0x10, RZ
IADD3 R10, P3, R2, R3, RZ
IADD3 R10, P3, R2, R3, R4
IADD3 R10, P3, P4, R2, R3, R4
IADD3.X R10, R2, R3, RZ, P0, !PT
IADD3.X R10, R2, ~R3, RZ, P0, !PT
IADD3.X R10, R2, R3, R4, P0, P1
IADD3.X R10, P3, R2, R3, RZ, P0, !PT
IADD3.X R10, P3, R2, R3, RZ, P0, P1
UIADD3 UR10, UR2, UR3, URZ
UIADD3.64 UR10, UR2, 0x10, URZ
UIADD3.64 UR10, UR2, UR4, UR6
UIADD3.X UR10, UR2, UR3, URZ, UP0, !UPT
IADD.64 R10, R2, R4
IADD.64 R10, R2, -R4
IADD.64 R10, R2, 0x20
IADD R10, R2, -R3
VIADD R10, R2, 0x20
VIADD R10, R2, -R3
UIADD UR10, UR2, UR3
UVIADD UR10, UR2, UR3
IMAD R10, R2, R3, R4
IMAD R10, R2, -R3, R4
IMAD R10, R2, 0x30, -R4
IMAD.IADD R10, R2, 0x1, R3
IMAD.SHL.U32 R10, R2, 0x8, RZ
IMAD.MOV.U32 R10, RZ, RZ, R2
IMAD.MOV R10, RZ, RZ, -R2
IMAD.U32 R10, R2, R3, R4
IMAD.X R10, R2, 0x1, R3, P0
IMAD.X R10, RZ, RZ, ~R3, P0
IMAD.WIDE R10, R2, R3, R4
IMAD.WIDE R10, R2, 0x30, R4
IMAD.WIDE R10, R2, -0x30, RZ
IMAD.WIDE.U32 R10, R2, R3, R4
IMAD.WIDE.U32 R10, P3, R2, R3, R4
IMAD.HI R10, R2, R3, RZ
IMAD.HI.U32 R10, R2, R3, RZ
IMAD.HI.U32 R10, R2, R3, R4
UIMAD UR10, UR2, UR3, UR4
UIMAD.WIDE UR10, UR2, UR3, UR4
UIMAD.WIDE.U32 UR10, UR2, 0x6, UR4
LEA R10, R2, R3, 0x3
LEA R10, P3, R2, R3, 0x3
LEA R10, -R2, R3, 0x3
LEA.HI.X R10, R2, R3, R4, 0x3, P0
LEA.HI R10, R2, R3, RZ, 0x3
LEA.HI.SX32 R10, R2, R3, 0x1d
ULEA UR10, UR2, UR3, 0x3
ULEA.HI.SX32 UR10, UR2, UR3, 0x1d
LOP3.LUT R10, R2, R3, R4, 0x96, !PT
LOP3.LUT R10, R2, 0xfff0, RZ, 0xc0, !PT
LOP3.LUT P3, R10, R2, 0x7, RZ, 0xc0, !PT
LOP3.LUT P3, RZ, R2, R3, R4, 0xf8, !PT
ULOP3.LUT UR10, UR2, UR3, UR4, 0xe2, !UPT
PLOP3.LUT P3, P4, P0, P1, P2, 0x80, 0x8
UPLOP3.LUT UP3, UP4, UP0, UP1, UP2, 0xf8, 0x8f
SHF.L.U32 R10, R2, 0x5, RZ
SHF.L.U32 R10, R2, 0x21, RZ
SHF.L.U32 R10, R2, R3, RZ
SHF.L.U64.HI R10, R2, 0x5, R3
SHF.L.U64 R10, R2, 0x5, R3
SHF.R.U32.HI R10, RZ, 0x5, R2
SHF.R.U32.HI R10, RZ, 0x20, R2
SHF.R.U32.HI R10, RZ, R3, R2
SHF.R.S32.HI R10, RZ, 0x1f, R2
SHF.R.S32.HI R10, RZ, 0x3, R2
SHF.R.U64 R10, R2, 0x7, R3
SHF.R.S64 R10, R2, 0x7, R3
USHF.L.U32 UR10, UR2, 0x4, URZ
USHF.R.U32.HI UR10, URZ, UR2, UR3
USHF.R.S32.HI UR10, URZ, 0x2, UR2
PRMT R10, R2, 0x5410, R3
PRMT R10, R2, 0x7632, R3
UPRMT UR10, UR2, 0x654, UR3
SEL R10, R2, R3, P0
SEL R10, R2, R2, P0
SEL R10, R2, 0x7, !P0
SEL.64 R10, R2, R4, P0
USEL UR10, UR2, UR3, UP0
SGXT R10, R2, 0x8
SGXT.U32 R10, R2, 0x8
USGXT UR10, UR2, 0x18
ISETP.{compared}{sign}.{joined} P3, P4, R2, R3, P0
ISETP.NE.U32.AND P3, PT, R2, R3, PT
UISETP.GE.U32.OR UP3, UP4, UR2, UR3, UP0
IABS R10, R2
IMNMX R10, R2, R3, PT
IMNMX R10, R2, R3, P0
IMNMX.U32 R10, R2, R3, !PT
VIMNMX R10, R2, R3, PT
VIMNMX.S32 R10, R2, 0x20, !PT
VIMNMX.U32 R10, R2, R3, PT
UIMNMX UR10, UR2, UR3, UPT
R2UR UR10, R2
HFMA2 R10, -RZ, RZ, 1.5, -2
HFMA2.MMA R10, -RZ, RZ, 0, 1.78813934326171875e-07
I2F R10, R2
I2F.RP R10, R2
I2F.RZ R10, R2
I2F.RM R10, R2
I2F.U32 R10, R2
I2F.U32.RP R10, R2
I2F.U16 R10, R2
I2F.S8 R10, R2
I2FP.F32.S32 R10, R2
I2FP.F32.U32.RZ R10, R2
F2I.U32.TRUNC R10, R2
F2I.FTZ.U32.TRUNC.NTZ R10, R2
CS2R R10, SRZ
LDC R10, c[0x0][0x160]
LDC.64 R10, c[0x0][0x160]
ULDC UR10, c[0x0][0x164]
ULDC.64 UR10, c[0x0][0x160]
LDCU UR10, c[0x0][0x164]
MOV R10, c[0x0][0x160]
IADD3 R10, P3, R2, c[0x0][0x160], RZ
IADD.64 R10, R2, c[0x0][0x160]
IMAD.WIDE R10, R2, R3, c[0x0][0x160]
IMAD.WIDE.U32 R10, R2, 0x4, c[0x0][0x160]
SHFL.IDX PT, R10, R2, 0x5, 0x1f
SHFL.IDX PT, R10, R2, RZ, 0x1f
SHFL.IDX PT, R10, R2, R3, 0x1f
"""
# what is not followed: ptxas has other things of the same mnemonics, whose bits are not those
OTHERS = """
LDC.U8 R10, c[0x0][0x160]
ULDC.S8 UR10, c[0x0][0x160]
ISETP.GE.S64.AND P3, PT, R2, R4, PT
ISETP.GE.AND.EX P3, PT, R2, R3, PT, P0
IMNMX.U64 R10, R2, R4, PT
VIMNMX.U16x2 R10, R2, R3, PT
HFMA2.BF16_V2 R10, -RZ, RZ, 1, 1
I2F.F16 R10, R2
I2F.F64 R10, R2
I2F.U64.RP R10, R2
F2I.U32.TRUNC R10, -R2
F2I.U32.F64.TRUNC R10, R2
MUFU.RCP R10, -R2
MUFU.EX2 R10, R2
PRMT R10, R2, 0x9180, R3
LEA.HI R10, R2, R3, R4, 0x3
LEA.HI.X.SX32 R10, R2, R3, 0x1, P0
IMAD.HI.U32.X R10, R2, R3, R4, P0
SHF.L.W.U32.HI R10, R2, 0x5, R3
"""


def forms():
    """Each text of FORMS; comparisons in all ways."""
    ways = {"compared": ("LT", "EQ", "LE", "GT", "NE", "GE"), "sign": ("", ".U32"), "joined": ("AND", "OR", "XOR")}
    for text in filter(None, FORMS.splitlines()):
        names = re.findall("{([a-z]+)}", text)
        for chosen in product(*(ways[name] for name in names)):
            yield text.format(**dict(zip(names, chosen, strict=True)))


ALL_FORMS = list(forms())
NUMBERS = range(2, 10)  # of the registers that are read
PARAMETERS = (0x89ABCDEF, 0x7F12, 5, 6, 7)  # from c[0x0][0x160] on


def domain(kind):
    """Of no kernel: its parameters are known."""
    made = kind.__new__(kind)
    made._sizes = {0x160 + 4 * j: lanes.constant(word) for j, word in enumerate(PARAMETERS)}
    made._words = {}
    return made


READER, LAUNCH = domain(Reader), domain(_Interpreter)


def made(on, text, held):
    """By the bit of a register what an instruction makes in a domain; what is not known is left out."""
    form = decode(text)
    found = {}
    for output, value in MEANINGS[form.mnemonic](on, form, held).items():
        operand = form.operands[output % HIGH]
        if value is not None and operand.kind in BASE and operand.first >= 0:
            found[BASE[operand.kind] + operand.first + output // HIGH] = value
    return found


def file(text, predicate=False):
    """The registers that a text reads: R and P, or UR and UP."""
    return BASE["U" * text.startswith("U") + ("P" if predicate else "R")]


def numbers(text, both):
    """What lanes with known bits make of the values."""
    return made(
        READER, text, {bit: Register(lanes.made(np.ascontiguousarray(real))) for bit, (_, real) in both.items()}
    )


def concretely(text, both):
    """By the bit of a register the numbers that the machine comes to; of what it refuses nothing."""
    m = Machine(2, [], np.array(PARAMETERS, np.uint32).tobytes(), 0x160)
    for bit, (_, real) in both.items():
        kind = next(k for k in ("UP", "P", "UR", "R") if bit >= BASE[k])
        if "P" in kind:
            m._predicates[kind, bit - BASE[kind]] = real.reshape(-1) != 0, m._all
        else:
            m.set(kind, bit - BASE[kind], np.ascontiguousarray(real).reshape(-1))
    try:
        m._step(exact(text), EMULATION)
    except UnreadError:
        return {}
    places = [(kind, number) for kind in ("R", "UR") for number in (10, 11) if number in m._values[kind]]
    found = {BASE[kind] + number: m.word(kind, number).reshape(SHAPE) for kind, number in places}
    for (kind, number), (value, _) in m._predicates.items():
        if number in (3, 4) and (kind, number) not in m._pairs:
            found[BASE[kind] + number] = value.astype(np.uint32).reshape(SHAPE)
    return found


def summed(text, both):
    """As `concretely`, by sums of the registers' values."""
    held = {bit: Sum(0, {str(bit): 1}) for bit in both if bit < BASE["P"]}
    real = {str(bit): value.real for bit, value in both.items()}
    real |= {f"c[0x0][{0x160 + 4 * j:#x}]": np.uint32(word) for j, word in enumerate(PARAMETERS)}
    found = {}
    for bit, total in made(SUMS, text, held).items():
        value = np.full(SHAPE, total.number % 2**32, np.uint32)
        for name, times in total.terms.items():
            value = value + real[name] * np.uint32(times % 2**32)
        found[bit] = value
    return found


def highest(text):
    """How many of NUMBERS there are up to the last register that a text names, and the high half of its pair."""
    return max([int(number) for number in re.findall(r"\bU?R([2-9])\b", text)], default=0) // 2 * 2


@st.composite
def operands(draw, text):
    """Of each register that may be read a description and what it may be."""
    found = {}
    for number in NUMBERS[: highest(text)]:
        value = draw(leaves())
        if draw(st.booleans()):
            other = draw(leaves())
            value = Both(lanes.add(value.described, other.described), value.real + other.real)
        if text.startswith("R2UR"):  # takes what all lanes have
            known = lanes.made(value[0].known[:, :1], value[0].xor_unknown, value[0].add_unknown, value[0].unknown, "-")
            value = Both(known, np.broadcast_to(value.real[:, :1], SHAPE))
        found[file(text) + number] = value
    for number in range(3):
        bits = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2, SHAPE).astype(np.uint32)
        kind = draw(st.sampled_from(["exact", "choice", "unknown"]))
        if kind == "choice":
            bits = np.ascontiguousarray(np.broadcast_to(bits[:, :1], SHAPE))
        described = {"exact": lanes.made(bits), "choice": lanes.CHOICE, "unknown": lanes.unknown("loaded", 1)}
        found[file(text, predicate=True) + number] = Both(described[kind], bits)
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ALL_FORMS)
@given(st.data())
@examples(40, deadline=None)
def test_all_agree_on_what_an_instruction_computes(text, data):
    both = data.draw(operands(text))
    exact = numbers(text, both)
    described = made(READER, text, {bit: Register(value.described) for bit, value in both.items()})
    assert exact or "SHF" in text  # by more than 31 bits
    assert all(value.exact for value in exact.values()) or "SHFL" in text  # numbers make numbers
    found = [concretely(text, both), summed(text, both)]
    found.append({bit: np.broadcast_to(value.known, SHAPE) for bit, value in exact.items() if value.exact})
    for real in found:
        for bit, value in real.items():
            real_words = np.ascontiguousarray(value)
            assert bit not in exact or holds(exact[bit], real_words)
            assert bit not in described or holds(described[bit], real_words)


EDGES = (0, 1, 2, 0x7F, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0x7FC00000, 0xFF800000, 0x4F7FFFFF)
# the machine refuses signs where nobody has seen them, one carry of two, and what is not known of some lane
REFUSED = re.compile(
    r"SEL\.64|LEA R10, -R2|RZ, -R2|[~]R3|IADD\.64 .*-R|WIDE.*-0x|^I2F|IADD3 R10, P3, R2, (-R3|R3, R4)|RZ, P0, P1$"
    r"|WIDE.*P3|SHF.* R3, (RZ|R2)|USHF.*UR2, UR3"
)


@pytest.mark.parametrize("text", [text for text in ALL_FORMS if "SHFL" not in text and "R2UR" not in text])
@given(st.integers(0, 2**32))
@examples(40, deadline=None)
def test_numbers_are_what_documents_say(text, seed):
    """Of 64 lanes; the machine says of every register that is written what it holds, or refuses the instruction."""
    rng = np.random.default_rng(seed)
    both = {}
    for number in NUMBERS:
        drawn = np.where(rng.random(SHAPE) < 0.5, rng.choice(EDGES, SHAPE), rng.integers(0, 2**32, SHAPE))
        both[file(text) + number] = Both(None, drawn.astype(np.uint32))
    for number in range(3):
        both[file(text, predicate=True) + number] = Both(None, rng.integers(0, 2, SHAPE).astype(np.uint32))
    found, machine = numbers(text, both), concretely(text, both)
    assert machine or REFUSED.search(text)
    names = {BASE[kind] + number: f"{kind[-1]}{number}" for kind in BASE for number in range(12)}
    lanes_hold = {bit: np.broadcast_to(value.known, SHAPE) for bit, value in found.items()}
    for place in np.ndindex(*SHAPE):
        values = {names[bit]: int(value.real[place]) for bit, value in both.items()}
        wanted = computed(text, values | {0x160 + 4 * j: word for j, word in enumerate(PARAMETERS)})
        run = {names[bit]: int(words[place]) for bit, words in machine.items()}
        assert run == {name: value for name, value in wanted.items() if name in run or (run and name[0] == "R")}, values
        known = {names[bit]: int(words[place]) for bit, words in lanes_hold.items()}
        assert known == {name: wanted.get(name, value) for name, value in known.items()}, values


@pytest.mark.parametrize("text", OTHERS.split("\n")[1:-1])
@pytest.mark.parametrize("on", [READER, LAUNCH, SUMS])
def test_other_instructions_of_a_mnemonic_are_not_followed(text, on):
    one = Sum(1) if on is SUMS else Register(lanes.constant(0x3F800000))
    held = {bit: one for base in ("R", "P") for bit in range(BASE[base], BASE[base] + 7)}
    assert made(on, text, held) == {}


def test_each_mnemonic_has_a_form():
    read = {text.split(".")[0].split(" ")[0] for text in (*ALL_FORMS, *OTHERS.split("\n"))}
    apart = {"S2R", "S2UR", "CS2UR", "LOP", "VOTE", "VOTEU", "REDUX", "CREDUX", "USGXT", "UMOV"}
    assert set(MEANINGS) - read <= apart


F32 = {1.0: 0x3F800000, 3.0: 0x40400000, 2.0**32: 0x4F800000, 1e10: 0x501502F9, np.inf: 0x7F800000, np.nan: 0x7FC00000}
ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("text", "registers", "results"),
    [
        # setp.lt.xor.s32 is ISETP.LT.XOR
        ("ISETP.LT.XOR P3, P4, R2, R3, PT", {2: 1, 3: 2}, {"P3": 0, "P4": 1}),
        # cvt.rn.f32.u16 is I2F.U16 of a register whose high half is not 0
        ("I2F.U16 R10, R2", {2: 0x70001}, {"R10": F32[1.0]}),
        ("I2F.S8 R10, R2", {2: 0x1FF}, {"R10": 0xBF800000}),
        # cvt.rz.f32.s32 is I2FP.F32.S32.RZ
        ("I2FP.F32.S32.RZ R10, R2", {2: 0x7FFFFFFF}, {"R10": 0x4EFFFFFF}),
        ("I2FP.F32.S32.RZ R10, R2", {2: -0x7FFFFFFF & ONES}, {"R10": 0xCEFFFFFF}),
        ("I2F.RM R10, R2", {2: -0x7FFFFFFF & ONES}, {"R10": 0xCF000000}),
        ("I2F.U32.RP R10, R2", {2: 0x1000001}, {"R10": 0x4B800001}),
        # cvt.rzi.u32.f32: PTX ISA has the nearest number, and 0 of NaN
        ("F2I.U32.TRUNC R10, R2", {2: F32[2.0**32]}, {"R10": ONES}),
        ("F2I.FTZ.U32.TRUNC.NTZ R10, R2", {2: F32[1e10]}, {"R10": ONES}),
        ("F2I.U32.TRUNC R10, R2", {2: F32[np.inf]}, {"R10": ONES}),
        ("F2I.U32.TRUNC R10, R2", {2: F32[np.nan]}, {"R10": 0}),
        ("F2I.U32.TRUNC R10, R2", {2: 0xBF800000}, {"R10": 0}),
        # the addend of a high half is a pair: division adds an estimate to what it lacks
        ("IMAD.HI.U32 R10, R2, R3, R4", {2: 1 << 31, 3: 4, 4: ONES, 5: 7}, {"R10": 9}),
        # a pointer's high half counts
        ("IMAD.WIDE R10, R2, R3, c[0x0][0x160]", {2: 1, 3: -1 & ONES}, {"R10": 0x89ABCDEE, "R11": 0x7F12}),
        # of three addends
        ("UIADD3.64 UR10, UR2, UR4, UR6", {2: ONES, 3: 0, 4: ONES, 5: 0, 6: 3, 7: 0}, {"UR10": 1, "UR11": 2}),
        # one carry of three addends: which of two it is, is not known
        ("IADD3 R10, P3, R2, R3, R4", {2: ONES, 3: 1, 4: 0}, {"R10": 0}),
        ("IADD3 R10, P3, R2, R3, R4", {2: ONES, 3: ONES, 4: ONES}, {"R10": ONES - 2, "P3": 1}),
        ("IADD3 R10, P3, R2, R3, RZ", {2: ONES, 3: 1}, {"R10": 0, "P3": 1}),
        # a difference's carry is 1 where nothing is taken away: not that of a sum
        ("IADD3 R10, P3, R2, -R3, RZ", {2: 1, 3: 0}, {"R10": 1}),
        ("IMAD.WIDE R10, -R2, R3, RZ", {2: 1 << 31, 3: 1}, {"R10": 1 << 31}),  # negated before or after it is widened?
    ],
)
def test_what_was_settled(text, registers, results):
    held = {file(text) + number: Register(lanes.constant(value)) for number, value in registers.items()}
    found = {bit: int(value.known[0, 0]) for bit, value in made(READER, text, held).items()}
    assert found == {BASE[name.rstrip("0123456789")] + int(name.lstrip("URP")): v for name, v in results.items()}


def test_a_carry_may_differ_between_lanes():
    """The low half is a base that is not known, and a row for each lane: one lane's may carry, another's not."""
    lane = lanes.made(np.arange(32, dtype=np.uint32)[None])
    low = lanes.add(lanes.shift_left(lane, 7), lanes.UNKNOWN)
    held = {2: Register(low), 3: Register(lanes.constant(0))}
    for text in ("IADD.64 R10, R2, 0x1000", "IADD.64 R10, RZ, -R2"):
        assert not made(READER, text, held)[11].uniform, text


def test_only_a_launch_takes_an_estimate_for_a_reciprocal():
    for number, found in ((3.0, 0x3EAAAAAB), (0.0, 0x7F800000)):
        held = {2: Register(lanes.constant(int(np.float32(number).view(np.uint32))))}
        assert made(READER, "MUFU.RCP R10, R2", held) == {}
        assert int(made(LAUNCH, "MUFU.RCP R10, R2", held)[10].known[0, 0]) == found
    subnormal = {2: Register(lanes.constant(1))}
    assert made(LAUNCH, "MUFU.RCP R10, R2", subnormal) == {}  # the hardware may take it for 0


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 2**31))
def test_sums_are_the_same_where_their_low_32_bits_are(number, times):
    """However code spells a number, and whichever way it comes to it."""
    held = {2: Sum(7, {"c[0x0][0x210]": times})}
    for text in ("IADD3 R10, R2, {}, RZ", "IMAD R10, R2, {}, RZ"):
        spelled = (f"{number:#x}", f"{number % 2**32:#x}")
        one, other = (made(SUMS, text.format(each), held).get(10) for each in spelled)
        assert one == other


@pytest.mark.parametrize("name", ["SR_CLOCKLO", "SR_GLOBALTIMERLO", "SR_WARPID", "SR_VIRTID"])
def test_what_changes_while_a_thread_runs_is_no_term_of_a_sum(name):
    assert made(SUMS, f"S2R R10, {name}", {}) == {}
    assert made(SUMS, "S2R R10, SR_CTAID.X", {}) == {10: Sum(0, {"SR_CTAID.X": 1})}
