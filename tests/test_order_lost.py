"""Products that D lacks or has twice are named, in which elements, and shown; where there are none, nothing is said."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import random_orders
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from order_calls import lines
from sampling import examples

from tcprobe.arithmetic import order_text
from tcprobe.cli import main
from tcprobe.order import multiply
from tcprobe.order.answer import reveal
from tcprobe.order.bench import Bench, Shape
from tcprobe.order.calls import Call, CallError, CallOptions
from tcprobe.order.memory import ArrayModule, numpy_type
from tcprobe.order.reveal import reveal_call
from tcprobe.order.terms import Units

FILE = Path(__file__).parent / "data" / "order_functions.py"
BY_HAND = "examples/orders/by_hand.py"
CPU = ArrayModule(np, "cpu")


def lacking(function, types, shape, d=None, sums=False, everywhere=False):
    """What is found of a function."""
    bench = Bench(Call("given", CPU, types, function, d, sums=sums), Shape(*shape))
    bench.run()
    return Units(bench, 1).lacking(everywhere)


def ranges(chosen):
    """Half-open ranges of those k for which it is so."""
    made = []
    for k in sorted(chosen):
        if made and made[-1][1] == k:
            made[-1][1] = k + 1
        else:
            made.append([k, k + 1])
    return made


def by_count(taken, k):
    """(lost, double) of a list of the products that are summed."""
    counts = np.bincount(taken, minlength=k)
    return ranges(np.nonzero(counts == 0)[0].tolist()), ranges(np.nonzero(counts > 1)[0].tolist())


def summed(order, taken):
    """D of the products that are taken, some of them twice, by an order of as many."""

    def function(a, b):
        a, b = a[:, taken], b[taken]
        (rows, down), (cols, across) = lines(a), lines(np.ascontiguousarray(b.T))
        return multiply(order, a[rows], b[:, cols])[down][:, across]

    return function


@st.composite
def functions(draw):
    """(types, k, products that are taken, an order of so many of any form and nesting)."""
    kind = draw(st.sampled_from(list(random_orders.FORMS)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    k = int(rng.integers(2, 40))
    taken = np.arange(k)
    for how in draw(st.lists(st.sampled_from(["lost", "tail", "double", "span twice"]), max_size=3)):
        at, end = sorted(rng.integers(0, k + 1, 2).tolist())
        if how == "lost":
            taken = taken[taken != at]
        elif how == "tail":
            taken = taken[taken < max(at, 1)]
        elif how == "double":
            taken = np.append(taken, at % k)
        else:
            taken = np.append(taken, np.arange(at, end))
    if not len(taken):
        taken = np.array([0])
    made = random_orders.order(rng, kind)
    forms = [form for form in random_orders.FORMS[kind] if made["arch"] == "sm_90" or form.startswith("mma")]
    places = rng.permutation(len(taken)).tolist()
    made |= {"k": len(taken), "sum": random_orders.node(rng, places, kind, forms)}
    return kind, k, taken, order_text.from_json(made)


@examples(40)
@given(functions(), st.sampled_from([(1, 1), (1, 8), (3, 2), (7, 9), (20, 17)]))
def test_what_a_sum_lacks_or_has_twice_is_named(function, sides):
    """Of any tree, types and D: those products and no others; where each is added once, nothing."""
    kind, k, taken, order = function
    called = summed(order, taken)
    found = lacking(called, (kind, kind), (*sides, k))
    lost, double = by_count(taken, k)
    counts = np.bincount(taken, minlength=k)
    if (counts == counts[0]).all():  # of a multiple nothing is lost: alpha is said elsewhere
        assert found is None
        return
    assert (found.lost, found.double, found.others) == (lost, double, 0)
    (part,) = found.parts
    assert (part.elements, part.rows, part.cols) == (sides[0] * sides[1], (0, sides[0] - 1), (0, sides[1] - 1))
    shown = part.shown
    a, b = np.zeros((sides[0], k), numpy_type(kind)), np.zeros((k, sides[1]), numpy_type(kind))
    a[shown.row, shown.k], b[shown.k, shown.col] = shown.a, shown.b
    assert float(called(a, b)[shown.row, shown.col]) == shown.d == counts[shown.k]
    assert shown.d != shown.right == 1


@examples(40)
@given(st.integers(0, 1 << 30), st.sampled_from(["f32", "s8", "u8"]))
def test_what_depends_on_the_place(seed, kind):
    """Elements at random lack other products than the rest: each kind is said, with how many they are and where."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(each) for each in rng.integers([1, 1, 3], [12, 30, 50]))
    own = rng.integers(0, 3, (m, n)) * (rng.random((m, n)) < rng.random())
    counts = np.ones((3, k), np.int64)
    counts[1, rng.integers(0, k)] = rng.choice([0, 2])
    counts[2, : k // 2] = 0
    types = {"f32": ("f32", "f32"), "s8": ("s8", "s8"), "u8": ("u8", "s8")}[kind]
    wide = np.float32 if kind == "f32" else np.int32

    def function(a, b):
        return np.choose(own, [(a.astype(wide) * of.astype(wide)) @ b.astype(wide) for of in counts])

    found = lacking(function, types, (m, n, k), everywhere=True)
    there = {at: by_count(np.repeat(np.arange(k), counts[at]), k) for at in (1, 2) if (own == at).any()}
    if not there:
        assert found is None
        return
    wanted = {}
    for at, terms in there.items():
        wanted[json.dumps(terms)] = wanted.get(json.dumps(terms), np.zeros((m, n), bool)) | (own == at)
    said = {json.dumps([[list(r) for r in part.lost], [list(r) for r in part.double]]): part for part in found.parts}
    assert said.keys() == wanted.keys()
    assert found.others == 0
    for key, part in said.items():
        rows, cols = np.nonzero(wanted[key])
        assert part.elements == len(rows)
        assert (part.rows, part.cols) == ((rows.min(), rows.max()), (cols.min(), cols.max()))
        assert wanted[key][part.shown.row, part.shown.col]


@pytest.mark.parametrize("sides", [(1, 1), (6, 7), (15, 15), (40, 33), (1, 300), (300, 1)])
def test_one_element_that_lacks_one_product(sides, sample):
    """Wherever it is in D, its product is named."""
    rng = np.random.default_rng(sum(sides))
    for seed in sample(range(20), 5):
        row, col, k = (int(each) for each in rng.integers(0, (*sides, 33)))

        def function(a, b, row=row, col=col, k=k):
            d = a @ b
            d[row, col] -= a[row, k] * b[k, col]
            return d

        made = reveal_call(Call("one", CPU, ("f32", "f32"), function), Shape(*sides, 33), seed)
        assert made.order is None
        assert made.lacking.lost == [[k, k + 1]]
        assert (made.lacking.parts[0].elements, made.lacking.others) == (1, 0)
        assert made.lacking.parts[0].rows == (row, row)
        assert made.lacking.parts[0].cols == (col, col)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sides", "k"),
    [(sides, k) for sides in ((1, 8), (3, 1)) for k in (11528, 57608, 11520, 57664)] + [((32, 32), 11528)],
)
def test_a_tail_of_a_long_k(sides, k):
    """As cublasLtMatmul of f16 loses it, in a few calls however long k is; beside it nothing is said."""
    whole, calls = k // 64 * 64, []

    def function(a, b):
        calls.append(1)
        return np.einsum("mk,kn->mn", a[:, :whole].astype(np.float32), b[:whole].astype(np.float32))

    found = lacking(function, ("f16", "f16"), (*sides, k))
    if whole == k:
        assert found is None
        assert len(calls) < 60
    else:
        assert (found.lost, found.double) == ([[whole, k]], [])
        assert len(calls) < 300


