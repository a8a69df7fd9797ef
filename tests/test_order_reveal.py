"""Orders that are given are found again, exactly, and mutated ones are rejected by the operands of the proof."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_calls import call_of, revealed, tree
from sampling import examples

from tcprobe.arithmetic.order import Additions, FusedMultiplyAdds, Multiplies, Order, Types
from tcprobe.order import proof, reveal
from tcprobe.order.bench import Bench, Shape
from tcprobe.order.calls import CallError
from tcprobe.order.explain import ranges
from tcprobe.order.masks import Masks, queries
from tcprobe.order.reveal import KINDS
from tcprobe.order.sums import Sum
from tcprobe.order.sums import tree as tree_of

BF16, BF16_K8 = "mma.m16n8k16.row.col.f32.bf16.bf16.f32", "mma.m16n8k8.row.col.f32.bf16.bf16.f32"
TF32, HALF = "mma.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.m16n8k16.row.col.f16.f16.f16.f16"
FP8, FP8_MMA = "wgmma.mma_async.m64n8k32.f32.e4m3.e4m3", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"


def parts(form, cuts):
    """Chains over the parts of k between cuts, joined in order."""
    return Additions([Multiplies(form, (span,)) for span in pairwise(cuts)])


def sliced(k):
    """k % 32 in groups of 8, each a chain of multiply-adds."""
    return Additions([FusedMultiplyAdds("f32", tuple((at, at + 8) for at in range(8 * n, k, 32))) for n in range(4)])


def order(types, k, node, inputs="exact", arch="sm_90"):
    kinds = types.split(",")
    return Order(arch, Types(*kinds), k, node, inputs)


KNOWN = {
    "a chain": order("bf16,bf16,f32", 96, Multiplies(BF16, ((0, 96),))),
    "a tail": order("bf16,bf16,bf16", 90, Multiplies(BF16, ((0, 90),))),
    "unequal parts": order("bf16,bf16,bf16", 204, parts(BF16, [0, 64, 128, 192, 204])),
    "k8": order("bf16,bf16,f32", 64, Multiplies(BF16_K8, ((0, 64),))),
    "pairs of k8": order("bf16,bf16,f32", 96, Multiplies(BF16, ((0, 96),)), arch="sm_80"),
    "permuted": order("bf16,bf16,f32", 64, Multiplies(BF16, ((0, 64, 2), (1, 64, 2)))),
    "from a sum on": order("bf16,bf16,f32", 80, Multiplies(BF16, ((40, 80),), Multiplies(BF16, ((0, 40),)))),
    "sums of 16 bits": order("f16,f16,f16", 64, Multiplies(HALF, ((0, 64),))),
    "tf32 as it is": order("tf32,tf32,f32", 48, Multiplies(TF32, ((0, 48),))),
    "tf32 to even": order("tf32,tf32,f32", 48, Multiplies(TF32, ((0, 48),)), "nearest even"),
    "tf32 away": order("f32,f32,f32", 48, parts(TF32, [0, 24, 48]), "nearest away"),
    "fused": order("f32,f32,f32", 40, FusedMultiplyAdds("f32", ((0, 40),))),
    "fused, last first": order(
        "f32,f32,f32", 8, FusedMultiplyAdds("f32", tuple((at, at + 1) for at in range(7, -1, -1)))
    ),
    "sliced": order("f32,f32,f32", 96, sliced(96)),
    "f64": order("f64,f64,f64", 40, FusedMultiplyAdds("f64", ((0, 40),))),
    "fp8": order("e4m3,e4m3,bf16", 160, Multiplies(FP8, ((0, 160),))),
    "fp8, promoted": order("e4m3,e4m3,bf16", 224, parts(FP8, [0, 64, 128, 224])),
    "fp8 by mma": order("e4m3,e4m3,f32", 96, Multiplies(FP8_MMA, ((0, 96),))),
    "integers": order("s8,s8,s32", 64, Multiplies("mma.m16n8k32.row.col.s32.s8.s8.s32", ((0, 64),))),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KNOWN)
def test_an_order_is_found(name):
    given_order = KNOWN[name]
    found = revealed(given_order)
    assert found.different == 0
    assert found.elements >= 4096
    if given_order.types.d == "s32":  # whose order no bit shows
        assert {given_order.sum.form} <= set(found.alike)
    else:
        assert found.order == given_order
    assert not found.places.different


@st.composite
def orders(draw):
    """Trees of one form, or of multiply-adds: chains of any parts of k, in any order, joined in any way."""
    kind, form, most, pieces = draw(
        st.sampled_from(
            [
                ("bf16", BF16, 90, 1),
                ("bf16", BF16_K8, 60, 1),
                ("f32", None, 40, 1),
                ("tf32", TF32, 60, 1),
                ("e4m3", FP8, 150, 1),
                ("e4m3", FP8_MMA, 160, 32),
            ]
        )
    )
    k = draw(st.integers(2, most // pieces)) * pieces
    rng = random.Random(draw(st.integers(0, 1 << 30)))
    places = list(range(k))
    if draw(st.booleans()) and pieces == 1:
        rng.shuffle(places)

    def node(own, depth):
        of = (
            (lambda part, c=None: Multiplies(form, ranges(part), c))
            if form
            else (lambda part, c=None: FusedMultiplyAdds("f32", ranges(part), c))
        )
        if depth < 3 and len(own) > 7 and rng.random() < 0.6:
            cuts = sorted(
                {rng.randrange(1, len(own) // pieces) * pieces for _ in range(rng.randint(1, 3))}
                if len(own) > pieces
                else set()
            )
            spans = [own[at:end] for at, end in zip([0, *cuts], [*cuts, len(own)], strict=True)]
            if len(spans) > 1 and all(len(span) > 2 or not form for span in spans):
                return Additions([node(span, depth + 1) for span in spans])
        if depth < 3 and pieces == 1 and len(own) > 7 and rng.random() < 0.3:
            cut = rng.randrange(3, len(own) - 3)
            return of(own[cut:], node(own[:cut], depth + 1))
        return of(own)

    d = draw(st.sampled_from(["f32", "bf16"]))
    inputs = draw(st.sampled_from(["exact", "nearest even", "nearest away"])) if kind == "tf32" else "exact"
    return Order("sm_90", Types(kind, kind, d), k, node(places, 0), inputs)


@examples(25, share=12)
@given(orders())
def test_any_order_is_found(given_order):
    """The very tree, and bits that are all its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reveal, "LEAST", 300)
        found = revealed(given_order, 2, 96)
    assert found.different == 0
    assert tree(found.order) == tree(given_order)


