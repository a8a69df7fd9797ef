"""Orders of calls with few elements: a tree is guessed from few pairs, and is right, or all pairs are asked."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_calls import call_of, tree
from sampling import examples
from test_order_reveal import orders

from tcprobe.arithmetic.order import Additions, FusedMultiplyAdds, Order, Types
from tcprobe.order import regular as guesses
from tcprobe.order import reveal
from tcprobe.order.bench import Shape
from tcprobe.order.calls import Call, CallError
from tcprobe.order.memory import ArrayModule
from tcprobe.order.regular import regular
from tcprobe.order.reveal import Revealing, conclude
from tcprobe.order.sums import Places
from tcprobe.order.sums import tree as tree_of

K = 16384


class Chains:
    """Lanes of k, joined from left to right, in each of which groups are summed one after another."""

    def __init__(self, lane, group):
        self.lane, self.group, self.asked = lane, group, 0

    def inside(self, x, y):
        """For each pair which products are in the smallest sum of both."""
        lane, group = self.lane, self.group
        one = (lane[x] == lane[y])[:, None]
        last = np.maximum(group[x], group[y])[:, None]
        return np.where(
            one, (lane == lane[x][:, None]) & (group <= last), lane <= np.maximum(lane[x], lane[y])[:, None]
        )

    def survivors(self, asked):
        """As masks would count them."""
        self.asked += len(asked.x)
        made, k = [], np.arange(len(self.lane))
        for at in range(0, len(asked.x), 64):
            x, y, start, stop = asked.at(slice(at, at + 64))
            units = (k >= start[:, None]) & (k < stop[:, None]) & (k != x[:, None]) & (k != y[:, None])
            made.append((units & ~self.inside(x, y)).sum(1))
        return np.concatenate(made)


def shapes():
    """Trees as libraries have them."""
    k = np.arange(K)
    yield "a chain of 16", Chains(k * 0, k // 16)
    yield "multiply-adds", Chains(k * 0, np.maximum(k, 1))
    yield "nine parts, the last one shorter", Chains(k // 1856, k % 1856 // 16)
    yield "sliced", Chains(k % 32 // 8, np.maximum(8 * (k // 32) + k % 8, 1))
    yield "a lane each", Chains(k % 32, np.maximum(k // 32, 1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", dict(shapes()))
def test_a_regular_tree_takes_few_questions(name):
    """Of 16,384 products some thousands, where all pairs would be 139,000; and the tree is right."""
    chains = dict(shapes())[name]
    made = tree_of(K, chains.survivors, guess=True)
    assert chains.asked < 6000
    x, y, z = np.random.default_rng(2).integers(0, K, (3, 500))
    y = np.where(x == y, (x + 1) % K, y)
    assert (Places(made, K).inside(x, y, z) == chains.inside(x, y)[np.arange(500), z]).all()


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=8))
def test_what_is_asked_is_kept_and_what_is_regular_is_continued(pieces):
    """Of pieces that grow in steps: each number that was asked is there, and few were, if pieces are long."""
    numbers, asked = [], []
    for length, growth, start in pieces:
        numbers += [start * 100 + growth * (at // 16) for at in range(length * 10)]
    numbers = np.array(numbers)

    def ask(at):
        asked.append(at)
        return numbers[at]

    made, places = regular(len(numbers), ask), np.concatenate(asked)
    assert len(np.unique(places)) == len(places)
    assert (made[places] == numbers[places]).all()
    if all(length > 40 for length, _, _ in pieces):
        assert (made == numbers).all()
        assert len(places) <= 400 * len(pieces)


def test_a_wrong_guess_is_dropped(monkeypatch):
    """Two products far from each other are exchanged: the guess does not see it, the proof does."""
    k = 600
    ranges = ((0, 400), (500, 501), (401, 500), (400, 401), (501, k))
    exchanged = Order("sm_90", Types("f32", "f32", "f32"), k, FusedMultiplyAdds("f32", ranges))
    trees = []

    def kept(k, survivors, guess):
        trees.append(guess)
        return tree_of(k, survivors, guess)

    monkeypatch.setattr(reveal, "LEAST", 300)
    monkeypatch.setattr(reveal, "GUESSED", -1)
    monkeypatch.setattr(reveal, "tree", kept)
    found = conclude(Revealing(call_of(exchanged), Shape(2, 96, k)).find())
    assert trees == [True, False]
    assert (found.different, found.order) == (0, exchanged)


@examples(15)
@given(orders(), st.booleans())
def test_any_order_is_found_where_it_is_guessed(given_order, careless):
    """Whatever the guess is: one that is wrong is refused, or gives other bits, and all pairs are asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reveal, "LEAST", 300)
        patch.setattr(reveal, "GUESSED", -1)
        if careless:
            patch.setattr(guesses, "PERIODS", (1, 2, 4))
            patch.setattr(guesses, "BEYOND", 1)
            patch.setattr(guesses, "SEVERAL", 1)
        found = conclude(Revealing(call_of(given_order), Shape(2, 96, given_order.k)).find())
    assert found.different == 0
    assert tree(found.order) == tree(given_order)


def sequential(terms):
    """Sums of rows, from left to right in f32."""
    return np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1]


def parts(a, b):
    """k in parts of 640, each summed from left to right, joined in order."""
    terms = a.astype(np.float32)[:, None, :] * b.T.astype(np.float32)[None]
    total = None
    for at in range(0, a.shape[1], 640):
        own = sequential(terms[..., at : at + 640])
        total = own if total is None else total + own
    return total


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sides", [(1, 8), (1, 1), (2, 3)])
def test_a_call_of_few_elements(sides):
    """Its order is found in fewer calls than it has products, beside those of the proof; products of f16 are exact."""
    k = 2048
    made = Revealing(Call("parts", ArrayModule(np, "cpu"), ("f16", "f16"), parts, "f32"), Shape(*sides, k))
    found = conclude(made.find())
    ranges = [((at, min(at + 640, k)),) for at in range(0, k, 640)]
    wanted = Additions([FusedMultiplyAdds("f32", each) for each in ranges])
    assert found.order == Order("sm_90", Types("f16", "f16", "f32"), k, wanted)
    assert (found.different, found.elements) == (0, 4096)
    places = sides[0] * sides[1]
    assert found.calls < 4096 // places + 6000 // max(sides) + 100


def test_a_contradiction_is_said_in_words():
    """Whatever D counts, no message has a number that is no product."""
    rng = np.random.default_rng(4)
    for k in (8, 40, 300):
        for most in (2, k, 1 << 60):
            for guess in (False, True):
                with pytest.raises(CallError) as raised:
                    tree_of(k, lambda asked, most=most: rng.integers(-most, most, len(asked.x)), guess)
                assert all(int(number) <= k for number in re.findall(r"\d+", str(raised.value)))
                assert "-" not in re.sub(r"[a-z]-[a-z]", "", str(raised.value))


def test_where_large_products_do_not_cancel_it_is_said_in_words():
    """As where D lacks one of them."""
    calls = []

    def function(a, b):
        calls.append(1)
        lacks = 16 if np.abs(b.astype(np.float64)).max() > 1e9 else 0  # only of masks
        return a[:, lacks:].astype(np.float32) @ b[lacks:].astype(np.float32)

    with pytest.raises(CallError, match="two large products that cancel") as raised:
        Revealing(Call("f", ArrayModule(np, "cpu"), ("bf16", "bf16"), function, "f32"), Shape(4, 8, 64)).find()
    assert not re.search(r"\d{4}|e\+", str(raised.value))
