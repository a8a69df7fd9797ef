"""Predicates, guards, carries and signs in the reader: exact, or refused."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.isa.names import resolve
from tcprobe.sass.cubin import _code
from tcprobe.sass.decode import UnreadError, exact, opcode_of
from tcprobe.sass.elf import Content
from tcprobe.sass.emulation import EMULATION
from tcprobe.sass.lowering import count
from tcprobe.sass.machine import Image, Machine
from tcprobe.sass.opcodes import OPCODES

LANE = np.arange(32, dtype=np.uint32)
U32 = st.integers(0, 2**32 - 1)


def run(*texts, **registers):
    """A machine with registers set, after the instructions; with EMULATION as the last text, its opcodes too."""
    opcodes = EMULATION if texts[-1] is EMULATION else OPCODES
    m = Machine(1, [Image(0x7F0000000000, np.zeros(64, np.uint8))], bytes(20), 0x160)
    for name, value in registers.items():
        kind, index = re.fullmatch(r"(R|UR)(\d+)", name).groups()
        m.set(kind, int(index), np.broadcast_to(np.asarray(value, np.uint32), 32))
    for text in (text for text in texts if text is not EMULATION):
        m._step(exact(text), opcodes)
    return m


def value(m, index):
    return m.word("R", index)


def predicate(name, bits):
    """An instruction that sets a predicate in the lanes whose bit is set; R30 has the bits' lanes."""
    return f"ISETP.NE.U32.AND {name}, PT, R{bits}, RZ, PT"


@given(st.lists(st.booleans(), min_size=32, max_size=32), st.lists(st.booleans(), min_size=32, max_size=32))
def test_a_guarded_predicate_changes_in_active_lanes_only(first, guard):
    """P1 is `first`, then becomes its contrary where `guard` holds."""
    m = run(
        predicate("P1", 2),
        predicate("P0", 3),
        "@P0 ISETP.NE.U32.AND P1, PT, R4, RZ, PT",
        "SEL R1, R5, RZ, P1",
        R2=first,
        R3=guard,
        R4=np.logical_not(first),
        R5=1,
    )
    assert value(m, 1).tolist() == [int(a != b) for a, b in zip(first, guard, strict=True)]


@pytest.mark.parametrize("guard", ["@P0", "@!P0"])
def test_a_predicate_written_in_some_lanes_is_unknown_in_the_others(guard):
    texts = predicate("P0", 2), f"{guard} ISETP.NE.U32.AND P1, PT, R2, RZ, PT"
    assert run(*texts, f"{guard} SEL R1, R2, RZ, P1", R2=LANE & 1) is not None
    with pytest.raises(UnreadError, match="P1 is read, but nobody wrote it"):
        run(*texts, "SEL R1, R2, RZ, P1", R2=LANE & 1)


@given(U32, U32, U32, U32)
def test_one_carry_under_a_guard_is_exact(a, b, c, d):
    """P1 is the carry of a + b, and of c + d in the odd lanes."""
    m = run(
        predicate("P0", 2),
        "IADD3 R6, P1, R3, R4, RZ",
        "@P0 IADD3 R6, P1, R7, R8, RZ",
        "IADD3.X R1, RZ, RZ, RZ, P1, !PT",
        R2=LANE & 1,
        R3=a,
        R4=b,
        R7=c,
        R8=d,
    )
    assert value(m, 1).tolist() == [(c + d if lane & 1 else a + b) >> 32 for lane in range(32)]
    assert value(m, 6).tolist() == [(c + d if lane & 1 else a + b) % 2**32 for lane in range(32)]


