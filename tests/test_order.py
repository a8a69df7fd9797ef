"""Orders: D to the bit by fractions, files that nobody trusts, bounds, and what tells two orders apart."""

import copy
import json
from fractions import Fraction

import numpy as np
import order_oracle
import pytest
import random_orders
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.arithmetic.order import Additions, FusedMultiplyAdds, Multiplies, Order
from tcprobe.arithmetic.order_text import from_json, read, text, to_json
from tcprobe.errors import DataError, UsageError
from tcprobe.order.bound import error_bound
from tcprobe.order.difference import difference
from tcprobe.order.evaluate import multiply, rule_of, to_tf32
from tcprobe.order.picture import in_words, lines, summary, svg, tree_lines

MMA = "mma.m16n8k16.row.col.f32.bf16.bf16.f32"
WGMMA = "wgmma.mma_async.m64n256k16.f32.bf16.bf16"
FP8 = "wgmma.mma_async.m64n256k32.f32.e4m3.e4m3"
SEEDS = st.integers(0, 2**32)


def order(sum_, k, types=("bf16", "bf16", "f32"), arch="sm_90", inputs="exact"):
    return {"arch": arch, "types": dict(zip("abd", types, strict=True)), "k": k, "inputs": inputs, "sum": sum_}


def raw(data):
    return json.dumps(data).encode()


def elements(data, a, b):
    """(D by the oracle, D) of all elements whose sums the oracle follows."""
    made = multiply(read(raw(data)), a, b).astype(np.float64)
    for row, line in enumerate(a.tolist()):
        for col, column in enumerate(b.T.tolist()):
            try:
                yield order_oracle.element(data, line, column), float(made[row, col])
            except AssertionError:  # beyond the largest number
                continue


# D


@given(SEEDS)
@examples(600, deadline=None)
def test_every_bit_of_d_follows(seed):
    rng = np.random.default_rng(seed)
    data = random_orders.order(rng)
    for wanted, made in elements(data, *random_orders.operands(rng, data["types"]["a"], data["k"])):
        assert made == wanted, (data, wanted.hex(), made.hex())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_m16n8k16_is_two_sums_on_sm_80(arch):
    """1 - 1 in the first eight products, and 2^-26 in the other eight: one sum cuts it."""
    a, b = np.zeros((1, 16), np.float32), np.zeros((16, 1), np.float32)
    a[0, [0, 1, 8]], b[[0, 1, 8], 0] = (1, -1, 2.0**-13), (1, 1, 2.0**-13)
    made = multiply(read(raw(order({"form": MMA, "k": [[0, 16]]}, 16, arch=arch))), a, b)[0, 0]
    assert made == (2.0**-26 if arch == "sm_80" else 0)


@pytest.mark.parametrize(
    ("types", "node", "high"),
    [
        (("f64", "f64", "f64"), {"form": "mma.m16n8k16.row.col.f64.f64.f64.f64", "k": [[0, 40]]}, None),
        (("f64", "f64", "f64"), {"fma": "f64", "k": [[1, 40, 2]], "c": {"fma": "f64", "k": [[0, 40, 2]]}}, None),
        (("s8", "s8", "s32"), {"form": "mma.m16n8k32.row.col.s32.s8.s8.s32", "k": [[0, 40]]}, 128),
        (
            ("u8", "u8", "s32"),
            {"add": [{"form": "mma.m16n8k32.row.col.s32.u8.u8.s32", "k": [[at, at + 20]]} for at in (0, 20)]},
            256,
        ),
    ],
    ids=["DMMA", "DFMA", "IMMA", "IMMA, split"],
)
def test_f64_and_integers(types, node, high):
    rng = np.random.default_rng(1)
    made = read(raw(order(node, 40, types)))
    if high:
        a, b = (rng.integers(high - 256 if types[0] == "s8" else 0, high, size) for size in ((3, 40), (40, 5)))
        d = multiply(made, a.astype(np.int32), b.astype(np.int32))
        assert d.dtype == np.int32
        assert (d == a @ b).all()
        return
    a, b = rng.normal(size=(3, 40)), rng.normal(size=(40, 5))
    d = multiply(made, a, b)
    places = [*range(0, 40, 2), *range(1, 40, 2)] if "fma" in node else range(40)
    for row, col in np.ndindex(3, 5):
        total = Fraction(0)
        for k in places:
            total = order_oracle.nearest(Fraction(a[row, k]) * Fraction(b[k, col]) + total, "f64")
        assert d[row, col] == float(total)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 5000), (70, 3, 4100), (2, 20000, 9), (513, 514, 33)])
