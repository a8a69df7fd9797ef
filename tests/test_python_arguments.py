"""Python's functions take what commands take, however it is spelled, and what NumPy, PyTorch and CUDA call it."""

import inspect
import itertools
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tcprobe
from tcprobe.errors import InternalError, TcprobeError, UsageError
from tcprobe.isa.dtypes import DTYPES, OTHER_NAMES, ptx_name
from tcprobe.isa.names.words import read
from tcprobe.question import arguments
from tcprobe.question.arguments import arch_name, element_type, place, sizes, whole

A, D = "mma.m16n8k16.row.col.f32.f16.f16.f32.a", "mma.m16n8k16.row.col.f32.f16.f16.f32.d"


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_type_has_the_same_names_everywhere(name):
    """In a fragment's name, in a command's --type, in Python; in any case, and in CUTLASS's namespace."""
    for other in OTHER_NAMES[name].split("|"):
        assert read(f"mma {other.upper()}").words == ("mma", name)
        assert ptx_name(f"cutlass::{other}") == name
        if "|" in name:
            with pytest.raises(UsageError, match="choose one"):
                arguments.element_type(other)
        else:
            assert arguments.element_type(f" {other.upper()} ") == element_type(other) == name


def test_no_other_name_is_the_name_of_a_type_or_of_two():
    others = [other for names in OTHER_NAMES.values() for other in names.split("|")]
    assert len(set(others)) == len(others)
    assert not {row.name for row in DTYPES} & set(others)
    assert {part for name in OTHER_NAMES for part in name.split("|")} - {row.name for row in DTYPES} == {
        "s64",  # of tensor maps alone
        "u64",
        "u16",
    }


def test_types_of_numpy_and_pytorch_are_types():
    class Torch:
        """As torch.bfloat16 prints itself."""

        def __str__(self):
            return "torch.bfloat16"

    assert [element_type(kind) for kind in (np.float16, np.dtype("int8"), Torch())] == ["f16", "s8", "bf16"]
    by_name = tcprobe.kernel("sm_80", "f16").source
    assert tcprobe.kernel((8, 0), np.float16).source == tcprobe.kernel(8.0, "cutlass::half_t").source == by_name


SIZES = ("64x64", "64,64", [64, 64], (64, 64), np.array([64, 64]), (np.int32(64), np.uint8(64)))
PLACES = (128, "128", "128B", "SWIZZLE_128B", "swizzle_128b")
SWIZZLES = ("3,4,3", "sw:3,4,3", "Swizzle<3,4,3>", tcprobe.swizzle("3,4,3"))


def test_sizes_and_swizzles_in_any_spelling_give_the_same():
    assert {sizes("tile", size, 2) for size in SIZES} == {(64, 64)}
    assert {place(placed) for placed in PLACES} == {"SWIZZLE_128B"}
    assert {place(placed) for placed in SWIZZLES} == {"sw:3,4,3"}
    assert {place(placed) for placed in ("plain", "pad:16")} == {"plain", "pad:16"}
    for placed in (*PLACES, *SWIZZLES):
        banks = tcprobe.banks(A, tile="64x64", access="ldmatrix.x4", placed=placed)
        assert [cost.wavefronts for cost in banks.costs] == [64]
        assert tcprobe.tensormap("half", tile="64x64", swizzle=placed).map.swizzle == 3
        assert tcprobe.descriptor(tile=[64, 64], kind="half", swizzle=placed).descriptor.encode() == 0x4000004000010000
    assert str(tcprobe.path(A, "64x64", placed=128)) == str(tcprobe.path(A, (64, 64), placed="128B"))


def test_an_arch_in_any_spelling():
    """(9, 0) is torch.cuda.get_device_capability()."""
    names = ("sm_90", 90, 9.0, (9, 0), "h100", tcprobe.arch("sm_90"))
    assert {tcprobe.arch(name).name for name in names} == {"sm_90"}
    assert {tcprobe.fragment(A, arch=name).arch for name in names} == {"sm_90"}
    assert arch_name((12, 1)) == "12.1"
    assert tcprobe.arch((12, 1)).name == "sm_121"


