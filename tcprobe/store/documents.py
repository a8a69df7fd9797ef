"""Documents: canonical JSON that ends with its own checksum, read back only if every byte is right.

    {"...": ..., "kind": "layout", "schema": 1, "sha256": "..."}

`kind` and `schema` say what a document is. A key stands once, and every text in it is plain (`tcprobe.text`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from tcprobe.errors import DataError, NewerSchemaError, UsageError
from tcprobe.system import files
from tcprobe.system.digest import sha256
from tcprobe.text import MOST_TEXT, plain, quoted
from tcprobe.values import Json

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
_UNFIT = f"has characters that cannot be printed, or more than {MOST_TEXT}"
_CHECKSUM = b',\n "sha256": "'
_plain = json.JSONEncoder(ensure_ascii=False).encode


def canonical(data: object, indent: str = "") -> str:
    """JSON with sorted keys, one key or list item a line, lists of plain values on one line."""
    if isinstance(data, dict) and data:
        items = [f"{_plain(key)}: {canonical(data[key], indent + ' ')}" for key in sorted(data)]
    elif isinstance(data, list) and data and isinstance(data[0], (list, dict)):
        items = [canonical(value, indent + " ") for value in data]
    else:
        return _plain(data)
    opening, closing = "{}" if isinstance(data, dict) else "[]"
    inner = f",\n{indent} ".join(items)
    return f"{opening}\n{indent} {inner}\n{indent}{closing}"


def seal(kind: str, body: Json, schema: int = SCHEMA) -> str:
    """The text of a document: body, kind and schema, and at its end the checksum of all that."""
    text = canonical({**body, "kind": kind, "schema": schema})
    digest = sha256(text.encode()).hexdigest()
    return f'{text.removesuffix("}").rstrip()},\n "sha256": "{digest}"\n}}\n'


def has_checksum(raw: bytes) -> bool:
    """Whether the bytes end with the checksum of what is before it, as `seal` writes it."""
    text = raw.rpartition(_CHECKSUM)[0]
    digest = sha256(text + b"\n}").hexdigest().encode()
    return raw == text + _CHECKSUM + digest + b'"\n}\n'


def read(path: str | Path, kind: str, most: int = files.MOST_BYTES) -> Json | None:
    """The body of a document of at most `most` bytes, None if there is no such file.

    DataError names the file, the place and the reason if it cannot be trusted; NewerSchemaError if a later tcprobe
    wrote it.
    """
    raw = files.read(path, most)
    if raw is None:
        return None
    with naming(path):
        return body_of(raw, kind)


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Complaints about the content of a file, with the file's name."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{path}: {error}") from None
    except (UsageError, TypeError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: not what tcprobe writes ({error}).") from None


def body_of(raw: bytes, kind: str) -> Json:
    """The body of a document of a kind; DataError as `read`, without the file's name."""
    content = parse(raw)
    schema = content.get("schema")
    if content.get("kind") != kind or type(schema) is not int or schema < 1:
        raise DataError(f"not a tcprobe {kind}.")
    if schema > SCHEMA:
        raise NewerSchemaError(f"schema {schema}; this tcprobe knows schema {SCHEMA}. Update tcprobe.")
    if not has_checksum(raw):
        raise DataError("its bytes do not match its checksum; it was damaged or edited. Measure again with --force.")
    return {key: value for key, value in content.items() if key not in ("kind", "schema", "sha256")}


def parse(raw: bytes) -> Json:
    """The JSON object in the bytes of a document; DataError if there is none, or its texts are not plain."""
    try:
        content = json.loads(raw.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise DataError(f"byte {error.start} is not UTF-8 text.") from None
    except json.JSONDecodeError as error:
        raise DataError(f"line {error.lineno}, column {error.colno}: not JSON ({error.msg}); truncated?") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON that tcprobe wrote ({error}).") from None
    if not isinstance(content, dict):
        raise DataError(f"not a tcprobe file (a JSON {type(content).__name__}).")
    return content


def _object(pairs: list[tuple[str, object]]) -> Json:
    """An object whose keys stand once and whose texts are plain."""
    members = dict(pairs)
    if len(members) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DataError(f"the key {quoted(twice)} appears twice.")
    for key, value in pairs:
        if not plain(key):
            raise DataError(f"the key {quoted(key)} {_UNFIT}.")
        if isinstance(value, str) and not plain(value):
            raise DataError(f"{key}: the text {quoted(value)} {_UNFIT}.")
    return members


def _no_number(name: str) -> NoReturn:
    raise DataError(f"{name} is not a number.")
