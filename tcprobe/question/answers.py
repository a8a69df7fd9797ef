"""The types of what commands print with `--json`: docs/schema.json follows from them.

    class AgreementAnswer(Answer):
        \"\"\"Whether a writer and a reader touch the same bytes.\"\"\"

        agree: bool
        different: Annotated[int, Meta(description="Elements that lie elsewhere.", ge=0)]
        first: Different | None  # a NamedTuple is an object, too: what Python has and what JSON has is declared once
        change: Change | UnsetType = UNSET  # left out where there is none

    @command(agree, short="...", json=AgreementAnswer)

In an answer a NamedTuple becomes an object, as its type says: one that is to be a list is given as a list.
A command whose options choose between several has one for each: `json={"": SharedAnswer, "--decode": DecodedAnswer}`.
Of a module that is imported late the type is a text, "tcprobe.ask.load.straight:LoadAnswer", or a function gives it.
What answers fills its type in, `AgreementAnswer.of(self, reader=self.reader.text)`, and `plain` gives what `json.dumps`
takes.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from inspect import get_annotations
from pkgutil import resolve_name
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from tcprobe.values import Json

DECLARED: dict[str, Any] = {}  # by command
SCALARS: dict[Any, Json] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
    Any: {},
}
NUMBERS_AND_TEXTS = (str, int, float, types.NoneType)
# what `Meta` says of a field -> the word of JSON Schema
BOUNDS = {
    "ge": "minimum",
    "le": "maximum",
    "min_length": "minItems",
    "max_length": "maxItems",
    "gt": "exclusiveMinimum",
    "pattern": "pattern",
    "description": "description",
}


class UnsetType(Enum):
    """What is left out."""

    UNSET = "left out"


UNSET: Final = UnsetType.UNSET


@dataclass(frozen=True, eq=False, kw_only=True)
class Meta:
    """What the schema says of a field beside its type, by msgspec's names."""

    description: str | None = None
    ge: float | None = None
    le: float | None = None
    gt: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    extra_json_schema: Json | None = None


@dataclass_transform()
class Answer:
    """An object of JSON, its fields in order. `from_` is "from"; with `before` fields stand before those of the base.

    A field is never taken away or given another meaning without a new `version`. It is no msgspec Struct, because
    `show` and `where` need no msgspec to start, which takes 12 ms to import.
    """

    version: ClassVar[int] = 1
    _keys: ClassVar[Mapping[str, str]] = {}  # by field, in order
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(
        cls, *, kw_only: bool = False, before: bool = False, rename: Mapping[str, str] | None = None
    ) -> None:
        del kw_only  # for type checkers
        own = get_annotations(cls)
        keys = {name: (rename or {}).get(name, name.removesuffix("_")) for name in own}
        cls._keys = {**keys, **cls._keys} if before else {**cls._keys, **keys}
        cls._defaults = {**cls._defaults, **{name: cls.__dict__[name] for name in own if name in cls.__dict__}}

    def __init__(self, *values: Any, **fields: Any) -> None:
        given = {**self._defaults, **dict(zip(self._keys, values, strict=False)), **fields}
        if wrong := given.keys() ^ self._keys.keys():
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._keys)}: {', '.join(sorted(wrong))}")
        self.__dict__.update(given)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._keys)})"

    @classmethod
    def of(cls, source: object, /, **others: Any) -> Self:
        """Filled from `others`, and from what `source` has by the names of the other fields.

        What may be left out is taken from another answer only.
        """
        skipped = () if isinstance(source, Answer) else [n for n, given in cls._defaults.items() if given is UNSET]
        taken = (n for n in cls._keys if n not in others and n not in skipped and hasattr(source, n))
        return cls(**{name: getattr(source, name) for name in taken}, **others)


