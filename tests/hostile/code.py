"""What is code in an emitted text, so that two texts can be compared in that alone: comments and labels left out."""

from __future__ import annotations

import ast
import json
import re
from xml.etree import ElementTree

_CPP = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_CODE = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_TAG = re.compile(r"(?<!\\)<[a-zA-Z/!][^>]*")
_LINK = re.compile(r"(?<!\\)\]\([^)]*")
_BAR = re.compile(r"(?<!\\)\|")
_SPLICE = re.compile(r"\\[ \t]*\n")


def skeleton(form: str, text: str) -> str:
    """The code of an emitted text; ValueError or SyntaxError where it is none of that language."""
    return _SKELETONS[form](text)


def _python(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def _cpp(text: str) -> str:
    """Lines joined where a backslash ends them, as a compiler does before it looks for comments."""
    return " ".join(_CPP.sub(lambda m: '""' if m[0][0] == '"' else " ", _SPLICE.sub("", text)).split())


def _latex(text: str) -> str:
    return re.sub(r"(?<!\\)%[^\n]*", "", text)


def _svg(text: str) -> str:
    if "<!" in text:
        raise ValueError("a declaration or a comment in an SVG")
    tree = ElementTree.fromstring(text)
    tree.attrib.clear()  # the size: as wide as the longest line
    return "\n".join(f"{e.tag} {sorted(e.attrib.items())}" for e in tree.iter())


def _json(text: str) -> str:
    """Names and numbers; texts are blank. One value, or one a line."""
    try:
        return json.dumps(_blank(json.loads(text)))
    except json.JSONDecodeError:
        return "\n".join(json.dumps(_blank(json.loads(line))) for line in text.splitlines())


def _blank(data: object) -> object:
    if isinstance(data, dict):
        return {key: _blank(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_blank(value) for value in data]
    return "" if isinstance(data, str) else data


def _pages(text: str) -> str:
    """Tags and targets of links, each once; ValueError where rows of a table have another width than its head."""
    shown = _CODE.sub("", text)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        if len({len(_BAR.findall(row)) for row in table.splitlines()}) > 1:
            raise ValueError(f"rows of several widths: {table[:100]!r}")
    return "\n".join(sorted({*_TAG.findall(shown), *_LINK.findall(shown)}))


def _markdown(text: str) -> str:
    """The same, and the columns of every line."""
    return "\n".join([_pages(text), *(str(len(_BAR.findall(line))) for line in text.splitlines())])


def _lines(text: str) -> str:
    """How many lines there are: a text that needs one never makes two."""
    return str(text.count("\n"))


def _plain(text: str) -> str:
    return text


_SKELETONS = {
    **dict.fromkeys(("python", "numpy", "sympy", "tensor-layouts", "tinygrad", "triton"), _python),
    **dict.fromkeys(("cute-dsl", "mosaic", "numba", "tilelang"), _python),
    **dict.fromkeys(("cuda", "cute", "ptx", "convert"), _cpp),
    "latex": _latex,
    "svg": _svg,
    "json": _json,
    "markdown": _markdown,
    "pages": _pages,
    "csv": _plain,
    "lines": _lines,
}
