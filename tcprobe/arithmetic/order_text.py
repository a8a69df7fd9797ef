"""ORDER.json: the text of an order, written, and read without trust.

    {"arch": "sm_90", "types": {"a": "bf16", "b": "bf16", "d": "f32"}, "k": 64, "inputs": "exact", "sum": NODE}

NODE is one of {"form": NAME, "k": RANGES, "c": NODE}, {"fma": "f32", "k": RANGES, "c": NODE} and {"add": [NODE, ...]};
`c` may be absent. Other keys beside `sum` say where the order was found.

>>> from tcprobe.arithmetic.order_text import read, text
>>> order = read(b'{"arch": "sm_90", "types": {"a": "f32", "b": "f32", "d": "f32"}, "k": 4, "inputs": "exact",'
...              b' "sum": {"add": [{"fma": "f32", "k": [[0, 4, 2]]}, {"fma": "f32", "k": [[1, 4, 2]]}]}}')
>>> text(order).splitlines()[-2]
' "sum": {"add": [{"fma": "f32", "k": [[0, 4, 2]]}, {"fma": "f32", "k": [[1, 4, 2]]}]}'

Sums may be nested deeper than Python's own reader follows, so this one keeps its place in a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from tcprobe.arithmetic.order import (
    MOST_NESTING,
    Additions,
    FusedMultiplyAdds,
    Multiplies,
    Node,
    Order,
    Types,
    postorder,
)
from tcprobe.errors import DataError, UsageError
from tcprobe.system import files
from tcprobe.text import plain, quoted
from tcprobe.values import Json

MOST_BYTES = 1 << 22  # of a file; 16,384 sums of one product have half a million, indented four times that
MOST_DETAIL = 16  # how deep what is said beside the sums may be nested
MOST_DEPTH = 2 * MOST_NESTING + 8  # of braces and brackets
MOST_VALUES = 1 << 17  # lists of numbers are one; 16,384 sums of one product have 49,153
KEYS = ("arch", "types", "k", "inputs", "sum")
_LONG = re.compile(r"[-+.eE0-9]{31}")  # more than any number that is meant
_FLAT = r"\[[-+.eE0-9, \t\r\n]*\]"  # a list of numbers
_TOKEN = re.compile(
    rf"[ \t\r\n]*(?:(?P<numbers>\[\s*{_FLAT}(?:\s*,\s*{_FLAT})*\s*\]|{_FLAT})|(?P<mark>[][{{}},:])|(?P<text>\")|"
    r"(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|(?P<word>true|false|null))"
)
_WORDS = {"true": True, "false": False, "null": None}


def read(raw: bytes) -> Order:
    """The order in the bytes of a file; DataError says what is wrong with it."""
    if len(raw) > MOST_BYTES:
        raise DataError(f"{len(raw)} bytes; an order has at most {MOST_BYTES}.")
    try:
        content = parsed(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"byte {error.start} is not UTF-8 text.") from None
    if not isinstance(content, dict):
        raise DataError(f"not an order (a JSON {type(content).__name__}).")
    return from_json(content)


def load(path: str | Path) -> Order:
    """The order in a file; DataError names the file and says what is wrong with it."""
    raw = files.read(path, MOST_BYTES)
    if raw is None:
        raise DataError(f"{path}: cannot be read: no such file.")
    try:
        return read(raw)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def from_json(content: Json) -> Order:
    """The order that plain data states; DataError where it states none."""
    missing = [key for key in KEYS if key not in content]
    if missing:
        raise DataError(f"not an order: the key '{missing[0]}' is missing.")
    types = content["types"]
    if not isinstance(types, dict) or set(types) != set(Types._fields):
        raise DataError("`types` has the keys a, b and d.")
    if not all(isinstance(text, str) for text in (content["arch"], content["inputs"], *types.values())):
        raise DataError("arch, inputs and each of `types` are texts.")
    more = {key: value for key, value in content.items() if key not in KEYS}
    if not _shallow(more):
        raise DataError(f"what is said beside the sums is nested more than {MOST_DETAIL} deep.")
    try:
        return Order(content["arch"], Types(**types), content["k"], _node(content["sum"]), content["inputs"], more)
    except UsageError as error:
        raise DataError(str(error)) from None


def _shallow(content: Json) -> bool:
    """Whether plain data is nested at most MOST_DETAIL deep."""
    level: list[Any] = [content]
    for _ in range(MOST_DETAIL):
        inner = [list(each.values()) if isinstance(each, dict) else each for each in level]
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
    return not level


def text(order: Order) -> str:
    """The order as a file holds it, a key a line."""
    head = {"arch": order.arch, "types": order.types._asdict(), "k": order.k, "inputs": order.inputs, **order.more}
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    return ",\n".join(["{\n" + lines[0], *lines[1:], f' "sum": {text_of_node(order.sum)}']) + "\n}\n"


def text_of_node(node: Node) -> str:
    """A sum, on one line."""
    done: list[str] = []
    for each in postorder(node):
        if isinstance(each, Additions):
            inner = ", ".join(done[-len(each.terms) :])
            done[-len(each.terms) :] = [f'{{"add": [{inner}]}}']
            continue
        name = f'"form": "{each.form}"' if isinstance(each, Multiplies) else f'"fma": "{each.type}"'
        c = f', "c": {done.pop()}' if each.c is not None else ""
        done.append(f'{{{name}, "k": {json.dumps(list(map(list, each.ranges)))}{c}}}')
    return done[0]


def to_json(order: Order) -> Json:
    """The order as plain data; json.dumps itself does not follow sums nested 500 deep: `text` does."""
    content = parsed(text(order))
    assert isinstance(content, dict)
    return content


def _node(content: object) -> Node:
    """A sum of plain data; DataError where it is none."""
    opened, waiting = [], [content]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            raise DataError(f"a sum is an object, not a JSON {type(each).__name__}.")
        inner = each["add"] if "add" in each else [each["c"]] if "c" in each else []
        if not isinstance(inner, list):
            raise DataError("`add` is a list of sums.")
        opened.append((each, len(inner)))
        waiting.extend(reversed(inner))
    made: list[Node] = []  # inner sums stand behind those that take them in, so from the end on they are there
    for each, number in reversed(opened):
        inner_nodes = [made.pop() for _ in range(number)]
        made.append(_one_node(each, inner_nodes))
    return made[0]


def _one_node(content: Json, inner: list[Node]) -> Node:
    keys = set(content)
    if keys == {"add"}:
        return Additions(tuple(inner))
    name = next((name for name in ("form", "fma") if keys - {"c"} == {name, "k"}), None)
    if name is None:
        raise DataError(f"no sum has the keys {', '.join(map(quoted, sorted(keys)))}.")
    if not isinstance(content[name], str):
        raise DataError(f"`{name}` is a text.")
    if not isinstance(content["k"], list) or not all(isinstance(part, list) for part in content["k"]):
        raise DataError("`k` is a list of ranges, each [start, stop] or [start, stop, step].")
    kind = Multiplies if name == "form" else FusedMultiplyAdds
    return kind(content[name], tuple(map(tuple, content["k"])), inner[0] if inner else None)


def parsed(text: str) -> object:
    """The JSON value of a text, nested at most MOST_DEPTH; DataError with the place where it is not JSON.

    Keys stand once, and texts are plain.
    """
    reader = _Reader(text)
    step: _Step | None = reader.value
    while step:
        step = step(*reader.token())
    if text[reader.at :].strip(" \t\r\n"):
        reader.fail("something stands behind the end")
    return reader.open[0][0]


class _Reader:
    """A place in a text: the containers that are open there, the outermost with the value itself, and their keys.

    A step takes a token, and says which takes the next one.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.open: list[Any] = [[]]
        self.values = 0
        self.keys: list[str] = []

    def fail(self, why: str) -> NoReturn:
        line, before = self.text.count("\n", 0, self.at) + 1, self.text.rfind("\n", 0, self.at)
        raise DataError(f"line {line}, column {self.at - before}: {why}.")

    def token(self) -> tuple[str, Any]:
        """(mark, text or value; what it means)."""
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            self.fail("not JSON; truncated?")
        group = str(found.lastgroup)
        words, self.at = found[group], found.end()
        if group == "text":
            return group, self.string()
        return (
            ("mark", words) if group == "mark" else ("value", _WORDS[words] if group == "word" else self.numbers(words))
        )

    def string(self) -> str:
        try:
            words, self.at = scanstring(self.text, self.at, True)
        except ValueError:
            self.fail("not JSON: a text that does not end, or is cut")
        if not plain(words):
            self.fail("a text with characters that cannot be printed, or too long")
        return str(words)

    def numbers(self, words: str) -> Any:
        """A number, or lists of them."""
        if _LONG.search(words):
            self.fail("a number of too many digits")
        try:
            return json.loads(words)
        except ValueError:
            self.fail("not JSON: numbers are meant")

    def value(self, group: str, token: Any) -> _Step | None:
        if group != "mark":
            return self.put(token)
        if token not in "{[":
            self.fail("a value is missing")
        if len(self.open) > MOST_DEPTH:
            self.fail("nested too deep")
        self.open.append({} if token == "{" else [])
        return self.first_key if token == "{" else self.first_item

    def put(self, value: Any) -> _Step | None:
        inside = self.open[-1]
        self.values += 1
        if self.values > MOST_VALUES:
            self.fail("too many values")
        if isinstance(inside, list):
            inside.append(value)
        elif (key := self.keys.pop()) in inside:
            self.fail(f"the key {quoted(key)} appears twice")
        else:
            inside[key] = value
        return self.after if len(self.open) > 1 else None

    def after(self, group: str, token: Any) -> _Step | None:
        is_object = isinstance(self.open[-1], dict)
        if (group, token) == ("mark", ","):
            return self.key if is_object else self.value
        if (group, token) != ("mark", "}" if is_object else "]"):
            self.fail("a comma or an end is missing")
        return self.put(self.open.pop())

    def first_key(self, group: str, token: Any) -> _Step | None:
        return (self.after if (group, token) == ("mark", "}") else self.key)(group, token)

    def first_item(self, group: str, token: Any) -> _Step | None:
        return (self.after if (group, token) == ("mark", "]") else self.value)(group, token)

    def key(self, group: str, token: Any) -> _Step | None:
        if group != "text":
            self.fail("a key is missing")
        self.keys.append(token)
        return self.colon

    def colon(self, group: str, token: Any) -> _Step | None:
        if (group, token) != ("mark", ":"):
            self.fail("a colon is missing")
        return self.value


_Step: TypeAlias = Callable[[str, Any], "_Step | None"]
