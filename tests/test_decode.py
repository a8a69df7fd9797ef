"""The decoder of nvdisasm's text: an operand's fields say all that its text says, and hostile text is refused."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.sass.decode import Operand, Term, UnreadError, decode, exact, operand
from tcprobe.sass.dependence import dependence
from tcprobe.sass.registers import bits_of, names
from tests.machine_code import codes, needs_tools

LETTERS = {"R": "Z", "UR": "Z", "P": "T", "UP": "T"}  # of the register that is none
SIGNS = {"R": "-~", "UR": "-~", "P": "!", "UP": "!"}
PREFIXES = ("", "desc", "gdesc", "idesc", "tmem")


def spelled(o):
    """The text of an operand, from its fields alone."""
    if o.kind in ("float", "special", "other"):  # names and constants
        return o.text
    if o.kind == "number":
        return f"{o.value:#x}"
    bar, suffix = "|" * o.absolute, ".reuse" * o.reuse + (o.part and f".{o.part}")
    if o.kind == "target":
        return f"{register(o.terms[0].kind, o.first)} {o.offset:#x}"
    if o.kind not in ("address", "constant", "descriptor"):
        return f"{o.sign}{bar}{register(o.kind, o.first)}{bar}{suffix}"
    parts = [register(t.kind, t.first) + (t.part and f".{t.part}") for t in o.terms]
    parts += [f"{o.offset:#x}"] if o.offset or not parts else []
    chosen = "" if o.bank is None else f"[{o.bank:#x}]"
    chosen = chosen if o.descriptor is None else f"[{register('UR', o.descriptor)}]"
    return f"{o.sign}{bar}{o.prefix}{chosen}[{'+'.join(parts)}]{bar}{suffix}"


def register(kind, first):
    return f"{kind}{first if first >= 0 else LETTERS[kind]}"


def numbered(kind):
    return st.integers(-1 if kind in LETTERS else 0, {"P": 6, "UP": 6, "SB": 5, "B": 15}.get(kind, 254))


@st.composite
def registers(draw):
    """A register with all that may stand beside it."""
    kind = draw(st.sampled_from(("R", "UR", "P", "UP", "B", "SB")))
    part = draw(st.sampled_from(("", "H0_H0", "H1", "ROW", "F32x2.HI_LO", "B1")))
    sign = draw(st.sampled_from(("", *SIGNS.get(kind, ""))))
    flags = {"absolute": draw(st.booleans()), "reuse": draw(st.booleans())}
    return Operand("", kind, draw(numbered(kind)), sign=sign, part=part, **flags)


@st.composite
def bracketed(draw):
    """An address, a constant or a descriptor."""
    kind = st.sampled_from(("R", "UR")).flatmap(lambda k: st.tuples(st.just(k), numbered(k)))
    part = st.sampled_from(("", "64", "U32", "X4", "X8", "X16"))
    terms = draw(st.lists(st.tuples(kind, part).map(lambda t: Term(*t[0], t[1])), max_size=3))
    offset = draw(st.integers(-(2**24), 2**24))
    prefix = draw(st.sampled_from((*PREFIXES, "c", "cx")))
    kind = {"c": "constant", "cx": "constant", "": "address", "desc": "address"}.get(prefix, "descriptor")
    fields = {"prefix": prefix, "terms": tuple(terms), "offset": offset}
    if prefix == "c":
        fields["bank"] = draw(st.integers(0, 31))
    elif prefix == "cx" or (prefix == "desc" and draw(st.booleans())):
        fields["descriptor"] = draw(numbered("UR"))
    sign = draw(st.sampled_from(("", "-"))) if kind == "constant" else ""
    return Operand("", kind, sign=sign, absolute=bool(sign) and draw(st.booleans()), **fields)


FIELDS = ("kind", "sign", "absolute", "reuse", "part", "prefix", "bank", "descriptor", "terms", "offset")


@given(st.one_of(registers(), bracketed()))
def test_an_operand_is_read_back_from_its_text(made):
    found = operand(spelled(made))
    assert [getattr(found, name) for name in FIELDS] == [getattr(made, name) for name in FIELDS]
    assert made.terms or made.prefix or found.first == made.first
    assert spelled(found) == found.text


@given(st.integers(-(2**31), 2**32 - 1))
def test_a_number_is_its_value(value):
    found = operand(f"{value:#x}")
    assert (found.kind, found.value, found.word) == ("number", value, value % 2**32)


@given(bracketed())
def test_an_operand_in_brackets_names_the_registers_in_them(made):
    found = operand(spelled(made))
    once = {register(t.kind, t.first) for t in made.terms if t.first >= 0}
    pairs = {(t.kind, t.first) for t in made.terms if t.first >= 0 and t.part == "64"}
    if made.descriptor is not None and made.descriptor >= 0:
        pairs.add(("UR", made.descriptor))
    if made.prefix in ("desc", "gdesc") and made.descriptor is None:
        pairs |= {(t.kind, t.first) for t in made.terms if t.first >= 0}
    named = once | {register(kind, first + j) for kind, first in pairs for j in (0, 1) if first + j < 255}
    assert set(names(found.mask)) == named


@pytest.mark.sampled(3)
@needs_tools
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_the_fields_of_what_nvdisasm_prints_say_it_all(arch):
    texts = {text for code in codes(arch)[1].values() for text in code.lines}
    found = {o.text: o for text in texts for o in decode(text).operands}
    assert [text for text, o in found.items() if spelled(o) != text] == []
    assert {text for text, o in found.items() if o.kind == "other"} <= {"PR"}
    assert len(found) > 150


PIECES = st.sampled_from(
    ("R", "UR", "P", "B", "Z", "T", "0", "7", "255", "999", "c", "[", "]", "0x", "-", "!", "~", "|", "+", ".", " ", ",",
     ".64", ".reuse", ".H0_H0", ".H1", ".ROW", "desc[UR4]", "[R2", "c[0x0]", "SR_", "SRZ", "INF", "1.5", "e", "@", ";")
)  # fmt: skip
HOSTILE = st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=8).map("".join))


@given(st.one_of(HOSTILE, bracketed().map(spelled)))
def test_hostile_text_is_of_another_kind_or_refused(text):
    for whole in (text, f"MOV {text}, {text}", f"@{text} MOV R0, R1"):
        form = decode(whole)
        assert all(o.kind == "other" or spelled(operand(spelled(o))) == spelled(o) for o in form.operands)
        assert form.guard == "never" or set(dependence(form).writes) == set(bits_of(form.writes))
        with suppress(UnreadError):
            assert exact(whole).opcode in (form.opcode, "NOP")


# all forms of operands that the exact interpreter models; what else nvdisasm prints is refused
MODELLED = re.compile(
    r"(?:[-~]?(?:UR|R)(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-4]|Z)|!?(?:UP|P)[0-6T]|B(?:0|[1-9][0-9]?))(?:\.reuse)?"
    r"(?:\.ROW|\.COL|\.H0_H0|\.H1_H1|\.H1)?"
    r"|-?0x[0-9a-f]+|[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|SR_[A-Za-z0-9_.]+|SRZ"
    r"|[-~]?c\[0x0\]\[0x[0-9a-f]+\](?:\.reuse)?|R(?:[0-9]{1,3}) 0x[0-9a-f]+"
    r"|(?:desc\[UR[0-9]{1,3}\])?\[(?:R[0-9]{1,3}|RZ)(?:\.64)?(?:\+UR[0-9]{1,3})?(?:\+-?0x[0-9a-f]+)?\]"
)


@given(st.one_of(registers().map(spelled), bracketed().map(spelled), HOSTILE.filter(lambda text: "," not in text)))
def test_the_exact_interpreter_knows_no_other_forms(text):
    text = text.partition(" (*")[0].strip().rstrip(" ;")
    try:
        known = len(exact(f"MOV R0, {text}").operands) == 2
    except UnreadError:
        known = False
    assert known <= bool(MODELLED.fullmatch(text)), text


@pytest.mark.parametrize(
    "text",
    ["R2.H0", "R2.F32x2.HI_LO", "|R2|", "-|R2|", "R255", "P7", "!R2", "~P0", "R2.B1",
     "c[0x1][0x0]", "c[0x0][R2]", "cx[UR4][0x0]",
     "c[0x0] [0x160]", "c[0x0][-0x4]", "[0x15c]", "[R2.X4]", "[UR4]", "[R2+R4]", "[R2+URZ]", "[R2+UR4.64]", "desc[UR4]",
     "desc[UR4][UR6]",
     "desc[URZ][R2.64]", "gdesc[UR4]", "tmem[UR4]", "R8 -0x500", "UR4 0x10", "+INF", "PR", "SB0", "gsb0", ""],
)  # fmt: skip
def test_forms_that_the_exact_interpreter_does_not_know(text):
    with pytest.raises(UnreadError, match=re.escape(f"operand {text!r} is not known")):
        exact(f"MOV R0, {text}")


@pytest.mark.parametrize(
    "text",
    ["-R2.reuse", "R2.reuse.H1_H1", "RZ", "UR4.ROW", "!UPT", "B1", "-0x1", "1.5e-07", "SR_TID.X", "SRZ",
     "-c[0x0][0x160]", "[R2]", "[RZ+UR4+-0x10]", "desc[UR4][R2.64+0x10]", "R20 0x0"],
)  # fmt: skip
def test_forms_that_the_exact_interpreter_knows(text):
    assert MODELLED.fullmatch(text)
    assert exact(f"MOV R0, {text}").operands[1].text == text


@pytest.mark.parametrize(
    "text", ["MOV R0, R300", "@P9 MOV R0, R1", "SEL R0, R1, R1, P7", "BRX R300 0x0", "LDS R0, [R300]"]
)
def test_a_number_that_no_register_has_names_none(text):
    assert not decode(text).reads & ~(1 << 1)
