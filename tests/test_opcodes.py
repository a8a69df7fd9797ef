"""The table of opcodes: each line says one thing, of one opcode, in the table's own words."""

from collections import Counter

import pytest

from tcprobe.isa import opcodes
from tcprobe.isa.opcodes import mnemonics, of_kind, opcode, rows, stated
from tcprobe.loops.patch import MEMORY, class_of
from tcprobe.sass.addresses import ACCESSES, SHARED
from tcprobe.sass.decode import decode
from tcprobe.sass.kernel import Instruction
from tcprobe.sass.matrix_code import is_matrix

SPACES = {
    "shared", "shared::cluster", "global", "local", "generic", "constant", "surface", "tensor", "multimem",
    "predicates", "uniform predicates",
}  # fmt: skip
WORDS = {
    "proxy": {"", "async"},
    "outputs": {"", "none", "granted", "predicate", "votes"},
    "lanes": {"", "warp", "alike"},
    "modelled": {"", "request", "ruled", "banks"},
}


def test_each_line_says_one_thing_of_one_opcode():
    assert not [name for name, count in Counter(row.opcode for row in rows()).items() if count > 1]
    for row in rows():
        assert row.kind or row.pipe or row.ports, row
        assert bool(row.pipe) == bool(row.source) == (row.cycles is not None), row
        assert SPACES.issuperset((*row.reads, *row.writes)), row
        assert all(getattr(row, column) in words for column, words in WORDS.items()), row
        assert row.kind or not (row.reads or row.writes or row.outputs or row.lanes or row.ablated), row
        assert row.kind in ("", *opcodes.KINDS), row


def test_what_a_kind_means_agrees_with_what_a_line_says_beside_it():
    for row in filter(lambda row: row.kind, rows()):
        assert (row.kind in ("store", "reduction")) <= (row.outputs == "none" and bool(row.writes)), row
        assert (row.kind == "load") <= (bool(row.reads) and not row.outputs), row
        assert (row.kind in ("branch", "call", "return", "exit")) <= (row.outputs == "none"), row
        assert (row.ablated in MEMORY and row.ablated != "barriers") <= bool(row.reads or row.writes), row


@pytest.mark.parametrize(
    ("name", "says"),
    {
        "REDG": lambda row: row.stores and row.accesses and row.writes == ("global",),
        "UTCCP": lambda row: row.reads == ("shared",) and row.writes == ("tensor",),
        "UTCMXQMMA": lambda row: row.kind == "multiply" and row.ablated == "multiplies",
        "STAS": lambda row: row.writes == ("shared::cluster",) and row.outputs == "none",
    }.items(),
)
def test_what_lists_disagreed_about(name, says):
    """Lists of loads, stores and multiplies had drifted apart: each opcode is one thing to all."""
    assert says(opcode(name))


def test_what_asks_the_table_agrees_with_it():
    assert is_matrix("UTCMXQMMA.2CTA")
    for name in of_kind("multiply"):
        assert class_of(Instruction(0, decode(f"{name} R0, R4, R8, R0"), name)) == "multiplies"
    assert SHARED <= ACCESSES
    assert not ACCESSES & mnemonics(lambda row: row.proxy == "async")


def test_a_line_of_more_modifiers_comes_first():
    assert (opcode("UBLKCP.S.G").writes, opcode("UBLKCP.G.S").writes) == (("shared",), ("global",))
    assert stated("IMAD.WIDE.U32").cycles == 4
    assert stated("IMAD.SHL.U32").cycles == 2
    assert stated("IMAD") is None
    assert stated("UFFMA").pipe == "uniform"
    assert stated("VIADDMNMX.U32").pipe == "alu"
    assert opcode("NEVERSEEN.X") is opcodes.UNLISTED
