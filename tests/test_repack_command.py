"""`load --repack`, the command: packers lead back, what cannot be packed is refused, the answer and its JSON."""

import json

import emitted
import ml_dtypes
import numpy as np
import pytest
from command import tcprobe
from repacked import F16, NAN, as_given, factors, module, plans

from tcprobe.ask.load.repack import repack, with_zeros
from tcprobe.isa.dtypes import dtype
from tcprobe.store.cell import load as table

# packers


def any_weights(plan, seed=0):
    """Codes of two by three blocks, as the packer takes them."""
    stored, rng = plan.conversion.source, np.random.default_rng(seed)
    codes = rng.integers(0, (1 << dtype(stored).bits) - 1, (2 * plan.k, 3 * plan.lines))
    given = as_given(stored, codes % NAN[0] if stored == "e4m3" else codes)
    return given.T if plan.cell.fragment.operand == "a" else given


@pytest.mark.full
def test_packers_lead_back(tmp_path, sample):
    tried = 0
    for plan in plans(sample(factors(), 5, emitted.spread)):
        packer, weights = module(plan, "numpy", tmp_path), any_weights(plan)
        words = packer.repack(weights)
        assert (words.dtype, words.shape) == (np.uint32, (2, 3, plan.places, plan.words))
        assert np.array_equal(packer.unpack(words), weights), plan.cell.fragment.id
        tried += 1
    assert tried > 60


def test_torch_packs_as_numpy_does(tmp_path, sample):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its packer cannot be run")
    for plan in plans(sample(factors(), 9, emitted.spread)):
        weights = any_weights(plan)
        words = module(plan, "numpy", tmp_path).repack(weights)
        packer = module(plan, "torch", tmp_path)
        found = packer.repack(torch.from_numpy(np.ascontiguousarray(weights)))
        assert np.array_equal(found.numpy().view(np.uint32), words)
        assert np.array_equal(packer.unpack(found).numpy(), weights)


@pytest.mark.parametrize(
    ("stored", "weights", "words"),
    [
        ("s4", np.zeros((100, 8), int), "k is 100, not a multiple of 128; the nearest is 128"),
        ("s4", np.zeros((290, 8), int), "the nearest is 256"),
        ("s4", np.zeros((128, 12), int), "n is 12, not a multiple of 8; the nearest is 8"),
        ("s4", np.full((128, 8), 8), "from -8 to 7"),
        ("u4", np.full((128, 8), -1), "from 0 to 15"),
        ("s4", np.zeros((128, 8)), "whole numbers, not float64"),
        ("e4m3", np.full((64, 8), 0xFF), "NaN"),
        ("e2m1", np.zeros((128, 8), ml_dtypes.float4_e2m1fn), "view them as uint8"),
        ("s4", np.zeros(128, int), "are a matrix"),
    ],
)
def test_what_cannot_be_packed(tmp_path, stored, weights, words):
    packer = module(repack(table(f"{F16}.b", "sm_80"), stored), "numpy", tmp_path)
    with pytest.raises(ValueError, match=words):
        packer.repack(weights)


def zeroed():
    """A fragment of each kind that has zero points: B and A, f16 and bf16, stored in 4 and in 8 bits."""
    for kind, operand, stored in (("f16", "b", "u4"), ("bf16", "b", "s8"), ("bf16", "a", "s4"), ("f16", "a", "s8")):
        name = f"mma.m16n8k16.row.col.f32.{kind}.{kind}.f32.{operand}"
        yield with_zeros(repack(table(name, "sm_80"), stored, None, 32))


@pytest.mark.parametrize("packer", ["numpy", "torch"])
def test_zero_points_are_packed_and_lead_back(tmp_path, packer):
    if packer == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed: its packer cannot be run")
    for plan in zeroed():
        (least, most), code = plan.zero_range, module(plan, packer, tmp_path)
        given = np.arange(least, most + 1).reshape(1, -1)
        packed = code.pack_zeros(given)
        assert np.asarray(packed).dtype == np.uint8
        assert np.array_equal(np.asarray(packed), given + plan.conversion.flip)
        assert np.array_equal(np.asarray(code.unpack_zeros(packed)), given)
        for wrong, words in (
            (given + 1, f"from {least} to {most}"),
            (given / 2, "whole numbers"),
            (given[0], "matrix"),
        ):
            with pytest.raises(ValueError, match=words):
                code.pack_zeros(wrong)


@pytest.mark.parametrize("packer", ["numpy", "torch"])
def test_no_weights_are_packed_to_no_words(tmp_path, packer):
    if packer == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed: its packer cannot be run")
    plan = next(zeroed())
    code, none = module(plan, packer, tmp_path), np.zeros((0, plan.lines), np.int64)
    assert code.repack(none).shape[0] == 0
    assert tuple(code.unpack(code.repack(none)).shape) == none.shape
    assert tuple(code.pack_zeros(none).shape) == none.shape


def test_no_zero_points_unasked(tmp_path):
    plan = repack(table(f"{F16}.b", "sm_80"), "u4", None, 32)
    assert not hasattr(module(plan, "numpy", tmp_path), "pack_zeros")


# the command