def plain(answer: Any) -> Json:
    """What `json.dumps` takes, without the fields that are left out."""
    made: Json = _plain(answer)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, NUMBERS_AND_TEXTS):
        return value
    if isinstance(value, Answer):
        pairs = ((key, getattr(value, name)) for name, key in value._keys.items())
        return {key: _plain(one) for key, one in pairs if one is not UNSET}
    if hasattr(value, "__struct_fields__"):  # a part of a finding
        from msgspec import to_builtins

        return to_builtins(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value]


def declare(command: str, answer: Any) -> None:
    """Say what a command prints: a type, several with `|`, or one by what its name in the schema goes on with; or what
    gives that once somebody asks: a text MODULE:NAME, or a function.
    """
    DECLARED[command] = answer


def schemas() -> dict[str, Json]:
    """The schema of every answer that was declared, by COMMAND or COMMAND VARIANT, sorted."""
    found = {}
    for command, answer in DECLARED.items():
        given = _loaded(answer)
        for variant, one in (given if isinstance(given, Mapping) else {"": given}).items():
            found[f"{command} {variant}".strip()] = schema(_loaded(one))
    return dict(sorted(found.items()))


def _loaded(answer: Any) -> Any:
    given = resolve_name(answer) if isinstance(answer, str) else answer
    return given() if isinstance(given, types.FunctionType) else given


def schema(answer: Any) -> Json:
    """The JSON Schema (2020-12) of a line of this type, with its version; objects within it stand where they are."""
    kind = get_args(answer)[0] if get_origin(answer) is Annotated else answer
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return {"version": max(getattr(part, "version", 1) for part in parts), **schema_of(answer)}


def schema_of(hint: Any) -> Json:
    """The JSON Schema of a type."""
    outer, inner = get_origin(hint), get_args(hint)
    if hint in SCALARS:
        made = SCALARS[hint]
    elif outer is Annotated:
        made = schema_of(inner[0]) | {key: said for meta in inner[1:] for key, said in _said(meta)}
    elif outer in (Union, types.UnionType):
        several = [schema_of(one) for one in inner if one is not UnsetType]
        scalars = all(one in SCALARS.values() for one in several)
        made = {"type": [one["type"] for one in several]} if scalars else {"anyOf": several}
        made = several[0] if len(several) == 1 else made
    elif outer is Literal:
        made = {"enum": list(inner)}
    elif outer is tuple and inner[-1] is not Ellipsis:
        length = {"minItems": len(inner), "maxItems": len(inner)}
        made = {"type": "array", "prefixItems": [schema_of(one) for one in inner], **length}
    elif outer in (list, tuple, Sequence):
        made = {"type": "array", "items": schema_of(inner[0])}
    elif outer in (dict, Mapping):
        made = {"type": "object", "additionalProperties": schema_of(inner[1])}
    else:
        made = _object(hint)
    return made


def _said(meta: Meta) -> Iterator[tuple[str, Any]]:
    yield from ((word, said) for name, word in BOUNDS.items() if (said := getattr(meta, name)) is not None)
    yield from (meta.extra_json_schema or {}).items()


def _object(kind: Any) -> Json:
    hints = get_type_hints(kind, include_extras=True)
    if issubclass(kind, Answer):
        names = dict(kind._keys)
    elif hasattr(kind, "__struct_fields__"):
        names = {name: name for name in kind.__struct_fields__}
    else:
        names = {name: name for name in getattr(kind, "_fields", None) or [field.name for field in fields(kind)]}
    optional = {name for name in names if UnsetType in get_args(hints[name])}
    if hasattr(kind, "__struct_fields__"):  # a part of a finding, without what is as it is by default
        from msgspec.structs import fields as parts

        optional = {part.name for part in parts(kind) if not part.required}
        hints |= {part.name: _without_none(hints[part.name]) for part in parts(kind) if part.default is None}
    return {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": {key: schema_of(hints[name]) for name, key in names.items()},
        "required": [key for name, key in names.items() if name not in optional],
        "additionalProperties": False,
    }


def _without_none(hint: Any) -> Any:
    return Union[tuple(one for one in get_args(hint) if one is not types.NoneType)]  # noqa: UP007
