"""Address maps by name against the libraries that define them, and tensor maps against their rule."""

import hashlib
import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from command import tcprobe

from tcprobe.errors import UsageError
from tcprobe.fit.swizzle import fit_address
from tcprobe.isa.arch import arch
from tcprobe.layout.address import AddressMap
from tcprobe.layout.swizzle import Swizzle
from tcprobe.references.shared_memory import cutlass
from tcprobe.references.shared_memory.catalogue import Options, names, names_of, tabulate
from tcprobe.references.shared_memory.claims import CLAIMS

DATA = Path(__file__).parent / "data" / "shared_memory"


CUTLASS = json.loads((DATA / "cutlass.json").read_text())["tables"]


CUTE = json.loads((DATA / "cute.json").read_text())["tables"]


def swizzle(*words, code=0):
    return tcprobe("swizzle", *words, code=code)


def digest(offsets):
    return hashlib.sha256(offsets.T.astype("<i4").tobytes()).hexdigest()[:16]


def stated(name, extent, **options):
    first, second = (axis.ravel() for axis in np.indices(extent))
    return AddressMap.of(first, second, tabulate(name, extent, Options(**options)).offsets.ravel())


# --- CUTLASS and CuTe -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CUTLASS)
def test_tables_are_those_that_cutlass_computes(name):
    for key, expected in CUTLASS[name].items():
        *extent, stride = map(int, key.split(","))
        found = tabulate(name, tuple(extent), Options(stride=stride or None))
        assert (found.unit, digest(found.offsets)) == ("elements", expected), key


def test_every_definition_and_view_is_among_them():
    known = {re.sub("<.*", "", name) for name in CUTLASS}
    assert {re.sub("<.*", "", name) for name in cutlass.names()} == known


@pytest.mark.parametrize("name", CUTE)
def test_tables_are_those_that_cute_computes(name):
    for key, expected in CUTE[name].items():
        found = tabulate(name, tuple(map(int, key.split(","))))
        assert (found.unit, digest(found.offsets)) == ("elements", expected), key


def test_names_may_be_written_as_in_code():
    extent = (32, 32)
    for written in ("cutlass::layout::TensorOpMultiplicandCrosswise<16, 32>", "TensorOpMultiplicandCrosswise<16,32>"):
        assert digest(tabulate(written, extent).offsets) == digest(
            tabulate("TensorOpMultiplicand<16,32>", extent).offsets
        )
    atom = tabulate("cute::GMMA::Layout_K_SW128_Atom<half_t>", (8, 64))
    assert digest(atom.offsets) == digest(tabulate("Layout_K_SW128_Atom", (8, 64), Options(bits=16)).offsets)


