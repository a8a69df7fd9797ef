"""What Python programs pass, as the library takes it: numbers of NumPy, sizes as text, a capability as CUDA gives it.

>>> sizes("tile", "128x64", 2), sizes("tile", [128, 64], 2), element_type("half_t"), place(128)
((128, 64), (128, 64), 'f16', 'SWIZZLE_128B')
>>> arch_name((9, 0)), arch_name("h100"), arch_name(None)
('9.0', 'h100', None)
"""

from __future__ import annotations

import ast
import functools
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from inspect import Parameter, signature
from itertools import islice
from numbers import Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, SupportsIndex, TypeAlias, TypeVar, Union, get_args, get_origin

from tcprobe.errors import UsageError, check_choice
from tcprobe.isa.arch import Arch
from tcprobe.layout import swizzle as spelling
from tcprobe.layout.swizzle import Swizzle

Sizes = str | Sequence[SupportsIndex]  # "128x64", or numbers
PlaceName = str | int | Swizzle  # of lines in shared memory: "plain", "pad:16", "128B", 128
ArchName = str | int | float | tuple[int, int] | Arch
TypeName = object  # of elements: PTX's name, or a type of NumPy, PyTorch or ml_dtypes
MOST_ITEMS = 1 << 20  # of a list
MOST_TYPE = 100  # characters of a type's name
MOST_PATH, MOST_PART = 4096, 255  # characters of a path, and of a name in it
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Check: TypeAlias = Callable[[str, Any], Any]  # of a parameter's name and its value: the value as it is meant