@pytest.mark.parametrize("name", ["lane_addresses", "source_addresses"])
def test_wrong_addresses_are_called_by_their_parameter(name):
    both = {"lane_addresses": "16 * lane", "source_addresses": "16 * lane", name: [1.5] * 32}
    with pytest.raises(UsageError, match=f"`{name}` '1.5' is not a whole number"):
        tcprobe.banks(access="cp.async.16", **both)


def test_a_fill_is_a_number_or_an_expression():
    masked = [tcprobe.reduce(D, mask="row >= col", fill=fill).code for fill in ("-1.5", -1.5, np.float32(-1.5))]
    assert masked == masked[:1] * 3
    assert tcprobe.reduce(D, mask="row >= col", fill=float("-inf")).code == (
        tcprobe.reduce(D, mask="row >= col", fill="-inf").code
    )


def test_addresses_of_numpy_are_addresses():
    strided = tcprobe.banks(lane_addresses=np.arange(32) * 128, access="ld.shared.b32")
    assert strided.wavefronts == tcprobe.banks(lane_addresses="lane * 128", access="ld.shared.b32").wavefronts == 32


WRONG = {
    "a size that is a number": lambda: tcprobe.banks(A, tile=64, access="ldmatrix.x4"),
    "a fraction as a size": lambda: tcprobe.path(A, (64.0, 64)),
    "a size that is true": lambda: tcprobe.path(A, (True, 64)),
    "one side": lambda: tcprobe.path(A, (64,)),
    "three sides": lambda: tcprobe.path(A, "64x64x64"),
    "a swizzle that is none": lambda: tcprobe.banks(A, tile="64x64", access="ldmatrix.x4", placed=100),
    "stages as text": lambda: tcprobe.kernel("sm_80", "f16", stages="3"),
    "either type": lambda: tcprobe.kernel("sm_90", "fp8"),
    "an arch of nothing": lambda: tcprobe.arch(None),
    "an arch of bytes": lambda: tcprobe.arch(b"90"),
    "a row between two": lambda: tcprobe.fragment(A).where(row=1.5, col=0),
    "a descriptor that may be decimal": lambda: tcprobe.descriptor("4000004000010000"),
    "a descriptor of words": lambda: tcprobe.descriptor("a descriptor"),
    "addresses that are one": lambda: tcprobe.banks(lane_addresses=128, access="ld.shared.b32"),
    "an address between two": lambda: tcprobe.banks(lane_addresses=[1.5] * 32, access="ld.shared.b32"),
    "a reduction and a mask": lambda: tcprobe.reduce(D, over="row", op="max", mask="row >= col"),
    "strides of another rank": lambda: tcprobe.tensormap("bf16", tile=(64, 64), strides=(128, 256)),
    "no number": lambda: whole("n", None),
    "a name that is none": lambda: tcprobe.fragment(5),
    "an instruction that is none": lambda: tcprobe.cost(None),
    "accesses that are none": lambda: tcprobe.banks(A, tile="64x64", access=5),
    "an access that is none": lambda: tcprobe.path(A, "64x64", access=4),
    "a leading dimension as text": lambda: tcprobe.path(A, "64x64", ld="64"),
    "a function's name that is none": lambda: tcprobe.convert(D, A, function=1),
    "a mask that is none": lambda: tcprobe.reduce(D, mask=1, fill=0),
    "a kernel's name that is none": lambda: tcprobe.kernel("sm_80", "f16", name=1),
}


@pytest.mark.parametrize("ask", WRONG.values(), ids=WRONG)
def test_what_means_nothing_is_refused_in_words(ask):
    with pytest.raises(UsageError) as error:
        ask()
    assert "--" not in str(error.value)