def samples(given_order, seed):
    """Operands of a proof with the order's own D, 4,096 elements."""
    for kind in KINDS:
        for number in range(proof.PAIRINGS):
            size = 16, 16, given_order.k
            if kind == "parts":
                made = proof.of_parts(given_order, size, seed + number)
            else:
                made = proof.operands(kind, given_order.types, size, seed + number)
            yield proof.Sample(made, call_of(given_order).function(made.a, made.b))


def mutants(given_order):
    """(what was changed, the other order)."""
    node, kind = given_order.sum, given_order.types.a

    def make(other, inputs=given_order.inputs):
        return Order(given_order.arch, given_order.types, given_order.k, other, inputs)

    if isinstance(node, Additions):
        terms = node.terms
        if len(terms) > 2:
            yield "two parts exchanged", make(Additions([*terms[:-3], terms[-2], terms[-1], terms[-3]]))
        first, second = terms[:2]
        one = type(first)
        name = first.form if isinstance(first, Multiplies) else first.type
        yield (
            "one part fewer",
            make(
                Additions([one(name, (*first.ranges, *second.ranges)), *terms[2:]])
                if len(terms) > 2
                else one(name, (*first.ranges, *second.ranges))
            ),
        )
        swapped = [
            one(name, (*first.ranges[:-1], second.ranges[-1])),
            one(name, (*second.ranges[:-1], first.ranges[-1])),
        ]
        if first.ranges[-1] != second.ranges[-1] and (len(first.ranges) > 1 or len(terms) > 2):
            yield "two ranges exchanged", make(Additions([swapped[0], *terms[2:], swapped[1]]))
        yield (
            "the order reversed",
            make(Additions(terms[::-1]))
            if len(terms) > 2
            else make(
                Multiplies(BF16, ((0, given_order.k),))
                if kind == "bf16"
                else FusedMultiplyAdds("f32", ((0, given_order.k),))
            ),
        )
    else:
        k = given_order.k
        half = k // 64 * 32 or k // 2
        one = type(node)
        name = node.form if isinstance(node, Multiplies) else node.type
        yield "one part more", make(Additions([one(name, ((0, half),)), one(name, ((half, k),))]))
        yield "two ranges exchanged", make(one(name, ((half, k), (0, half))))
        yield "products exchanged", make(one(name, ((0, 1), (half, half + 1), (2, half), (1, 2), (half + 1, k))))
    others = (
        {}
        if given_order.arch == "sm_80"
        else {"bf16": (BF16, BF16_K8), "tf32": (TF32, "mma.m16n8k4.row.col.f32.tf32.tf32.f32"), "e4m3": (FP8, FP8_MMA)}
    )
    for form in others.get(kind, ()):
        changed = with_form(node, form)
        if changed != node:
            yield "another form", make(changed)
    if kind in ("bf16", "f16", "tf32"):
        yield "multiply-adds", make(with_form(node, None))
    if kind == "tf32":
        for inputs in {"exact", "nearest even", "nearest away"} - {given_order.inputs}:
            yield "another rounding of inputs", make(node, inputs)


