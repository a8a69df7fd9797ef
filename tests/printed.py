"""Evaluates printed formulas: integers, lane, i, and the operators that C and Python share."""

import ast
import operator

BINARY = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Add: operator.add,
}


def value(text: str, lane: int, i: int) -> int:
    return _value(ast.parse(text, mode="eval").body, {"lane": lane, "i": i})


def _value(node, names):
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp):
        assert isinstance(node.op, ast.Invert)
        return ~_value(node.operand, names)
    return BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