def test_a_reduction():
    def function(x):
        return np.concatenate([x[:, 3:], x[:, 7:8]], axis=1).astype(np.float32).sum(1, keepdims=True)

    found = lacking(function, ("bf16", "bf16"), (9, 1, 700), sums=True)
    assert (found.lost, found.double) == ([[0, 3]], [[7, 8]])
    assert found.parts[0].shown.b is None


def test_a_function_of_another_kind_lacks_nothing():
    """What is no sum of its products times whole numbers is not explained by lost ones."""
    functions = runpy.run_path(str(FILE))
    for name in ("relu", "twice", "biased", "zero", "square", "in_f64", "half_sums"):
        kind = "f16" if name == "half_sums" else "f32"
        assert lacking(functions[name], (kind, kind), (5, 9, 64)) is None, name
    assert lacking(lambda a, b: (a @ b) * np.float32(0.5), ("f32", "f32"), (5, 9, 64)) is None
    with pytest.raises(CallError, match=r"2.0 times A B \(alpha"):
        reveal_call(Call("twice", CPU, ("f32", "f32"), functions["twice"]), Shape(4, 8, 30))


def run(*words):
    return CliRunner().invoke(main, ["order", *map(str, words), "--type", "f32", "--on", "cpu"])


def test_the_command(tmp_path):
    saved = tmp_path / "order.json"
    done = run(f"{BY_HAND}:whole_blocks", "--shape", "4x32x40", "-o", saved, "--svg", tmp_path / "x.svg")
    assert done.exit_code == 1, done.output
    assert "k 32..39 are in no sum: D lacks them" in done.stdout
    assert "A[0][32] = B[32][0] = 1, with zeros elsewhere, gives D[0][0] = 0: 1 is right" in done.stdout
    assert not list(tmp_path.iterdir())
    said = json.loads(run(f"{BY_HAND}:whole_blocks", "--shape", "4x32x40", "--json").stdout)
    assert (said["lost"], said["double"], said["order"]) == ([[32, 40]], [], None)
    right = json.loads(run(f"{BY_HAND}:whole_blocks", "--shape", "4x32x32", "--json").stdout)
    assert (right["lost"], right["double"], right["terms"]) == ([], [], [])
    assert right["order"]["k"] == 32
    sizes = run(f"{BY_HAND}:whole_blocks", "--shape", "2x8x16,20", "--json")
    assert sizes.exit_code == 1
    assert [span["lost"] for span in json.loads(sizes.stdout)["spans"]] == [[], [[16, 20]]]
    words = run(f"{BY_HAND}:whole_blocks", "--shape", "1..3x8x20")
    assert words.exit_code == 1
    assert "k 16..19 are in no sum" in words.stdout


def test_from_python():
    found = reveal(f"{BY_HAND}:whole_blocks", "2x8x20", "f32", CallOptions(on="cpu"))
    assert (found.lost, found.double, found.order, found.exit_code) == ([[16, 20]], [], None, 1)
    right = reveal(f"{BY_HAND}:whole_blocks", "2x8x16", "f32", CallOptions(on="cpu"))
    assert (right.lost, right.double, right.exit_code) == ([], [], 0)