PAIR = "IADD3 R5, P0, P1, R2, R3, R4"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ((PAIR, "SEL R6, R2, R3, P0"), "P0 is one of two carries that count only together"),
        ((PAIR, "@P1 MOV R6, R2"), "P1 is one of two carries that count only together"),
        ((PAIR, "ISETP.NE.U32.AND P2, PT, R2, R3, P1"), "one of two carries"),
        ((PAIR, "IADD3.X R6, R2, R3, R4, P0, P0"), "one of two carries"),
        ((PAIR, "IADD3.X R6, R2, R3, R4, P0, !P1"), "one of two carries is negated"),
        ((PAIR, predicate("P0", 2), "IADD3.X R6, R2, R3, R4, P1, !PT"), "P1 is read, but nobody wrote it"),
        ((PAIR, predicate("P0", 2), "IADD3.X R6, R2, R3, R4, P0, P1"), "P1 is read, but nobody wrote it"),
        ((PAIR, predicate("P1", 2), "@P0 MOV R6, R2"), "P0 is read, but nobody wrote it"),
        ((predicate("P2", 7), f"@P2 {PAIR}"), "two carries out under a guard"),
        (("IADD3 R5, P0, P0, R2, R3, R4",), "into one predicate"),
    ],
)
def test_two_carries_count_only_together(texts, words):
    with pytest.raises(UnreadError, match=re.escape(words)):
        run(*texts, R2=1, R3=2, R4=3, R7=LANE & 1)


@given(U32, U32, U32, st.booleans())
def test_two_carries_together_are_exact(a, b, c, negated):
    sign = "!" if negated else ""
    m = run(PAIR, f"IADD3.X R6, RZ, RZ, RZ, {sign}P0, {sign}P1", R2=a, R3=b, R4=c)
    carried = (a + b + c) >> 32
    assert set(value(m, 6).tolist()) == {2 - carried if negated else carried}


def test_a_uniform_predicate_is_not_the_one_of_the_same_number():
    with pytest.raises(UnreadError, match="UP0 is read, but nobody wrote it"):
        run(predicate("P0", 2), "IADD3.X R6, R2, R2, R2, UP0, !PT", R2=1)


@given(U32, U32)
def test_iadd(a, b):
    m = run("IADD R1, R2, R3", "IADD R4, R2, -R3", "IADD R5, R2, 0x4", "IADD R6, -R2, 0xffffffff", R2=a, R3=b)
    for index, expected in ((1, a + b), (4, a - b), (5, a + 4), (6, -a - 1)):
        assert value(m, index)[0] == expected % 2**32


CONVERSIONS = {
    "S32": np.int32, "U32": np.uint32, "S16": np.int16, "U16": np.uint16, "S8": np.int8, "U8": np.uint8,
}  # fmt: skip


@given(U32, st.sampled_from(sorted(CONVERSIONS)), st.sampled_from(["", ".RZ", ".RM", ".RP"]))
def test_integers_become_floats_exactly_or_not_at_all(word, source, rounding):
    """Every form of I2F: the low bits of a register as a number; f32 refuses what it does not hold."""
    number = int(np.array([word], np.uint32).view(CONVERSIONS[source])[0])
    suffix = "" if source == "S32" else f".{source}"
    m = run(f"I2F.F64{suffix}{rounding} R4, R2", EMULATION, R2=word)
    pair = np.array([value(m, 4)[9], value(m, 5)[9]], np.uint32)
    assert pair.view(np.float64)[0] == number
    texts = [f"I2F{suffix}{rounding} R4, R2"]
    texts += [f"I2FP.F32.{source}{rounding} R4, R2"] if source in ("S32", "U32") else []
    for text in texts:
        if abs(number) > 2**24:
            with pytest.raises(UnreadError, match="not small whole numbers"):
                run(text, EMULATION, R2=word)
        else:
            assert value(run(text, EMULATION, R2=word), 4).view(np.float32)[31] == number


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["S64", "U64"]))
def test_integers_of_64_bits_become_floats_exactly_or_not_at_all(number, source):
    number %= 2**64 if source == "U64" else 2**63
    words = {"R2": number & 0xFFFFFFFF, "R3": number >> 32}
    for text, most in ((f"I2F.{source} R4, R2", 2**24), (f"I2F.F64.{source} R4, R2", 2**53)):
        if number > most:
            with pytest.raises(UnreadError, match="not small whole numbers"):
                run(text, EMULATION, **words)
        else:
            m = run(text, EMULATION, **words)
            registers = [value(m, j)[0] for j in ((4, 5) if "F64" in text else (4,))]
            assert np.array(registers, np.uint32).view(np.float64 if "F64" in text else np.float32)[0] == number