def asked(*arguments, code=0):
    done = tcprobe("load", *arguments, code=code)
    return done.stdout if code == 0 else " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([f"{F16}.b", "--repack"], "needs the type of the stored weights"),
        ([f"{F16}.b", "--type", "s4"], "give --repack too"),
        ([f"{F16}.b", "--zeros"], "give --repack too"),
        ([f"{F16}.b", "--repack", "--type", "u4", "--zeros"], "a zero point comes with a scale; give --group too"),
        ([f"{F16}.b", "--repack", "--type", "e2m1", "--group", "64", "--zeros"], "s4, u4 and s8 have zero points"),
        (
            ["mma.m16n8k32.row.col.s32.s8.s8.s32.b", "--repack", "--type", "u4", "--group", "64", "--zeros"],
            "sums of the other factor. The nearest one that does: mma.m16n8k16.row.col",
        ),
        ([f"{F16}.b", "--repack", "--type", "s4", "--ld", "64"], "have their own order"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--global", "row"], "have their own order"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--as", "bf16"], "that does: mma.m16n8k16.row.col.f32.bf16"),
        ([f"{F16}.d", "--repack", "--type", "s4"], "result, not A or B"),
        ([f"{F16}.b", "--repack", "--type", "f16"], "known: s4, u4, s8, e4m3, e2m1"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--group", "100"], "128 works, as do 16, 32, 64, 128"),
        (["mma.m16n8k64.row.col.s32.s4.s4.s32.b", "--repack", "--type", "s8"], "s8 has 8 bits, s4 only 4"),
        (["mma.m16n8k32.row.col.s32.s8.s8.s32.b", "--repack", "--type", "e4m3"], "s8 takes s4, u4, s8. The nearest"),
        (["wmma.m16n16k16.a.row.s8", "--repack", "--type", "s4", "--group", "64"], "several multiplies take"),
        (["mma.m8n8k4.row.col.f32.f16.f16.f32.b", "--repack", "--type", "s8", "--arch", "sm_70"], "holds 4 products"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--packer", "numpy", "--code"], "cannot be combined with --packer"),
    ],
)
def test_refusals(arguments, words):
    assert words in asked(*arguments, code=2)


@pytest.mark.parametrize("operand", "ab")
@pytest.mark.parametrize(("given", "stored"), [("s8", "e4m3"), ("s8", "e2m1"), ("4 products", "s8"), ("s4", "s8")])
def test_the_nearest_that_does_takes_the_same_request(given, stored, operand):
    """Its scales too: sums of f16 take none, so a fragment whose sums are as wide is nearer."""
    names = {"4 products": "mma.m8n8k4.row.col.f32.f16.f16.f32", "s4": "mma.m16n8k64.row.col.s32.s4.s4.s32"}
    name = names.get(given, "mma.m16n8k32.row.col.s32.s8.s8.s32")
    request = ["--repack", "--type", stored, "--group", "128", "--arch", "sm_90"]
    refused = asked(f"{name}.{operand}", *request, code=2)
    assert "one to one" in asked(refused.partition("The nearest one that does: ")[2].rstrip("."), *request)


def test_the_answer():
    text = asked(f"{F16}.b", "--repack", "--type", "s4", "--group", "128", "--arch", "sm_80")
    for words in (
        "8 k steps in one 16-byte load",
        "9 instructions for 8 elements, 1.125 per element",
        "Marlin",
        "each group of k has its scale",
        "one to one",
    ):
        assert words in text
    assert "ldmatrix" not in text


def test_the_answer_with_zero_points():
    given = (f"{F16}.b", "--repack", "--type", "s4", "--group", "64", "--zeros", "--arch", "sm_80")
    text = asked(*given)
    for words in (
        "zero points: -8 to 8, as bytes, 8 added, [k / 64][n]",
        "1.125 per element",
        "each has its zero point",
    ):
        assert words in text
    assert json.loads(asked(*given, "--json"))["zeros"] == {"type": "u8", "add": 8, "least": -8, "most": 8}
    assert "load_zeros" in asked(*given, "--code")
    assert "pack_zeros" in asked(*given, "--packer", "numpy")


def test_ldmatrix_as_the_other_way():
    name = "mma.m16n8k32.row.col.s32.s8.s8.s32.b"
    assert "ldmatrix.m8n16.x4.shared.s8.s4" in asked(name, "--repack", "--type", "s4", "--arch", "sm_90")
    assert "ldmatrix" not in asked(name, "--repack", "--type", "s4", "--arch", "sm_80")
    assert "ldmatrix" not in asked(name, "--repack", "--type", "u4", "--arch", "sm_90")


def test_json_says_where_every_bit_is():
    answer = json.loads(asked(f"{F16}.b", "--repack", "--type", "s4", "--arch", "sm_80", "--json"))
    bits = [32 * word + bit for _, _, _, word, places in answer["order"] for bit in places]
    assert sorted(bits) == list(range(128))
    assert answer["place"] == list(range(32))
    assert (answer["block"]["k"], answer["block"]["lines"], answer["flip"]) == (128, 8, 8)


def test_names_of_the_code():
    text = asked(f"{F16}.b", "--repack", "--type", "s4", "--code", "--name", "Weights", "--namespace", "mine::own")
    assert "namespace mine::own {" in text
    assert "struct Weights {" in text
    assert "repacked_s4" not in text