@pytest.mark.parametrize(
    ("name", "extent", "options", "words"),
    [
        ("Nothing", (8, 8), {}, "no address map is called 'Nothing'"),
        ("Nothing<1,2,3>", (8, 8), {}, "no address map"),
        ("TensorOpMultiplicandCongruos<16,64>", (8, 8), {}, "perhaps TensorOpMultiplicandCongruous<ElementSize,"),
        ("TensorOpMultiplicand", (8, 8), {}, "TensorOpMultiplicand<ElementSize,Crosswise>"),
        ("TensorOpMultiplicand<16>", (8, 8), {}, "<ElementSize,Crosswise>"),
        ("TensorOpMultiplicand<16,128>", (8, 8), {}, "no such one"),
        ("TensorOpMultiplicand<16,4>", (8, 8), {}, "no such one"),
        ("TensorOpMultiplicand<12,64>", (8, 8), {}, "no such one"),
        ("TensorOpMultiplicand<256,4>", (8, 8), {}, "no such one"),
        ("TensorOpMultiplicand<16,0>", (8, 8), {}, "no such one"),
        ("VoltaTensorOpMultiplicandCrosswise<128,32>", (8, 8), {}, "no such one"),
        ("TensorOpMultiplicandRowMajorInterleaved<8,256>", (8, 8), {}, "no such one"),
        ("RowMajorPitchLinear", (8, 8), {}, "no address map"),
        ("TensorOpMultiplicand<16,64>", (8, 8), {"bits": 8}, "the name says 16"),
        ("TensorOpMultiplicand<16,64>", (8, 8), {"base": 128}, "`base` 128"),
        ("TensorOpMultiplicand<16,64>", (8, 8), {"stride": 0}, "`stride` 0"),
        ("TensorOpMultiplicand<16,64>", (0, 8), {}, "`extent` 0,8"),
        ("TensorOpMultiplicand<16,64>", (10**6, 10**6), {}, "`extent` 1000000"),
        ("Layout_K_SW128_Atom", (8, 64), {}, "`bits` gives the width"),
        ("Layout_K_SW128_Atom<half_t>", (8, 64), {"bits": 8}, "here 16"),
        ("Layout_K_SW128_Atom<what_t>", (8, 64), {}, "'what_t' is not a type"),
        ("Layout_K_SW128_Atom<half_t>", (8, 32), {}, "8 x 64 elements; 8 x 32"),
        ("Layout_K_SW128_Atom<half_t>", (8, 64), {"stride": 64}, "side by side"),
        ("Layout_K_INTER_Atom", (8, 1), {"bits": 256}, "too wide"),
        ("Layout_K_SW128_32B_Atom<float>", (8, 32), {}, "no address map"),
        ("Sw<3,4,2>", (8, 64), {}, "not a swizzle"),
    ],
)
def test_what_no_definition_allows_is_refused(name, extent, options, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        tabulate(name, extent, Options(**options))


def test_the_list_of_names_can_be_asked_for():
    """Each of them, with arguments put in, has a table."""
    listed = swizzle("table", "help").stdout.split()
    assert listed == names()
    arguments = {
        "ElementSize": "16",
        "Crosswise": "32",
        "InterleavedK": "32",
        "KBlock": "32",
        "Interleave": "4",
        "BlockRows": "8",
        "BlockColumns": "4",
        "T": "half_t",
        "B": "1",
        "M": "4",
        "S": "3",
    }
    for name in listed:
        plain, _, parameters = name.rstrip(">").partition("<")
        given = ",".join(arguments[parameter] for parameter in parameters.split(",")) if parameters else ""
        assert tabulate(
            f"{plain}<{given}>" if given else plain, (16, 16) if "SWIZZLE" in name else (64, 64)
        ).offsets.size


def test_plain_swizzles():
    offsets = tabulate("Sw<3,3,3>", (64, 16)).offsets
    assert np.array_equal(offsets.T.ravel(), Swizzle(3, 3, 3)(np.arange(1024)))
    assert tabulate("Swizzle<3,3,3>", (64, 16), Options(stride=72)).offsets[0, 9] == Swizzle(3, 3, 3)(648)


# --- tensor maps ----------------------------------------------------------------------------------------------------


SPANS = {"NONE": None, "32B": 32, "64B": 64, "128B": 128}


@pytest.mark.parametrize(("mode", "bits", "base"), [*product(SPANS, (8, 16, 32, 64), (0, 128, 896))])
def test_boxes_follow_the_rule(mode, bits, base):
    """16-byte chunks of a span are XORed with the number of the 128-byte line; a narrow box has the span's pitch.

    The rule and the widths are those that were measured.
    """
    span = SPANS[mode]
    for inner in (16, 32, 48, 64, 112, 128, 144):
        if span and inner > span:
            continue
        size = bits // 8
        extent = (inner // size, 13)
        offsets = tabulate(f"SWIZZLE_{mode}", extent, Options(bits=bits, base=base)).offsets
        for x, y in product(range(extent[0]), range(extent[1])):
            address = base + y * (span or inner) + x * size
            line, chunk = address // 128, address // 16 % 8
            chunk ^= line % (span // 16) if span else 0
            assert offsets[x, y] == line * 128 + chunk * 16 + address % 16


@pytest.mark.parametrize(
    ("mode", "extent", "options", "words"),
    [
        ("NONE", (24, 8), {"bits": 8}, "24 bytes a row; it must be a multiple of 16"),
        ("NONE", (257, 8), {"bits": 16}, "sides are 1 to 256"),
        ("NONE", (16, 257), {"bits": 8}, "sides are 1 to 256"),
        ("128B", (8, 256), {"bits": 8}, "8 bytes a row"),
        ("32B", (24, 8), {"bits": 16}, "48 bytes a row; the mode's span is 32"),
        ("64B", (128, 8), {"bits": 8}, "span is 64"),
        ("128B", (72, 8), {"bits": 16}, "span is 128"),
        ("NONE", (256, 229), {"bits": 32}, "at most"),
        ("NONE", (256, 115), {"bits": 64}, "at most"),
        ("NONE", (64, 8), {"bits": 4}, "elements of 4 bits"),
        ("NONE", (16, 8), {"bits": 128}, "elements of 128 bits"),
        ("128B", (64, 8), {"bits": 16, "base": 64}, "base 64; it must be a multiple of 128"),
        ("NONE", (64, 8), {"bits": 16, "base": 16}, "base 16"),
        ("NONE", (64, 8), {"bits": 16, "base": -128}, "base -128"),
        ("NONE", (64, 8), {"bits": 16, "base": 233472}, "shared memory ends"),
        ("NONE", (64, 8), {"bits": 16, "stride": 64}, "`stride` 64"),
        ("NONE", (64, 8), {"bits": 16, "arch": arch("sm_80")}, "sm_80 has no tensor maps"),
    ],
)
def test_boxes_that_do_not_exist_are_refused(mode, extent, options, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        tabulate(f"SWIZZLE_{mode}", extent, Options(**options))


def test_the_largest_boxes_exist():
    """As the driver takes them: 228 KB in all, 256 elements to a side."""
    for extent, bits in (((256, 228), 32), ((256, 114), 64), ((250, 116), 64), ((256, 256), 16), ((252, 231), 32)):
        assert tabulate("SWIZZLE_NONE", extent, Options(bits=bits)).offsets.max() < 233472
    assert tabulate("SWIZZLE_128B", (16, 256), Options(bits=8)).offsets.max() < 256 * 128


def test_patterns_that_ptx_prints():
    """PTX ISA, tensor swizzling modes: the order of the 16-byte chunks of each 128-byte line; rows repeat."""
    printed = {
        "32B": ["01234567", "10325476"],
        "64B": ["01234567", "10325476", "23016745", "32107654"],
        "128B": ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
    }
    for mode, rows in printed.items():
        per = 128 // SPANS[mode]
        offsets = tabulate(f"SWIZZLE_{mode}", (SPANS[mode], 16 * per), Options(bits=8)).offsets[::16]
        chunks = offsets.T.reshape(16, -1) // 16
        for line, found in enumerate(chunks):
            assert "".join(str(chunk % 8) for chunk in found) == rows[line % len(rows)]
            assert set(found // 8) == {line}


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "extent", "options", "bits", "kind"),
    [
        ("TensorOpMultiplicandCrosswise<16,32>", (96, 64), {}, None, "coordinate"),
        ("TensorOpMultiplicandCrosswise<16,32>", (32, 32), {"stride": 192}, 16, "coordinate"),
        ("TensorOpMultiplicandCrosswise<16,64>", (64, 32), {"stride": 192}, None, "coordinate"),
        ("RowMajorTensorOpMultiplicandCrosswise<8,64>", (32, 64), {"stride": 128}, None, "swizzle"),
        ("TensorOpMultiplicandCongruous<32,32>", (64, 16), {}, 32, "swizzle"),
        ("TensorOpMultiplicandCongruous64b", (64, 16), {}, 64, "swizzle"),
        ("RowMajorTensorOpMultiplicand64bCrosswise", (64, 16), {"stride": 64}, None, "xor"),
        ("TensorOpMultiplicandCongruous128b", (64, 16), {}, 128, "swizzle"),
        ("TensorOpMultiplicandCrosswise128x4", (16, 16), {}, None, "swizzle"),
        ("VoltaTensorOpMultiplicandBCongruous<16>", (64, 32), {}, None, "swizzle"),
        ("RowMajorVoltaTensorOpMultiplicandCrosswise<16,32>", (64, 32), {}, 16, "xor"),
        ("Layout_K_SW128_Atom<half_t>", (64, 128), {}, 16, "swizzle"),
        ("Layout_MN_SW32_Atom<float>", (64, 32), {}, 32, "swizzle"),
        ("Layout_K_INTER_Atom<half_t>", (64, 32), {}, 16, "affine"),
        ("RowMajorInterleaved<32>", (64, 64), {}, None, "affine"),
        ("PitchLinear", (64, 64), {"stride": 72}, None, "affine"),
    ],
)
def test_what_a_layout_is_called(name, extent, options, bits, kind):
    address = stated(name, extent, **options)
    found = fit_address(address)
    assert found.kind == kind
    assert name in names_of(address, found, bits)


@pytest.mark.parametrize(("mode", "bits"), [*product(SPANS, (8, 16, 32, 64))])
def test_boxes_are_called_by_their_mode(mode, bits):
    """Either coordinate may be the inner one, and the box may begin anywhere."""
    size = bits // 8
    extent = ((SPANS[mode] or 144) // size, 32)
    address = stated(f"SWIZZLE_{mode}", extent, bits=bits, base=384)
    plain = AddressMap.of(address.first, address.second, address.offsets // size)
    turned = AddressMap.of(address.second, address.first, address.offsets // size)
    for one in (plain, turned):
        assert f"SWIZZLE_{mode}" in names_of(one, fit_address(one), bits)


def test_no_name_for_what_is_another_layout():
    """A pitch beyond the span is not a box, one element elsewhere no layout of CUTLASS."""
    address = stated("Sw<3,3,3>", (64, 16), stride=128)
    assert names_of(address, fit_address(address), 16) == ["Sw<2,4,3>"]
    first, second = (axis.ravel() for axis in np.indices((64, 16)))
    moved = AddressMap.of(first, second, address.offsets + (first + second == 0) * 4096)
    assert fit_address(moved) is None


# --- claims ---------------------------------------------------------------------------------------------------------


def test_claims_have_a_verdict():
    """One is false: four printed lines are four phases; a line is one."""
    found = [json.loads(line) for line in swizzle("claims", "--json").stdout.splitlines()]
    assert [claim["claim"] for claim in found if not claim["holds"]] == [
        "a block of four printed lines, 512 bytes, is one phase of a warp"
    ]
    assert "confirmed: 8 vectors hold each of the 32 banks once" in swizzle("claims").stdout


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        (lambda c, s, stride, bits, crosswise: c + s * stride, ["kTileShapeStride", "accesses are free"]),
        (lambda c, s, stride, bits, crosswise: c + s * (stride + 8), ["kFactor"]),
        (lambda c, s, stride, bits, crosswise: cutlass.pitch_linear(c ^ (s & 1) * 8, s, stride), ["accesses are free"]),
    ],
)
def test_verdicts_follow_the_tables(change, fails, monkeypatch):
    """Another definition, another verdict: nothing is confirmed by itself."""
    monkeypatch.setattr(cutlass, "multiplicand", change)
    wrong = [claim.words for claim in CLAIMS if not claim.holds()]
    assert all(any(words.startswith(start) for words in wrong) for start in fails)
