"""What an answer says first is true: the operand that a text is of, the bits that hold a number, the registers."""

import re
import shlex

import pytest
from click.testing import CliRunner

from tcprobe.ask.layouts import layouts
from tcprobe.cli import main
from tcprobe.isa import inventory
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import WHOLE

BYTE = 8
MMA = "#ttg.nvidia_mma<{{versionMajor = {}, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = {}}}> over 64x64"
VERSION_2, VERSION_3 = MMA.format(2, "[16, 8]"), MMA.format(3, "[16, 64, 16]")
TEXTS = [
    *((each.example, shlex.split(each.options)) for each in layouts()),
    ("((4,8),(2,2,2)):((32,1),(16,8,128)) over 16x16", []),
    ("((4,8),(2,2)):((32,1),(16,8)) over 16x8", []),
    (VERSION_2, []),
    (VERSION_3, []),
]
SAYING = re.compile(r"\b[abd]$|nvidia_mma|NVMMADist|dot_op|DotOperand| d$|warps ")  # texts that say their operand


def said(*words, code=0):
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("text", "options"), TEXTS)
def test_a_text_is_of_an_operand_only_where_it_says_so_and_no_line_says_another(text, options):
    shown = said("show", text, *options)
    head = re.search(r"^operand (\w+)", shown, re.MULTILINE)
    same = re.search(r"^this is (\w) of (\w+)", shown, re.MULTILINE)
    if not SAYING.search(text) and "slice" not in text:
        assert head is None
    if head and same:
        assert {head[1], same[1]} <= {"C", "D"} or head[1] == same[1]
    if "memory of" not in shown and "make_tiled_mma" not in text and "warps" not in shown.partition("\n")[0]:
        where = said("where", text, *options, "--row", "0", "--col", "0")
        assert where.startswith(f"{head[1] if head else ''}[0][0]: ")


def test_a_layout_of_mma_sync_is_no_operand_of_wgmma():
    assert "this is D of wgmma" in said("show", VERSION_3)
    other = said("show", VERSION_2)
    assert "this is" not in other
    assert "every element is where it is in D of wgmma" in other


IN_A_BYTE = {"e2m1": (2, 5), "e2m3": (0, 5), "e3m2": (0, 5)}  # PTX ISA 9.1, section 9.7.14.5.10


def test_every_element_that_is_narrower_than_its_slot_says_which_bits_it_is_in():
    found = set()
    for fragment in inventory.fragments().values():
        kind = dtype(fragment.type)
        if fragment.role not in WHOLE or fragment.slot_bits == kind.bits:
            continue
        first, last = map(int, re.match(rf"{kind.name} is in bits (\d) to (\d) of a byte", fragment.container).groups())
        found.add(kind.name)
        assert (first, last) == IN_A_BYTE[kind.name]
        minus_one = kind.pattern(-1, BYTE)  # its sign is the highest of the bits
        assert minus_one.bit_length() - 1 == last
        assert minus_one % (1 << first) == 0
        assert last - first + 1 == kind.bits
    assert found == set(IN_A_BYTE)


@pytest.mark.parametrize("command", ["show", "where"])
@pytest.mark.parametrize("kind", IN_A_BYTE)
def test_show_and_where_say_it(command, kind):
    name = f"mma.m16n8k32.row.col.kind::f8f6f4.f32.{kind}.{kind}.f32.a"
    place = [] if command == "show" else ["--row", "0", "--col", "0"]
    assert "{} is in bits {} to {} of a byte".format(kind, *IN_A_BYTE[kind]) in said(command, name, *place)


def test_of_ldmatrix_the_low_bits_are_the_number():
    for padded, bits in (("b6x16_p32", "6 bits are the low ones"), ("b4x16_p64", "4 bits are the low ones")):
        assert bits in said("where", f"ldmatrix.m8n16.x1.shared.b8x16.{padded}.d", "--row", "0", "--col", "0")


def registers(rows, cols, bits, threads):
    return rows * cols * bits // threads // 32


def test_an_answer_about_several_fragments_counts_their_registers():
    error = said("show", "registers", "of", "m64n256k16", "--strict", code=2)
    counts = re.findall(r"\.(f16|f32)\.\w+\.\w+\.([ad])[^;.]*? \((\d+) registers\)", error)
    assert {int(count) for *_, count in counts} == {
        registers(64, 16, 16, 128),
        registers(64, 256, 16, 128),
        registers(64, 256, 32, 128),
    }
    outlined = said("show", "m16n8k16 f16 f32")
    assert [int(n) for n in re.findall(r"per lane in (\d+) registers", outlined)] == [
        registers(16, 16, 16, 32),
        registers(16, 8, 16, 32),
        *(registers(16, 8, 32, 32),) * 2,
    ]