SCALES = "mma.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0.scale_a"
ORDERS = Path(__file__).parent.parent / "examples" / "orders"
FINE = {  # arguments that work, to which each parameter's hostile values are put
    "fragment": {"name": A},
    "instruction": {"name": A.removesuffix(".a")},
    "arch": {"name": "sm_90"},
    "convert": {"from_": D, "into": A},
    "reduce": {"name": D, "over": "row"},
    "compare": {"name": A},
    "cost": {"name": A.removesuffix(".a")},
    "numerics": {"name": A.removesuffix(".a")},
    "kernel": {"arch": "sm_80", "kind": "f16"},
    "scales": {"name": SCALES},
    "repack": {"name": A.replace(".a", ".b"), "stored_type": "s4", "arch": "sm_80"},
    "lower": {"name": A.removesuffix(".a"), "arch": "sm_80"},
    "read": {"path": "no such file"},
    "check": {"path": "no such file"},
    "emulate": {"ptx": "no such file", "launch": "no such file"},
    "order": {"file": ORDERS / "chain.json"},
    "banks": {"name": A, "tile": "64x64", "access": "ldmatrix.x4"},
    "path": {"name": A, "tile": "64x64"},
    "descriptor": {"tile": "64x64"},
    "tensormap": {"kind": "bf16", "tile": "64x64"},
    "swizzle": {"what": "3,4,3"},
    "layout": {"text": "((4,8),(2,2,2)):((32,1),(16,8,128))", "tile": "16x16"},
    "layouts": {},
    "agree": {"writer": "tma:bf16,64x64,128B", "reader": "cp.async:bf16,64x64,128B"},
    "plan": {"arch": "sm_80", "tile": "128x128x64", "kind": "f16"},
}


class Unprintable:
    """What raises whatever is asked of it."""

    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


HOSTILE = {
    "complex": 1j,
    "bytes": b"sm_90",
    "an object": object(),
    "a class": dict,
    "unprintable": Unprintable(),
    "nothing": "",
    "a zero": "a\0b",
    "half a character": "\ud800",
    "long": "x" * 20_000,
    "options": "--help",
    "a list": ["a", "b"],
    "an empty list": [],
    "without an end": itertools.count(1),
    "a set": {1, 2},
    "a dictionary": {"a": 1},
    "no number": float("nan"),
    "infinite": float("inf"),
    "negative": -1,
    "zero": 0,
    "a folder": Path(),
    "huge": 10**30,
    "true": True,
    "an array": np.arange(6).reshape(2, 3),
    "an array of words": np.array(["a", "b"]),
    "an array of nothing": np.array(5),
    "a number of NumPy": np.float64("nan"),
    "a function": len,
    "a pair": (1, 2),
    "deep": [[[1]]],
}


def parameters_of(name):
    """A function's; those of a kernel that are none are refused."""
    return [n for n in inspect.signature(getattr(tcprobe, name)).parameters if n != "others"]


MODULES = ("kernel", "layout", "numerics")


def test_every_function_is_tried():
    assert set(FINE) == set(tcprobe.__all__)


def error_of(ask):
    """What a call raises, None where it answers."""
    try:
        ask()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", FINE)
def test_hostile_values_are_refused_in_words(name, sample, tmp_path, monkeypatch):
    """Every parameter of every function, with values that are none: an answer, or an error of tcprobe in one line."""
    monkeypatch.chdir(tmp_path)  # a folder of results may have any of these names
    tried = 0
    for parameter in parameters_of(name):
        for kind in sample(list(HOSTILE), 13):
            tried += 1
            error = error_of(partial(getattr(tcprobe, name), **(FINE[name] | {parameter: HOSTILE[kind]})))
            if error is not None:
                assert isinstance(error, TcprobeError), (parameter, kind, repr(error))
                assert not isinstance(error, InternalError), (parameter, kind)
                assert 0 < len(str(error)) < 2000, (parameter, kind)
    assert tried >= len(parameters_of(name))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_values_are_refused_by_the_answers_too(kind):
    value = HOSTILE[kind]
    fragment, multiply = tcprobe.fragment(A), tcprobe.instruction(A.removesuffix(".a"))
    for ask in (
        lambda: fragment.at(lane=value, i=0),
        lambda: fragment.at(lane=0, i=value),
        lambda: fragment.where(row=value, col=0),
        lambda: fragment.where(row=0, col=value),
        lambda: fragment.emit(value),
        lambda: multiply.trace(row=value, col=0),
        lambda: multiply.trace(row=0, col=value),
    ):
        assert isinstance(error_of(ask), TcprobeError | None), kind