@pytest.mark.parametrize(
    "text",
    ["I2F.F16 R4, R2", "I2F.BF16 R4, R2", "I2F.S4 R4, R2", "I2FP.F32.S32.RX R4, R2", "I2FP.F16.U32 R4, R2",
     "I2F -R4, R2", "I2F R4, -R2", "I2F.U16 R4, R2.H1", "I2F R4", "I2F UR4, R2", "I2F.S64 R4, R3", "I2F.F64 R5, R2",
     "VIADD UR4, R2, R3", "VIADD R4, R2", "VIADD.U8 R4, R2, R3"],
)  # fmt: skip
def test_conversions_in_other_forms_are_refused(text):
    with pytest.raises(UnreadError):
        run(text, EMULATION, R2=1, R3=1)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_viadd(a, b):
    m = run("VIADD R1, R2, R3", "VIADD R4, R2, -R3", "VIADD R5, R2, 0x4", R2=a, R3=b)
    assert [int(value(m, j)[0]) for j in (1, 4, 5)] == [(a + b) % 2**32, (a - b) % 2**32, (a + 4) % 2**32]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("IMAD.WIDE R4, -R2, R3, RZ", "operand -R2 with a sign"),
        ("IMAD.WIDE R4, R2, -R3, RZ", "operand -R3 with a sign"),
        ("IMAD.WIDE.U32 R4, -R2, R3, RZ", "operand -R2 with a sign"),
        ("IMAD.WIDE.U32 R4, R2, R3, -R2", "operand -R2 with a sign"),
        ("IMAD.HI.U32 R4, -R2, R3, RZ", "with a sign"),
        ("IMAD.X R4, R2, R3, -R2, !PT", "with a sign"),
        ("IADD3.X R4, R2, ~R3, RZ, !PT, !PT", "with a sign"),
        ("LEA R4, -R2, R3, 0x2", "with a sign"),
        ("MOV R4, -R2", "with a sign"),
        ("SHF.L.U32 R4, -R2, 0x2, RZ", "with a sign"),
        ("LOP3.LUT R4, R2, ~R3, RZ, 0xc0, !PT", "with a sign"),
        ("IMAD.IADD R4, R2, 0x3, R3", "with these operands is not modelled"),
        ("IADD3 R4, P0, R2, R3", "with these operands is not modelled"),
        ("UMOV R4, 0x1", "R4 does not fit UMOV"),
        ("UMOV UR4, R2", "R2 does not fit UMOV"),
        ("MOV UR4, R2", "UR4 does not fit MOV"),
        ("LDCU.64 R4, c[0x0][0x160]", "R4 does not fit LDCU.64"),
        ("@P0 UMOV UR4, 0x1", "P0 does not fit UMOV"),
    ],
)
def test_a_sign_or_register_that_an_instruction_cannot_have_is_refused(text, words):
    with pytest.raises(UnreadError, match=re.escape(words)):
        run(predicate("P0", 2), text, R2=1, R3=2)


@pytest.mark.parametrize(
    "text", ["@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ", "@!UPT UIADD3 URZ, UPT, UPT, URZ, URZ, URZ", "@!PT FROB.X R1, what?"]
)
def test_fillers_are_no_instructions(text):
    """Neither to the reader, which need not know them, nor in a lowering's counts."""
    code = _code([(0, "MOV R1, RZ"), (16, text), (32, "EXIT")], 0, Content(b"", 0x160, 20))
    assert not code.unread
    assert code.opcodes == ("MOV", "NOP", "EXIT")
    assert opcode_of(text) == "NOP"
    assert count(code.opcodes, resolve("mma.m8n8k4.row.col.f64").multiply).others == 1
    m = Machine(1, [], bytes(20), 0x160)
    m.run(code.instructions, 0, OPCODES)
    assert value(m, 1)[0] == 0


def test_what_is_executed_under_a_predicate_that_holds_nowhere_is_still_an_instruction():
    assert opcode_of("@!P0 IADD R1, R2, R3") == "IADD"