def with_form(node, form):
    """The same products by another form."""
    if isinstance(node, Additions):
        return Additions([with_form(term, form) for term in node.terms])
    inner = None if node.c is None else with_form(node.c, form)
    return FusedMultiplyAdds("f32", node.ranges, inner) if form is None else Multiplies(form, node.ranges, inner)


MUTATED = [name for name in KNOWN if name not in ("integers", "fused, last first")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MUTATED)
def test_mutations_are_rejected(name):
    """Each is really another order, and none has all bits of the one that was called."""
    given_order = KNOWN[name]
    made = list(mutants(given_order))
    assert len(made) >= 2
    taken = list(samples(given_order, 5))
    assert not any(proof.differing(given_order, sample).any() for sample in taken)
    accepted = []
    for changed, other in made:
        assert (
            tree(other) != tree(given_order)
            or other.inputs != given_order.inputs
            or changed in ("another form", "multiply-adds")
        )
        if not any(proof.differing(other, sample).any() for sample in taken):
            accepted.append(changed)
    assert accepted == []


def test_masks_that_contradict_each_other_are_said():
    """Whatever is asked, half of the answers at random: no tree is made of them."""
    rng = np.random.default_rng(3)
    for k in (3, 8, 40, 200):
        with pytest.raises(CallError, match="contradict"):
            tree_of(k, lambda asked: rng.integers(0, 2, len(asked.x)) * np.maximum(asked.stop - asked.start - 2, 1))


def test_one_wrong_answer_is_found():
    """A tree with one product in two places: the check of random triples, or sizes, say so."""
    given_order = KNOWN["unequal parts"]
    masks = Masks(bench_of(given_order, 4, 64))
    asked = []

    def survivors(of):
        alive = masks.survivors(of)
        asked.append(len(of.x))
        if len(asked) == 1:
            alive[100] += 40
        return alive

    with pytest.raises(CallError, match="contradict"):
        tree_of(given_order.k, survivors)


def bench_of(given_order, m, n):
    made = Bench(call_of(given_order), Shape(m, n, given_order.k))
    made.d_kind = given_order.types.d
    return made


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["unequal parts", "fp8, promoted", "fp8 by mma", "sliced", "sums of 16 bits"])
@pytest.mark.parametrize("sides", [(2, 40), (40, 2)])
def test_masks_count_what_survives(name, sides):
    """Of any units and any two products, in rows of A and in columns of B."""
    given_order = KNOWN[name]
    rng, k = np.random.default_rng(7), given_order.k
    inside = members(given_order)
    masks = Masks(bench_of(given_order, *sides))
    x, y, start = (rng.integers(0, k, 60) for _ in range(3))
    y = np.where(x == y, (x + 1) % k, y)
    stop = np.minimum(k, start + rng.integers(1, k, 60))
    wanted = [
        sum(z not in inside(i, j) for z in range(first, last) if z not in (i, j))
        for i, j, first, last in zip(x.tolist(), y.tolist(), start.tolist(), stop.tolist(), strict=True)
    ]
    assert masks.survivors(queries(x, y, start, stop)).tolist() == wanted


def members(given_order):
    """A function: the products of the smallest sum that has two."""

    def below(node):
        own, inner = node
        return set(own).union(*map(below, inner))

    sums, waiting = [], [tree(given_order)]
    while waiting:
        node = waiting.pop()
        sums.append(below(node))
        waiting += node[1]
    return lambda i, j: min((each for each in sums if {i, j} <= each), key=len)


def test_ranges_name_products_in_their_order():
    rng = np.random.default_rng(1)
    for _ in range(200):
        places = (
            rng.permutation(int(rng.integers(1, 40))).tolist()
            if rng.random() < 0.5
            else list(range(0, 60, int(rng.integers(1, 9))))
        )
        assert [k for part in ranges(places) for k in range(*part)] == places


def test_one_product():
    assert tree_of(1, None) == Sum([0])
    assert revealed(order("bf16,bf16,f32", 1, Multiplies(BF16, ((0, 1),)))).different == 0