def test_a_name_without_bounds_is_refused_at_once(monkeypatch):
    """Nothing is looked up for a name that is longer than any: neither alike ones nor parts in another order."""
    from tcprobe.isa.names import Meaning

    monkeypatch.setattr(Meaning, "_all", lambda *_: pytest.fail("looked up"))
    for ask in (tcprobe.fragment, tcprobe.instruction, tcprobe.cost, tcprobe.numerics, tcprobe.compare, tcprobe.lower):
        for name in ("[a" * 10_000, "mma " * 5_000, "x" * 20_000, "a*b" * 7_000):
            with pytest.raises(UsageError, match="no name has more than 1000"):
                ask(name)


def test_kernel_and_tensormap_have_the_parameters_of_their_options():
    """With the same defaults, so that a new option is a new parameter."""
    from inspect import signature

    from tcprobe.ask.tensormap import MapOptions
    from tcprobe.kernel.gemm import GemmOptions

    parameters = signature(tcprobe.kernel).parameters.values()
    named = {p.name: p.default for p in parameters if p.default != p.empty}
    assert named == GemmOptions._field_defaults | {"results": None, "only": False}
    named = {p.name: p.default for p in signature(tcprobe.tensormap).parameters.values() if p.default != p.empty}
    others = {"kind": None, "decode": None, "swizzle": "none", "arch": None, "results": None, "only": False}
    assert named == MapOptions._field_defaults | others
    with pytest.raises(UsageError, match="`tiles` is not an option of a kernel"):
        tcprobe.kernel("sm_80", "f16", tiles=(128, 128, 64))


def test_what_options_say_parameters_say():
    """A descriptor's instruction and tcgen05, a store by stmatrix, a path behind a descriptor, a reduced tile."""
    b_smem = "wgmma.mma_async.m64n64k16.f32.bf16.bf16.b_smem"
    assert tcprobe.descriptor(tile=(64, 64), instruction=b_smem).type == "bf16"
    with pytest.raises(UsageError, match="takes bf16, not f16"):
        tcprobe.descriptor(tile=(64, 64), instruction=b_smem, kind="f16")
    tile = tcprobe.descriptor(tile="128x64", kind="bf16", tcgen05=True)
    assert f"{tile.value:#018x}" == "0x4000404000010000"
    assert str(tile).splitlines()[1].startswith("0x4000404000010000 with start address 0, for tcgen05")
    assert tcprobe.descriptor(tile.value).fields["version"] == 1
    assert tcprobe.descriptor(0x4000004000010000).sbo == 1024
    with pytest.raises(UsageError, match="more than 64 bits"):
        tcprobe.descriptor(1 << 64)
    store = tcprobe.convert(D, "stmatrix", kind=np.float16, placed=128, function="to_shared")
    assert store.ptx.startswith("stmatrix.sync.aligned.m8n8.x2")
    assert "to_shared(" in store.code
    with pytest.raises(UsageError, match="stmatrix"):
        tcprobe.convert(D, A, placed=128)
    with pytest.raises(UsageError, match="do not apply"):
        tcprobe.convert(D, "stmatrix", transpose=True)
    assert [step.instruction for step in tcprobe.path(b_smem, "64x64", placed=128).steps][-1].startswith("wgmma")
    assert tcprobe.reduce(D, over="row", op="max", tile="64x64", function="row_max").code.count("row_max") >= 1
    assert tcprobe.banks(lane_addresses="16 * lane", source_addresses="16 * lane", access="cp.async.16").wavefronts == 4
    facts = tcprobe.numerics("mma.m16n8k16.row.col.f32.f16.f16.f32")
    in_words = facts.steps(",".join(["1"] * 16), ",".join(["0x4000"] * 16), "3")
    assert in_words == facts.steps([1.0] * 16, np.full(16, 2), 3)
    assert in_words[-1] == "D = 0x420c0000 = 35.0"
    assert facts.bound(64)["length"] == 64
    ways = tcprobe.kernel("sm_80", "f16").explain(200, 150, 77)
    assert [way["element"] for way in ways] == ["A(200, 77)", "B(77, 150)", "D(200, 150)"]
