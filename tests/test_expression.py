"""Expressions in lane: as Python computes them, within bounds, and nothing else is read or run."""

import ast
import operator
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.layout.expression import DEEPEST, LONGEST, MOST_BITS, values

SIGNS = ["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>"]
NUMBERS = st.one_of(st.integers(0, 300), st.sampled_from([0x1F, 0x7FFF, 1 << 30])).map(
    lambda n: [str(n), hex(n), bin(n)][n % 3]
)
TREES = st.recursive(
    st.one_of(NUMBERS, st.just("lane")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(SIGNS), inner).map(" ".join),
        st.tuples(st.sampled_from(["-", "~", "+"]), inner).map("".join),
        inner.map(lambda text: f"({text})"),
    ),
    max_leaves=12,
)


OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def python(node, lane):
    """The value of what Python's own parser made of the text."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name("lane"):
            return lane
        case ast.UnaryOp(op, inside):
            return OPERATORS[type(op)](python(inside, lane))
        case ast.BinOp(left, op, right):
            return OPERATORS[type(op)](python(left, lane), python(right, lane))
    raise AssertionError(node)


def attempt(text):
    """(values, None), or (None, the refusal)."""
    try:
        return values(text), None
    except UsageError as error:
        return None, str(error)


@given(TREES)
def test_it_is_what_python_computes_or_refused(text):
    """Operators, precedence and associativity; what is refused is negative, too large or a division by zero."""
    found, refusal = attempt(text)
    if refusal:
        assert re.match(r"column \d+ of the expression: .*(negative|bits|zero|digits)", refusal)
    else:
        tree = ast.parse(text, mode="eval").body
        assert found == tuple(python(tree, lane) for lane in range(32))


@given(st.text(alphabet="lane0123456789abcdefx+-*/%&|^~<>() \t\n_.,'\"[]{}=!@", max_size=60))
def test_any_text_is_computed_or_refused(text):
    found, refusal = attempt(text)
    if refusal:
        assert re.match(r"column \d+ of the expression: ", refusal)
    else:
        assert len(found) == 32
        assert all(abs(value) < 1 << MOST_BITS for value in found)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "the end"),
        ("lane +", 7, "the end"),
        ("(lane", 1, "not closed"),
        ("3 lane", 3, "should end"),
        ("8 * 010", 5, "octal"),
        ("lane / 0", 6, "division by zero in lane 0"),
        ("4 / (lane - 3)", 3, "-3"),
        ("8 % (3 - lane)", 3, "division by zero in lane 3"),
        ("1 << 63", 3, "62 bits"),
        ("1 << lane * 99999999", 3, "62 bits"),
        ("0x7fffffff * 0x7fffffff * 9", 25, "62 bits"),
        ("__import__('os')", 12, "is not allowed in an expression"),
        ("lanes", 1, "'lanes'"),
        ("lane.bit_length()", 5, "is not allowed in an expression"),
        ("lane ** 2", 7, "'*'"),
        ("1" * 100, 1, "100 digits"),
        ("(" * (DEEPEST + 2) + "1" + ")" * (DEEPEST + 2), DEEPEST + 2, "inside each other"),
        ("~" * 600 + "1", DEEPEST + 2, "inside each other"),
        ("lane + ²", 8, "is not allowed in an expression"),
    ],
)
def test_refusals_name_the_column_and_the_reason(text, column, words):
    with pytest.raises(UsageError) as refused:
        values(text)
    assert f"column {column} " in str(refused.value)
    assert words in str(refused.value)


def test_the_deepest_nesting_is_read():
    opening = "1|1^1&1<<1+1*("
    assert values(opening * DEEPEST + "lane" + ")" * DEEPEST)[0] & 1


def test_length_is_bounded():
    assert values("1" + "+1" * ((LONGEST - 1) // 2))[31] == LONGEST // 2
    with pytest.raises(UsageError, match="at most"):
        values("1" + "+1" * LONGEST)
