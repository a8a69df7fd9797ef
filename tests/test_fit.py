"""Fit: every linear map is found and proven, no other is called linear, formulas are the shortest of their kind."""

import math
import random

import printed
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.errors import UsageError, VariableError
from tcprobe.fit import BOOLEAN, LINEAR, NONE, fit, linear
from tcprobe.fit.formula import Formula, Products, Term
from tcprobe.fit.linear import Layout, fit_layout, inverse
from tcprobe.layout.table import Axis, Space, Table, slot_table
from tcprobe.references import tabulate


@st.composite
def linear_tables(draw, unused=False):
    """Random affine maps over lane and i bits; elements need not be a power of two; slots may be unused."""
    threads, elements = 2 ** draw(st.integers(0, 5)), draw(st.integers(1, 24))
    bits = (threads.bit_length() - 1) + (elements - 1).bit_length()
    rng = random.Random(draw(st.integers(0, 2**32)))
    images = {name: [rng.randrange(256) for _ in range(bits)] for name in ("row", "col")}
    offset = {name: rng.choice([0, rng.randrange(256)]) for name in images}
    i_bits = (elements - 1).bit_length()
    gaps = {rng.randrange(threads * elements) for _ in range(threads * elements // 3)} if unused else set()

    def value(name, lane, i):
        point, total = lane << i_bits | i, offset[name]
        for bit, image in enumerate(images[name]):
            total ^= image if point >> bit & 1 else 0
        return total

    slots = [(lane, i) for lane in range(threads) for i in range(elements)]
    columns = {
        name: tuple(None if s in gaps else value(name, *slot) for s, slot in enumerate(slots)) for name in images
    }
    return slot_table(threads, elements, columns)


def agrees(formula, table, name):
    return all(
        value is None or formula(*divmod(slot, table.elements)) == value
        for slot, value in enumerate(table.values[name])
    )


@given(linear_tables())
def test_linear_maps_are_recovered(table):
    found = fit(table)
    assert found.verdict == LINEAR
    assert found.layout is not None
    for name, formula in found.formulas.items():
        assert agrees(formula, table, name)
        assert agrees(lambda lane, i, text=str(formula): printed.value(text, lane, i), table, name)


@given(linear_tables(unused=True))
def test_linear_maps_with_unused_slots_are_recovered(table):
    found = fit(table)
    assert found.verdict == LINEAR
    assert all(agrees(formula, table, name) for name, formula in found.formulas.items())


@given(linear_tables(), st.data())
def test_one_wrong_slot_is_never_called_linear(table, data):
    """In a full domain of at least four points, changing one slot of a linear map makes it non-linear."""
    if table.points < 4 or table.elements & (table.elements - 1):
        return
    slot = data.draw(st.integers(0, table.points - 1))
    row = list(table.values["row"])
    row[slot] ^= data.draw(st.integers(1, 255))
    changed = slot_table(table.threads, table.elements, {**table.values, "row": tuple(row)})
    found = fit_layout(changed)
    assert not isinstance(found, Layout)
    assert found.count >= 1
    for c in found.first:
        assert changed.at(**c.point) == c.found != c.expected


@given(linear_tables())
def test_the_inverse_gives_all_holders(table):
    layout = fit_layout(table)
    for cell, slots in table.inverse.items():
        element = dict(zip(table.outputs, cell, strict=True))
        assert layout.holders(element) == [divmod(s, table.elements) for s in slots] == table.holders(**element)


@given(linear_tables())
def test_a_layout_has_no_slots_but_its_own(table):
    layout = fit_layout(table)
    last = {"lane": table.threads - 1, "i": table.elements - 1}
    assert layout.at(**last) == table.at(**last)
    for lane, i, words in ((table.threads, 0, "lane"), (-1, 0, "lane"), (0, table.elements, "i"), (0, -1, "i")):
        with pytest.raises(UsageError, match=f"{words} .* is not a number from 0 to"):
            layout.at(lane=lane, i=i)


@given(linear_tables())
def test_terms_are_merged_by_shift(table):
    for formula in fit(table).formulas.values():
        pairs = [(term.variable, term.shift) for term in formula.terms]
        assert len(pairs) == len(set(pairs))
        assert all(term.mask for term in formula.terms)


ROW = "((i & 2) << 2) + ((lane & 28) >> 2)"
COL = "(i & 1) + ((i & 4) << 1) + ((lane & 3) << 1)"


def test_the_sm_80_accumulator():
    table = tabulate(
        32, 8, {"row": lambda t, i: printed.value(ROW, t, i), "col": lambda t, i: printed.value(COL, t, i)}
    )
    found = fit(table)
    assert found.formulas["row"].text({}) == ROW  # printed with every mask, which a lane below 32 does not need
    assert str(found.formulas["row"]) == ROW.replace("((lane & 28) >> 2)", "(lane >> 2)")
    assert str(found.formulas["col"]) == COL
    assert found.layout.bases["lane"][2] == {"row": 1, "col": 0}


def test_a_domain_that_is_no_power_of_two():
    """wgmma with N = 24: 12 elements a thread."""
    table = tabulate(128, 12, {"row": lambda t, i: t // 4 + 8 * (i // 2 % 2), "col": lambda t, i: i % 2 + 8 * (i // 4)})
    assert str(fit(table).formulas["col"]) == "(i & 1) + ((i & 12) << 1)"


@pytest.mark.parametrize(
    ("row", "verdict", "text"),
    [
        (lambda lane, i: lane ^ i, LINEAR, "i ^ lane"),
        (lambda lane, i: 5, LINEAR, "5"),
        (lambda lane, i: lane & 4, LINEAR, "lane & 4"),
        (lambda lane, i: (lane & i & 1) + (lane & 6), BOOLEAN, "(lane & 6) + ((i & 1) & (lane & 1))"),
        (lambda lane, i: i // 3, BOOLEAN, None),
        (lambda lane, i: max(lane & 3, i & 3), BOOLEAN, None),
        (lambda lane, i: (lane * 7 + i * i * 5) % 31, NONE, None),
        (lambda lane, i: random.Random(lane * 8 + i).randrange(64), NONE, None),
    ],
)
def test_verdicts(row, verdict, text):
    table = tabulate(32, 8, {"row": row, "col": lambda lane, i: i})
    found = fit(table)
    assert found.verdict == verdict
    assert found.formulas["col"] is not None
    formula = found.formulas["row"]
    if text:
        assert str(formula) == text
    if formula is not None:
        assert agrees(formula, table, "row")
        assert agrees(lambda lane, i: printed.value(str(formula), lane, i), table, "row")
    if verdict != LINEAR:
        for c in found.contradiction.first:
            assert c.found["row"] == row(**c.point) != c.expected["row"]


@examples(30)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_boolean_formulas_are_proven(seed, bits):
    """Random functions of few input bits: where a formula is given, it holds in every slot."""
    rng = random.Random(seed)
    values = [rng.randrange(1 << bits) for _ in range(16)]
    table = tabulate(4, 4, {"row": lambda lane, i: values[lane * 4 + i], "col": lambda lane, i: 0})
    formula = fit(table).formulas["row"]
    assert formula is not None  # four input bits are always few enough
    assert agrees(lambda lane, i: printed.value(str(formula), lane, i), table, "row")


@given(st.lists(st.integers(0, 255), min_size=1, max_size=8), st.integers(0, 255))
def test_preimages_are_all_inputs(images, value):
    span = linear.span_gf2(images)
    assert linear.preimages_gf2(images, value) == [x for x, y in enumerate(span) if y == value]


@given(linear_tables())
def test_sympy_agrees_with_the_terms(table):
    from tcprobe.fit import symbolic

    for formula in fit(table).formulas.values():
        expression = symbolic.expression(formula)
        for slot in range(0, table.points, max(1, table.points // 5)):
            lane, i = divmod(slot, table.elements)
            numbers = {symbolic.symbol("lane"): lane, symbolic.symbol("i"): i}
            assert expression.subs(numbers) == formula(lane, i)


def test_sympy_and_latex_text():
    from tcprobe.fit import symbolic

    formula = Formula((Term("i", 2, 2), Term("lane", 28, -2)))
    assert str(symbolic.expression(formula)) == "Shift(BitAnd(i, 2), 2) + Shift(BitAnd(lane, 28), -2)"
    terms = (
        r"\left(\left(i \mathbin{\&} 2\right) \ll 2\right)",
        r"\left(\left(\mathrm{lane} \mathbin{\&} 28\right) \gg 2\right)",
    )
    assert symbolic.latex(formula) == " + ".join(terms)
    products = fit(tabulate(2, 2, {"row": lambda lane, i: lane & i, "col": lambda lane, i: 0})).formulas["row"]
    expression = symbolic.expression(products)
    values = [expression.subs({symbolic.symbol("lane"): a, symbolic.symbol("i"): b}) for a in (0, 1) for b in (0, 1)]
    assert values == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Formula((Term("row", 3),))(1, 2), "row"),
        (lambda: Formula((Term("lane", 3), Products(1, ((("k", 0, True),),))))(1, 2), "k"),
        (lambda: Term("row", 3).at({"lane": 1, "i": 2}), "row"),
        (lambda: Products(0, ((("k", 0, True),),)).at({"lane": 1, "i": 2}), "k"),
        (lambda: Formula((Term("lane", 3),))(lane=1, j=2), "j = 2"),
        (lambda: Formula((Term("lane", 3),))(lane=1), "lane, i"),
        (lambda: Formula((Term("lane", 3),))(1), "lane, i"),
        (lambda: Formula(())(1, 2, 3), "lane, i"),
        (lambda: Formula((Term("lane", 3),))(1, lane=1), "lane, i"),
        (lambda: Formula((Term("row", 3),), 0, ("row", "col"))(lane=1, i=2), "row, col"),
    ],
)
def test_a_formula_takes_its_own_variables_and_no_other(call, name):
    with pytest.raises(VariableError, match=name) as caught:
        call()
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ValueError)


@given(linear_tables())
def test_formulas_are_called_by_position_and_by_name(table):
    for formula in fit(table).formulas.values():
        assert all(formula(lane, 0) == formula(lane=lane, i=0) == formula(lane, i=0) for lane in range(table.threads))


def test_the_inverse_is_called_with_an_element():
    table = tabulate(4, 4, {"row": lambda lane, i: lane, "col": lambda lane, i: i})
    found = inverse(table)
    assert found["lane"].variables == ("row", "col")
    assert (found["lane"](3, 1), found["i"](row=3, col=1)) == (3, 1)
    with pytest.raises(VariableError, match="takes row, col"):
        found["lane"](lane=3, i=1)


@examples(60)
@given(st.data())
def test_linear_maps_over_any_axes_are_recovered(data):
    """Any number of named inputs of any size, partial domains among them; holders leads back."""
    some = st.lists(st.integers(1, 40), min_size=1, max_size=3).filter(lambda sizes: math.prod(sizes) <= 1 << 13)
    sizes = data.draw(some)
    space = Space(tuple(Axis(name, size) for name, size in zip(("address", "thread", "i"), sizes, strict=False)))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    images = {axis.name: [rng.randrange(1 << 16) for _ in range(axis.bits)] for axis in space.axes}
    offset = rng.randrange(1 << 16)

    def value(point):
        total = offset
        for name, bits in images.items():
            for bit, image in enumerate(bits):
                total ^= image if point[name] >> bit & 1 else 0
        return total

    gaps = {rng.randrange(space.points) for _ in range(space.points // 4)}
    column = [value(space.point(number)) for number in range(space.points)]
    table = Table(space, {"offset": tuple(None if n in gaps else v for n, v in enumerate(column))})
    found = fit(table)
    assert found.verdict == LINEAR
    assert all(found.formulas["offset"](**space.point(n)) == v for n, v in enumerate(column) if n not in gaps)
    assert Table.from_json(table.to_json()) == table
    for number in set(range(space.points)) - gaps:
        assert space.values(number) in table.holders(offset=column[number])


def test_a_formula_answers_for_its_table_alone():
    found = fit(slot_table(32, 8, {"row": tuple(range(256)), "col": (0,) * 256})).formulas["row"]
    assert found(lane=31, i=7) == 255
    for wrong, words in (
        ((32, 0), "lane 32 is outside 0 to 31"),
        ((0, 8), "i 8 is outside 0 to 7"),
        ((-1, 0), "lane -1 is outside"),
    ):
        with pytest.raises(VariableError, match=words):
            found(*wrong)