def test_tiles_and_pieces_do_not_show(m, n, k):
    """Any part of D, however it is cut for the computation, has the bits of the elements one by one."""
    rng = np.random.default_rng(k)
    a, b = random_orders.operands(rng, "bf16", k, m, n)
    node = {"add": [{"form": WGMMA, "k": [[k // 2, k]]}, {"fma": "f32", "k": [[0, k // 2]]}]}
    made = read(raw(order(node, k, ("bf16", "bf16", "bf16"))))
    whole = multiply(made, a, b).astype(np.float32)
    rows, cols = rng.integers(0, m, 3), rng.integers(0, n, 4)
    part = multiply(made, a, b, rows=rows, cols=cols).astype(np.float32)
    assert (part == whole[np.ix_(rows, cols)]).all()
    assert multiply(made, a, b, rows=slice(0, 1), cols=[0])[0, 0] == multiply(made, a[:1], b[:, :1])[0, 0]


def test_zeros_keep_their_signs_and_what_is_no_number_is_one():
    chain = read(raw(order({"fma": "f32", "k": [[0, 2]]}, 2)))
    ends = np.array([[0.0, -0.0], [np.inf, -np.inf], [np.nan, 1], [-np.inf, 1], [2.0**-100, 0]], np.float32)
    ones = np.array([[1.0, 2.0**-60], [1.0, 1.0]], np.float32)
    d = multiply(chain, ends, ones)
    assert d[0].view(np.uint32).tolist() == [0, 0]  # 0 x 1 + 0 from +0, as -0 + 0 is
    assert d[1:3, 0].view(np.uint32).tolist() == [0x7FFFFFFF] * 2
    assert d[3, 0] == -np.inf
    assert d[4].tolist() == [2.0**-100, 0.0]  # half of the least number: to even
    least = np.array([[2.0**-100, 2.0**-100 * 0.5]], np.float32)
    assert multiply(chain, least, np.array([[2.0**-49], [2.0**-49]], np.float32))[0, 0] == 2 * 2.0**-149  # 1 1/2: even
    negative = np.array([[-1.0, 0.0]], np.float32)
    first = multiply(read(raw(order({"fma": "f32", "k": [[0, 1], [1, 2]]}, 2))), negative, np.zeros((2, 1), np.float32))
    assert first.view(np.uint32)[0, 0] == 0


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_inputs_are_rounded_to_tf32(numbers):
    array = np.array(numbers, np.float32)
    for how in ("nearest even", "nearest away", "cut", "exact"):
        made = to_tf32(array.view(np.uint32), how).view(np.float32)
        for number, one in zip(numbers, made.tolist(), strict=True):
            wanted = order_oracle.to_tf32(Fraction(number), how)
            assert one == (float("inf") * np.sign(number) if abs(wanted) >= 2**128 else float(wanted))
    ends = np.array([np.inf, -np.inf, np.nan], np.float32)
    assert (to_tf32(ends.view(np.uint32), "nearest away") == ends.view(np.uint32)).all()


@pytest.mark.parametrize(
    ("a", "words"),
    [
        (np.zeros((2, 3)), "not matrices with 4 products"),
        (np.zeros(4), "not matrices"),
        (np.full((1, 4), 1.0001), "is not a number of type bf16"),
        (np.full((1, 4), None), "numbers of type bf16 are needed"),
    ],
)
def test_operands_that_are_none_are_refused(a, words):
    with pytest.raises(UsageError, match=words):
        multiply(read(raw(order({"fma": "f32", "k": [[0, 4]]}, 4))), a, np.ones((4, 2)))


@pytest.mark.parametrize("rows", [[2], [-1], [0.5], [[0]], "01"])
def test_rows_that_are_none_are_refused(rows):
    with pytest.raises(UsageError, match=r"^rows "):
        multiply(read(raw(order({"fma": "f32", "k": [[0, 4]]}, 4))), np.ones((2, 4)), np.ones((4, 2)), rows=rows)


@pytest.mark.parametrize(
    ("form", "arch", "groups", "fraction", "result", "rounding", "floor"),
    [
        ("mma.m16n8k16.row.col.f32.f16.f16.f32", "sm_80", (8, 8), 24, 23, "toward zero", -132),
        ("mma.m16n8k16.row.col.f16.f16.f16.f16", "sm_80", (8, 8), 24, 10, "nearest even", None),
        ("mma.m16n8k8.row.col.f32.tf32.tf32.f32", "sm_86", (4, 4), 24, 23, "toward zero", -132),
        ("mma.m16n8k32.row.col.f32.e4m3.e5m2.f32", "sm_89", (16, 16), 13, 13, "toward zero", -132),
        ("mma.m16n8k8.row.col.f32.f16.f16.f32", "sm_75", (8,), 24, 23, "toward zero", None),
        ("mma.m16n8k16.row.col.f32.bf16.bf16.f32", "sm_120", (16,), 25, 23, "toward zero", -133),
        ("mma.m8n8k4.row.col.f64.f64.f64.f64", "sm_80", (4,), None, 52, "nearest even", None),
    ],
)
def test_what_others_publish_is_an_arithmetic(form, arch, groups, fraction, result, rounding, floor):
    """As docs/numerics.md and the codes that it names have it."""
    rule = rule_of(form, arch)
    found = rule.parameters
    assert not rule.measured
    assert tuple(map(len, found.groups)) == groups
    assert [k for group in found.groups for k in group] == list(range(rule.products))
    assert (found.fraction_bits, found.result_bits, found.rounding) == (fraction, result, rounding)
    assert (found.exponent_floor, found.unread_bits) == (floor, 13 if "tf32" in form else 0)


# files


@given(SEEDS)
@examples(200, deadline=None)
def test_an_order_is_written_as_it_was_read(seed):
    data = {**random_orders.order(np.random.default_rng(seed)), "library": "cuBLAS", "shape": [1, 2, 3]}
    made = read(raw(data))
    assert read(text(made).encode()) == made
    assert to_json(made) == data
    assert dict(made.more) == {"library": "cuBLAS", "shape": [1, 2, 3]}


def test_how_ranges_are_cut_does_not_matter_but_their_order_does():
    def made(*ranges):
        return from_json(order({"form": MMA, "k": [list(part) for part in ranges]}, 64))

    assert made((0, 64)) == made((0, 16), (16, 64)) == made((0, 64, 1)) == made(*((k, k + 1) for k in range(64)))
    assert len({made((0, 64)), made((0, 30), (30, 64)), made((32, 64), (0, 32))}) == 2
    assert made((0, 64, 2), (1, 64, 2)) == made(*((k, k + 1) for k in [*range(0, 64, 2), *range(1, 64, 2)]))
    assert from_json(order({"form": MMA, "k": [[0, 64]]}, 64, arch="sm_80")) != made((0, 64))


@pytest.mark.parametrize("way", ["c", "add", "left"])
def test_sums_are_nested_a_thousand_deep(way):
    deep = {"fma": "f32", "k": [[0, 1]]}
    number = 1 if way == "add" else 1001
    for k in range(1, 1001):
        own = {"fma": "f32", "k": [[k, k + 1]]}
        deep = {"add": [deep]} if way == "add" else {**own, "c": deep} if way == "c" else {"add": [own, deep]}
    part = json.dumps({"fma": "f32", "k": [[0, 1]]})
    written = text_of(deep)
    made = read(written)
    assert read(text(made).encode()) == made
    assert part in written.decode()
    ones = multiply(made, np.ones((2, number)), np.ones((number, 2)))
    assert (ones == number).all()
    assert error_bound(made).roundings >= number - 1
    assert len(list(tree_lines(made))) == 20
    assert difference(made, made).none
    with pytest.raises(DataError, match="nested more than 1000 deep"):
        read(text_of({"add": [deep]}))


def text_of(node):
    """ORDER.json of a node nested deeper than json.dumps follows, of f32 products."""
    made, at, k = "", node, 0
    ends = []
    while True:
        if "add" in at and len(at["add"]) == 2:
            made, at, k = made + '{"add": [' + json.dumps(at["add"][0]) + ", ", at["add"][1], k + 1
            ends.append("]}")
        elif "add" in at:
            made, at = made + '{"add": [', at["add"][0]
            ends.append("]}")
        elif "c" in at:
            made, at, k = made + f'{{"fma": "f32", "k": {at["k"]}, "c": ', at["c"], k + 1
            ends.append("}")
        else:
            break
    sum_ = made + json.dumps(at) + "".join(reversed(ends))
    head = json.dumps(order(0, k + 1, ("f32", "f32", "f32")))
    return head.replace('"sum": 0', f'"sum": {sum_}').encode()


GOOD = order({"add": [{"form": MMA, "k": [[0, 32]]}, {"fma": "f32", "k": [[32, 40]]}]}, 40)


def wrong(path, value):
    """GOOD with one value replaced, or a key added."""
    data = copy.deepcopy(GOOD)
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return data


FIRST = ("sum", "add", 0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (wrong(("k",), 41), "product 40 is never summed"),
        (wrong(("k",), 39), "product 39 is beyond `k`"),
        (wrong(("k",), 40.0), "`k` 40.0"),
        (wrong(("k",), True), "`k` True"),
        (wrong(("k",), 0), "`k` 0"),
        (wrong(("k",), 10**18), "`k` 1000000000000000000"),
        (wrong((*FIRST, "k"), [[0, 32], [0, 8]]), "product 0 is summed twice"),
        (wrong((*FIRST, "k"), [[8, 32]]), "product 0 is never summed"),
        (wrong((*FIRST, "k"), [[32, 0]]), "not a range"),
        (wrong((*FIRST, "k"), [[0, 32, 0]]), "not a range"),
        (wrong((*FIRST, "k"), [[0, 32, -1]]), "not a range"),
        (wrong((*FIRST, "k"), [[-1, 32]]), "not a range"),
        (wrong((*FIRST, "k"), [[0, 2**40]]), "not a range"),
        (wrong((*FIRST, "k"), [[0, 32.5]]), "whole numbers"),
        (wrong((*FIRST, "k"), [[0, True]]), "whole numbers"),
        (wrong((*FIRST, "k"), [[0]]), "whole numbers"),
        (wrong((*FIRST, "k"), [[0, 1, 1, 1]]), "whole numbers"),
        (wrong((*FIRST, "k"), [0, 32]), "list of ranges"),
        (wrong((*FIRST, "k"), []), "without products"),
        (wrong((*FIRST, "k"), {}), "list of ranges"),
        (wrong((*FIRST, "form"), "banana"), "'banana' is not the name of a multiply"),
        (wrong((*FIRST, "form"), 3), "`form` is a text"),
        (wrong((*FIRST, "form"), "ldmatrix.m8n8.x4.shared.b16"), "not the name of a multiply"),
        (wrong((*FIRST, "form"), "mma.sp.m16n8k32.row.col.f32.bf16.bf16.f32"), "is sparse"),
        (wrong((*FIRST, "form"), "mma.m16n8k16.row.col.f32.f16.f16.f32"), "does not hold it"),
        (wrong((*FIRST, "fma"), "f32"), "no sum has the keys"),
        (wrong((*FIRST, "C"), {}), "no sum has the keys"),
        (wrong((*FIRST, "c"), None), "a sum is an object"),
        (wrong((*FIRST, "add"), []), "no sum has the keys"),
        (wrong(("sum", "add"), []), "additions of nothing"),
        (wrong(("sum", "add"), 3), "`add` is a list"),
        (wrong(("sum", "add", 1, "fma"), "f16"), "one of f32, f64"),
        (wrong(("sum",), []), "a sum is an object"),
        (wrong(("sum",), None), "a sum is an object"),
        (wrong(("arch",), "sm_1"), "sm_1"),
        (wrong(("arch",), 90), "are texts"),
        (wrong(("arch",), "sm_70"), "sm_70 has no mma"),
        (wrong(("inputs",), "up"), "`inputs`"),
        (wrong(("inputs",), None), "are texts"),
        (wrong(("types",), {"a": "bf16", "b": "bf16"}), "keys a, b and d"),
        (wrong(("types", "a"), "banana"), "`types.a`"),
        (wrong(("types", "d"), "s32"), "the sum is of f32"),
        (wrong(("types", "d"), "f64"), "the sum is of f32"),
        (wrong(("types", "c"), "f32"), "keys a, b and d"),
        (wrong(("note",), json.loads("[" * 40 + "]" * 40)), "nested more than 16 deep"),
    ],
)
def test_what_is_no_order_is_refused(data, words):
    with pytest.raises(DataError, match=words):
        read(raw(data))


def test_chains_of_other_types_than_their_c_are_refused():
    half = "mma.m16n8k16.row.col.f16.f16.f16.f16"
    types = ("f16", "f16", "f16")
    inner = {"form": half, "k": [[0, 16]]}
    assert from_json(order({"form": half, "k": [[16, 40]], "c": inner}, 40, types))
    with pytest.raises(DataError, match="has a C of f16"):
        from_json(order({"form": half, "k": [[16, 40]], "c": {"fma": "f32", "k": [[0, 16]]}}, 40, types))
    c = {"form": "mma.m16n8k32.row.col.s32.s8.s8.s32", "k": [[0, 16]]}
    with pytest.raises(DataError, match="do not start from a sum of s32"):
        from_json(order({"fma": "f32", "k": [[16, 40]], "c": c}, 40, types))
    with pytest.raises(DataError, match="sums of f32 and f64 cannot be added"):
        from_json(order({"add": [{"fma": "f32", "k": [[0, 20]]}, {"fma": "f64", "k": [[20, 40]]}]}, 40, types))


HEAD = raw(order(0, 4)).replace(b"0}", b"")


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * 10**6,
        b'{"a":' * 10**5,
        HEAD + b'{"add":[' * 10**5,
        b"[" + b"{}," * 3 * 10**5 + b"{}]",
        b'["' + b'","' * 3 * 10**5 + b'"]',
        HEAD + b'{"fma":"f32","k":[' + b"[0,1]," * 10**5 + b"[0,1]]}}",
        HEAD + b'{"fma":"f32","k":[[0,' + b"9" * 5000 + b"]]}}",
        b"9" * 5000,
        b" " * 10**6,
        b'"' + b"\\" * 10**6,
        b"NaN",
        b'{"k": NaN}',
        b'{"k": Infinity}',
        b'{"k": 1e999}',
        b'{"k": 01}',
        b"\xff\xfe",
        b"",
        b"{",
        b'{"k": 1, "k": 2}',
        b'{"\\u202e": 1}',
        b'{"arch": "' + b"x" * 600 + b'"}',
        b"[1,]",
        b"[[1,2],]",
        b'{"a" 1}',
        b"{,}",
        b'{"a": 1 "b": 2}',
        b"null",
        raw(GOOD) + b"x",
        raw(GOOD)[:-1],
        b" " * (1 << 23),
    ],
    ids=lambda raw: f"{raw[:12]!r} {len(raw)}",
)
def test_hostile_files_are_refused(hostile):
    with pytest.raises(DataError) as error:
        read(hostile)
    assert len(str(error.value)) < 300


def test_an_order_may_be_indented():
    data = order({"add": [{"fma": "f32", "k": [[k, k + 1]]} for k in reversed(range(16384))]}, 16384)
    assert read(json.dumps(data, indent=4).encode()) == read(raw(data))


@pytest.mark.parametrize("at", range(0, len(raw(GOOD)), 9))
def test_a_byte_more_or_less_is_no_crash(at):
    for other in (raw(GOOD)[:at] + raw(GOOD)[at + 1 :], raw(GOOD)[:at] + b"[" + raw(GOOD)[at:]):
        try:
            assert isinstance(read(other), Order)
        except DataError:
            continue


def test_nodes_made_in_python_are_checked():
    with pytest.raises(UsageError, match="not the name"):
        Multiplies("banana", ((0, 4),))
    twice = FusedMultiplyAdds("f32", ((0, 2),))
    with pytest.raises(UsageError, match="summed twice"):
        Order("h100", ("f32", "f32", "f32"), 2, Additions((twice, twice)))
    made = Order("h100", ("f32", "f32", "f32"), 2, FusedMultiplyAdds("f32", [[0, 2]]))
    assert (made.arch, repr(made.sum)) == ("sm_90", "<FusedMultiplyAdds of 2 products>")
    with pytest.raises(AttributeError):
        made.k = 3


# bounds


@given(SEEDS)
@examples(150, deadline=None)
def test_d_is_within_its_bound(seed):
    rng = np.random.default_rng(seed)
    data = random_orders.order(rng)
    data["types"]["d"] = "f32"
    kind = data["types"]["a"]
    a, b = (np.where(side == 0, 1, side) for side in (rng.normal(size=(2, data["k"])), rng.normal(size=(data["k"], 2))))
    a, b = (
        np.clip(abs(side), 0.05, 4).astype(random_orders.NUMPY[kind]).astype(np.float32) * np.sign(side)
        for side in (a, b)
    )
    made = read(raw(data))
    bound, d = error_bound(made).bound, multiply(made, a, b)
    for row, col in np.ndindex(2, 2):
        pairs = [Fraction(x) * Fraction(y) for x, y in zip(a[row].tolist(), b[:, col].tolist(), strict=True)]
        assert abs(Fraction(float(d[row, col])) - sum(pairs)) <= bound * sum(map(abs, pairs))


def test_bounds_of_small_orders_are_what_they_should_be():
    unit = Fraction(1, 1 << 24)
    for k in (1, 7):
        found = error_bound(from_json(order({"fma": "f32", "k": [[0, k]]}, k)))
        assert (1 + unit) ** k - 1 <= found.bound < ((1 + unit) ** k - 1) * (1 + Fraction(1, 1 << 100))
        assert found.roundings == k
    added = error_bound(from_json(order({"add": [{"fma": "f32", "k": [[k, k + 1]]} for k in range(4)]}, 4)))
    assert added.roundings == 4
    assert error_bound(from_json(order({"fma": "f32", "k": [[0, 4]]}, 4, ("bf16", "bf16", "bf16")))).roundings == 5
    assert error_bound(from_json(order({"form": MMA, "k": [[0, 40]]}, 40))).roundings == 3
    assert error_bound(from_json(order({"form": MMA, "k": [[0, 40]]}, 40, arch="sm_80"))).roundings == 6
    assert error_bound(from_json(order({"form": FP8, "k": [[0, 64]]}, 64, ("e4m3", "e4m3", "f32")))).bound > 2**-13
    tf32 = order({"fma": "f32", "k": [[0, 1]]}, 1, ("f32", "f32", "f32"), inputs="nearest even")
    assert error_bound(from_json(tf32)).bound >= 2 * 2**-11


# differences


def split(k, parts, form=WGMMA):
    return {"add": [{"form": form, "k": [[at, min(at + k // parts, k)]]} for at in range(0, k, k // parts)]}


def joined(*parts, form=WGMMA, k=512, **how):
    """An order of chains of one form that additions join."""
    return order({"add": [{"form": form, "k": [list(part) for part in each]} for each in parts]}, k, **how)


def chain(*parts, c=None, k=512):
    """An order of one chain, C from another."""
    inner = {} if c is None else {"c": {"form": WGMMA, "k": [c]}}
    return order({"form": WGMMA, "k": [list(part) for part in parts], **inner}, k)


HALVES = ([(0, 256)], [(256, 512)])
BASE = joined(*HALVES)
FOUR = split(512, 4)["add"]
TF32 = order({"form": "wgmma.mma_async.m64n8k8.f32.tf32.tf32", "k": [[0, 64]]}, 64, ("f32", "f32", "f32"))
MUTATIONS = {
    "ranges exchanged": (BASE, joined([(0, 128), (256, 384)], [(128, 256), (384, 512)])),
    "a chain backwards": (BASE, joined([(at, at + 16) for at in range(240, -1, -16)], [(256, 512)])),
    "one part fewer": (BASE, chain((0, 512))),
    "one part more": (BASE, joined([(0, 128)], [(128, 256)], [(256, 512)])),
    "a part a multiply longer": (BASE, joined([(0, 272)], [(272, 512)])),
    "k8 instead of k16": (BASE, joined(*HALVES, form="mma.m16n8k8.row.col.f32.bf16.bf16.f32")),
    "multiply-adds": (BASE, order({"add": [{"fma": "f32", "k": [[0, 256]]}, {"form": WGMMA, "k": [[256, 512]]}]}, 512)),
    "products rounded": (  # which shows only near f32's least number: elsewhere products of bf16 are exact
        order({"fma": "f32", "k": [[0, 32]]}, 32),
        order({"add": [{"fma": "f32", "k": [[k, k + 1]]} for k in range(32)]}, 32),
    ),
    "another arch": (joined(*HALVES, form=MMA), joined(*HALVES, form=MMA, arch="sm_80")),
    "C instead of an addition": (BASE, chain((256, 512), c=[0, 256])),
    "additions otherwise": (
        order({"add": FOUR}, 512),
        order({"add": [{"add": FOUR[:2]}, {"add": FOUR[2:]}]}, 512),
    ),
    "D rounded": (BASE, {**BASE, "types": {"a": "bf16", "b": "bf16", "d": "bf16"}}),
    **{f"inputs {how}": (TF32, {**TF32, "inputs": how}) for how in ("nearest even", "nearest away")},
    "inputs to even, away": ({**TF32, "inputs": "nearest even"}, {**TF32, "inputs": "nearest away"}),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_told_apart_and_operands_show_it(name):
    both = MUTATIONS[name]
    found = difference(*map(from_json, both))
    assert not found.none
    assert found.operands, found.tried
    sides = found.operands.a.tolist(), found.operands.b.tolist()
    assert found.operands.d == tuple(order_oracle.element(data, *sides) for data in both)
    assert found.operands.d[0] != found.operands.d[1]
    assert found.first or found.second or name == "D rounded"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BASE, json.loads(json.dumps(BASE).replace("n256k16", "n64k16"))),
        (BASE, order({"add": BASE["sum"]["add"][::-1]}, 512)),
        (TF32, {**TF32, "inputs": "cut"}),
        (chain((0, 512)), chain((64, 512), c=[0, 64])),
        (order({"form": MMA, "k": [[0, 16]]}, 16), order({"form": MMA, "k": [[8, 16], [0, 8]]}, 16)),
    ],
    ids=["n of the form", "terms exchanged", "tf32 is cut anyway", "a chain in two nodes", "inside a sum"],
)
def test_orders_of_the_same_bits_are_not_told_apart(first, second):
    found = difference(from_json(first), from_json(second))
    assert (found.none, found.first, found.second, found.operands) == (True, None, None, None)


def test_the_first_sum_in_which_orders_part():
    found = difference(from_json(BASE), from_json(order({"form": WGMMA, "k": [[0, 512]]}, 512)))
    assert (found.first.place, found.first.products) == (16, tuple(range(256, 272)))
    assert found.in_words[0] == f"first: sum 16: k 256 to 271 by {WGMMA} from zero"
    assert found.in_words[1] == f"second: sum 16: k 256 to 271 by {WGMMA} onto a sum of 256 products"
    with pytest.raises(UsageError, match="orders of other products"):
        difference(from_json(BASE), from_json(TF32))


# words and pictures


@given(SEEDS)
@examples(60, deadline=None)
def test_pictures_have_few_lines_and_every_product(seed):
    import xml.etree.ElementTree as ET

    made = read(raw(random_orders.order(np.random.default_rng(seed), most=200)))
    whole, left = lines(made, 10**6)
    assert left == 0
    few = list(tree_lines(made))
    assert len(few) == min(len(whole), 20)
    assert few[-1].startswith("... and ") == (len(whole) > 20)
    assert sorted(k for part in whole[0].spans for k in part) == list(range(made.k))
    drawn = ET.fromstring(svg(made, 'a <title> & "more"'))
    assert drawn.tag.endswith("svg")
    assert all(line.isprintable() for line in (*in_words(made), summary(made)))


def test_alike_sums_share_a_line():
    made = from_json(
        order(split(512, 8) | {"add": [*split(512, 8)["add"][:-1], {"fma": "f32", "k": [[448, 512]]}]}, 512)
    )
    assert list(tree_lines(made)) == [
        "8 sums added in f32, from left to right",
        f"├─ 7 x 4 {WGMMA}, k 0-63, ..., 384-447",
        "└─ 64 multiply-adds in f32, k 448-511",
    ]
    assert summary(made) == (f"8 sums added in f32, from left to right: 7 x 4 {WGMMA}; 64 multiply-adds in f32")