def checked(answering: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """The function with every argument checked by its annotation: UsageError naming the parameter, in words.

    An annotation without a check in `CHECKS` is an error here, so that no parameter is left out.
    """
    parameters = signature(answering)
    checks = {
        name: _of_kind(parameter.kind, check_of(parameter.annotation))
        for name, parameter in parameters.parameters.items()
        if name != "self" and parameter.annotation not in (object, "object")
    }

    @wraps(answering)
    def checking(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        given = parameters.bind(*args, **kwargs)
        for name, value in given.arguments.items():
            if name in checks and value is not parameters.parameters[name].default:
                given.arguments[name] = checks[name](name, value)
        return answering(*given.args, **given.kwargs)

    return checking


def _of_kind(kind: object, check: Check) -> Check:
    """The check of a parameter, or of all that one with `*` or `**` collects."""
    if kind is Parameter.VAR_POSITIONAL:
        return lambda name, given: tuple(check(name, one) for one in given)
    if kind is Parameter.VAR_KEYWORD:
        return lambda _, given: {name: check(name, one) for name, one in given.items()}
    return check


def check_of(annotation: Any) -> Check:
    """The check of an annotation, a text or a type, maybe with an option; one with `| None` lets None through.

    A number has the bounds of its option. What is not in `CHECKS` is checked by its words: a list or mapping of what
    has a check, either of two, or an instance of a class, which is known by its name, so that nothing is imported.
    """
    hint = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
    if isinstance(hint, str):
        plain: Any = hint.removesuffix(" | None")
    else:
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
        plain = functools.reduce(operator.or_, [kind for kind in kinds if kind is not NoneType]) if kinds else hint
    choices = get_args(plain) if get_origin(plain) is Literal else ()
    check = partial(_choice, choices) if choices else _check_of_words(NAMES_OF_TYPES.get(plain) or _words_of(plain))
    [option] = getattr(annotation, "__metadata__", (None,))
    reads: Any = getattr(option, "reads", None)
    if plain in (int, float) and hasattr(reads, "min"):  # what a command's option refuses, Python does
        check = partial(_within, reads.min, reads.max, check)
    return check if plain == hint else lambda name, value: None if value is None else check(name, value)


def _words_of(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("'", "")


def _check_of_words(annotation: str) -> Check:
    return CHECKS.get(annotation) or _check_of_node(ast.parse(annotation, mode="eval").body)


def _check_of_node(node: ast.expr) -> Check:
    """The check of an annotation that is none of `CHECKS`, or TypeError."""
    if check := CHECKS.get(ast.unparse(node)):
        return check
    match node:
        case ast.BinOp(left=left, right=right):
            return partial(_either, ast.unparse(node), (_check_of_node(left), _check_of_node(right)))
        case ast.Subscript(value=outer, slice=ast.Tuple(elts=[_, inner])) if _name_of(outer) == "Mapping":
            return partial(_mapping, _check_of_node(inner))
        case ast.Subscript(value=outer, slice=inner) if _name_of(outer) in ("Sequence", "Iterable", "list"):
            return partial(_several, _check_of_node(inner))
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=items)):
            return partial(_items, tuple(map(_check_of_node, items)))
        case ast.Subscript(value=outer) | outer if _name_of(outer)[:1].isupper():
            return partial(_instance, _name_of(outer))
    raise TypeError(f"no check of {ast.unparse(node)}")


def _name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return ast.unparse(node).rpartition(".")[2]


def _shown(python_value: object) -> str:
    """A value of any kind for an error: short, in one line."""
    try:
        return repr(" ".join(str(python_value).split())[:40])
    except Exception:  # a value whose own text is an error
        return f"of type {type(python_value).__name__}"


def whole(name: str, python_number: object) -> int:
    """A whole number of Python or NumPy; UsageError naming the parameter for anything else."""
    if isinstance(python_number, SupportsIndex) and not isinstance(python_number, bool):
        with suppress(TypeError):  # an array of several
            return operator.index(python_number)
    raise UsageError(f"`{name}` {_shown(python_number)} is not a whole number.")


def word(name: str, python_text: object) -> str:
    """A text; UsageError naming the parameter for anything else."""
    if isinstance(python_text, str):
        return python_text
    raise UsageError(f"`{name}` {_shown(python_text)} is not a text.")


def given_names(**parameters: object) -> list[str]:
    """Those parameters that have a value, in backticks: for an error about what does not go together."""
    return [f"`{name}`" for name, value in parameters.items() if value is not None]


def each(name: str, several: object) -> list[object]:
    """What a parameter has several of; UsageError where it is one thing."""
    if isinstance(several, Iterable) and not isinstance(several, bytes) and getattr(several, "shape", None) != ():
        items = list(islice(several, MOST_ITEMS))
        if len(items) < MOST_ITEMS:
            return items
        raise UsageError(f"`{name}` has more than {MOST_ITEMS} items.")
    raise UsageError(f"`{name}` {_shown(several)}: several are needed, in a list.")


def sizes(name: str, given_sizes: Sizes, most: int = spelling.MOST_SIDES) -> tuple[int, ...]:
    """Up to `most` numbers; UsageError naming the parameter where they are none."""
    if isinstance(given_sizes, str):
        return spelling.sizes_written(given_sizes, most)
    return tuple(whole(name, number) for number in each(name, given_sizes))


def addresses(name: str, python_addresses: object) -> list[int | None]:
    """An address a lane, None for an idle one; UsageError naming the parameter where they are none."""
    return [None if address is None else whole(name, address) for address in each(name, python_addresses)]


def words(name: str, python_texts: object) -> list[str]:
    """Several texts; UsageError naming the parameter where they are none."""
    return [word(name, text) for text in each(name, python_texts)]


def element_type(python_type: object) -> str:
    """PTX's name of a type: of its name, of NumPy's, PyTorch's or ml_dtypes's type."""
    try:
        text = (
            python_type if isinstance(python_type, str) else getattr(python_type, "__name__", None) or str(python_type)
        )
    except Exception:  # a value whose own text is an error
        text = type(python_type).__name__
    if len(text := str(text).rpartition(".")[2]) > MOST_TYPE:
        raise UsageError(f"{_shown(text)} is not the name of a type.")
    return spelling.type_named(text)


def place(placed: PlaceName) -> str:
    """A place in shared memory, a swizzle in its one spelling."""
    text = ",".join(map(str, placed.to_json())) if isinstance(placed, Swizzle) else str(placed)
    return str(spelling.swizzle_named(text)) if spelling.is_swizzle(text) else text


def arch_name(arch: ArchName | None) -> str | None:
    """An arch as text: of 90, 9.0, or (9, 0), as torch.cuda.get_device_capability() gives it."""
    if arch is None or isinstance(arch, str):
        return arch
    if isinstance(arch, Arch):
        return arch.name
    if isinstance(arch, tuple | list) and len(arch) == 2:
        return ".".join(str(whole("arch", number)) for number in arch)
    if isinstance(arch, Real) and not isinstance(arch, bool):
        return str(arch)
    raise UsageError(f"`arch` {_shown(arch)} is not an arch: give sm_90, 9.0, (9, 0) or h100.")


def _arch(name: str, python_arch: Any) -> Any:
    text = arch_name(python_arch)
    if text is None:
        raise UsageError(f"`{name}` is missing: give an arch, such as sm_90.")
    return python_arch if isinstance(python_arch, Arch) else text


def _flag(name: str, python_flag: object) -> bool:
    if isinstance(python_flag, bool) or type(python_flag).__name__ in ("bool_", "bool"):
        return bool(python_flag)
    raise UsageError(f"`{name}` {_shown(python_flag)} is neither True nor False.")


def _path(name: str, python_path: object) -> Path:
    text = os.fsdecode(python_path) if isinstance(python_path, str | os.PathLike) else ""
    if text and "\0" not in text and len(text) <= MOST_PATH and max(map(len, Path(text).parts), default=0) <= MOST_PART:
        return Path(text)
    raise UsageError(f"`{name}` {_shown(python_path)} is not a path.")


def _place(name: str, python_place: Any) -> Any:
    if isinstance(python_place, str | Swizzle):
        return python_place
    if isinstance(python_place, SupportsIndex) and getattr(python_place, "ndim", 0) == 0:
        return whole(name, python_place)
    raise UsageError(f"`{name}` {_shown(python_place)} is not a place: plain, pad:16, 128B or sw:3,4,3.")


def _named(name: str, python_name: Any) -> Any:
    from tcprobe.store.cell import Cell

    return python_name if isinstance(python_name, Cell) else word(name, python_name)


def _number(name: str, python_number: Any) -> Any:
    if isinstance(python_number, str) or (isinstance(python_number, Real) and not isinstance(python_number, bool)):
        return python_number
    raise UsageError(f"`{name}` {_shown(python_number)} is neither a number nor a text.")


def _wholes(name: str, python_numbers: Any) -> Any:
    return python_numbers if isinstance(python_numbers, range) else [whole(name, n) for n in each(name, python_numbers)]


def _real(name: str, python_number: Any) -> float:
    if isinstance(python_number, Real) and not isinstance(python_number, bool):
        return float(python_number)
    raise UsageError(f"`{name}` {_shown(python_number)} is not a number.")


def _within(least: float | None, most: float | None, check: Check, name: str, python_number: Any) -> Any:
    number = check(name, python_number)
    if (least is not None and number < least) or (most is not None and number > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise UsageError(f"`{name}` {_shown(number)} is out of its range: {bounds}.")
    return number


def _choice(choices: Sequence[str], name: str, python_value: Any) -> Any:
    check_choice(name, word(name, python_value), choices)
    return python_value


def _instance(class_name: str, name: str, python_value: Any) -> Any:
    if class_name in (kind.__name__ for kind in type(python_value).__mro__):
        return python_value
    raise UsageError(f"`{name}` {_shown(python_value)} is not of the class {class_name}.")


def _either(kinds: str, checks: Sequence[Check], name: str, python_value: Any) -> Any:
    for check in checks:
        with suppress(UsageError):
            return check(name, python_value)
    raise UsageError(f"`{name}` {_shown(python_value)} is none of {kinds.replace(' | ', ', ')}.")


def _several(check: Check, name: str, python_values: Any) -> Any:
    if isinstance(python_values, str):
        raise UsageError(f"`{name}` {_shown(python_values)}: several are needed, in a list.")
    return [check(name, one) for one in each(name, python_values)]


def _items(checks: Sequence[Check], name: str, python_values: Any) -> Any:
    items = _several(_as_is, name, python_values)
    if len(items) != len(checks):
        raise UsageError(f"`{name}` {_shown(python_values)}: {len(checks)} are needed.")
    return tuple(check(name, one) for check, one in zip(checks, items, strict=True))


def _mapping(check: Check, name: str, python_values: Any) -> Any:
    if isinstance(python_values, Mapping):
        return {word(name, key): check(name, one) for key, one in python_values.items()}
    raise UsageError(f"`{name}` {_shown(python_values)} is not a dictionary.")


def _numbers(name: str, python_numbers: Any) -> Any:
    """What NumPy makes an array of numbers of; its own types are those of ml_dtypes."""
    import numpy as np

    with suppress(Exception):  # whatever it is that stands for an array
        if np.asarray(python_numbers).dtype.kind in "biufV":
            return python_numbers
    raise UsageError(f"`{name}` {_shown(python_numbers)} is not an array of numbers.")


def _as_is(_: str, python_value: Any) -> Any:
    """What its function checks itself."""
    return python_value


CHECKS: dict[str, Check] = {
    "str": word,
    "int": whole,
    "float": _real,
    "bool": _flag,
    "Path": _path,
    "PathLike[str]": _path,
    "ArchName": _arch,
    "PlaceName": _place,
    "str | Cell": _named,
    "str | tcprobe.store.cell.Cell": _named,
    "str | tcprobe.store.cell.Cell | collections.abc.Sequence[str]": lambda name, value: (
        words(name, value) if isinstance(value, list | tuple) else _named(name, value)
    ),
    "str | float": _number,
    "int | str": lambda name, value: value if isinstance(value, str) else whole(name, value),
    "tuple[str, ...]": lambda name, value: tuple(words(name, value)),
    "Sizes": lambda name, value: value if isinstance(value, str) else sizes(name, value),
    "TypeName": lambda _, value: element_type(value),
    "str | Sequence[str]": lambda name, value: value if isinstance(value, str) else words(name, value),
    "str | Sequence[SupportsIndex | None]": lambda name, value: (
        value if isinstance(value, str) else addresses(name, value)
    ),
    "str | NDArray[np.int64]": _as_is,
    "str | pathlib.Path": _as_is,
    "pathlib.Path | collections.abc.Mapping[str, typing.Any]": _as_is,
    "Iterable[int]": _wholes,
    "Sequence[int]": _wholes,
    "Sequence[int] | slice | None": lambda name, value: (
        value if value is None or isinstance(value, slice) else _wholes(name, value)
    ),
    "tuple[int, int]": partial(_items, (whole, whole)),
    "tuple[int, int, int]": partial(_items, (whole, whole, whole)),
    "ArrayLike": _numbers,
    "Any": _as_is,
    "Json": partial(_instance, "dict"),
    "None": lambda name, value: None if value is None else _instance("None", name, value),
}
ALIASES = {
    "Chosen": "Sequence[int] | slice | None",
    "Pair": "tuple[int, int]",
    "ProductSize": "tuple[int, int, int]",
}
CHECKS |= {alias: CHECKS[meant] for alias, meant in ALIASES.items()}
NAMES_OF_TYPES: dict[Any, str] = {
    str: "str",
    int: "int",
    bool: "bool",
    Path: "Path",
    ArchName: "ArchName",
    PlaceName: "PlaceName",
    Sizes: "Sizes",
    object: "TypeName",
    Sequence[int]: "Sequence[int]",
    str | Sequence[str]: "str | Sequence[str]",
    str | Sequence[SupportsIndex | None]: "str | Sequence[SupportsIndex | None]",
}
