"""Files of settings and rules, with the line of every value.

Owns the reading of JSON and YAML into plain values; calls only :mod:`.errors`. JSON is always read, YAML where PyYAML is
installed. A file may be no larger than 1 MiB, no key may stand twice, and YAML's aliases and tags are refused: what is
read is as large as it looks.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # where json has it, without a stub
from pathlib import Path
from typing import Any, Final

from .errors import InvalidInput, shown

__all__ = ["Located", "parse_json", "parse_yaml", "read_document", "yaml_is_there"]

_MOST_BYTES: Final = 1 << 20
_DEEPEST: Final = 64
Path_ = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Located:
    """What a file says, and where.

    Attributes
    ----------
    value
        Dicts, lists, texts, numbers, booleans and ``None``.
    name
        The file, as it was named.
    lines
        The path to a value, as ``("laws", "gain")``, to its line, counted from 1. Places in a list are numbers as texts.
    """

    value: Any
    name: str
    lines: dict[Path_, int] = field(default_factory=dict)

    def line(self, path: Path_) -> int:
        """The line of a value, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def fault(self, path: Path_, field: str, problem: str) -> InvalidInput:
        """An error that names file, line and field.

        Examples
        --------
        >>> document = parse_json('{"laws": {"gane": 1}}', "tiermem.json")
        >>> str(document.fault(("laws", "gane"), "laws.gane", "unknown"))
        'tiermem.json:1: laws.gane: unknown'
        """
        named = f"{field}: " if field else ""
        return InvalidInput(f"{self.name}:{self.line(path)}: {named}{problem}", argument=field or self.name)


def read_document(path: Path) -> Located:
    """What a ``.json``, ``.yaml`` or ``.yml`` file says.

    Raises
    ------
    InvalidInput
        If it cannot be read, is too large, no JSON or YAML, or YAML without PyYAML; naming file and line.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput.of(name, f"cannot be read: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise InvalidInput.of(name, f"is larger than {_MOST_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput.of(name, f"is not UTF-8 at byte {error.start}") from None
    suffix = path.suffix.lower()
    if suffix == ".json":
        return parse_json(text, name)
    if suffix in (".yaml", ".yml"):
        return parse_yaml(text, name)
    raise InvalidInput.of(name, f"{shown(path.suffix)} is neither .json nor .yaml")


_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|Infinity|-Infinity")


def parse_json(text: str, name: str) -> Located:
    """JSON with the line of every value; ``Infinity`` is a number too.

    Examples
    --------
    >>> parse_json('{"a": [1,\\n 2]}', "x.json").lines[("a", "1")]
    2
    """
    lines: dict[Path_, int] = {}

    def fail(place: int, problem: str) -> InvalidInput:
        return InvalidInput(f"{name}:{text.count(chr(10), 0, place) + 1}: {problem}", argument=name)

    def blank(place: int) -> int:
        found = _BLANK.match(text, place)
        return found.end() if found else place

    def scalar(place: int) -> tuple[Any, int]:
        if text[place : place + 1] == '"':
            try:
                value, end = scanstring(text, place + 1, True)
            except ValueError as error:
                raise fail(place, f"is not JSON: {error}") from None
            return value, end
        found = _SCALAR.match(text, place)
        if found is None:
            rest = text[place : place + 12].split("\n")[0]
            raise fail(place, f"is not JSON: a value is expected, not {rest!r}" if rest else "is not JSON: it ends too early")
        return json.loads(found[0]), found.end()

    def value(place: int, path: Path_) -> tuple[Any, int]:
        place = blank(place)
        lines[path] = text.count("\n", 0, place) + 1
        if len(path) > _DEEPEST:
            raise fail(place, f"is nested deeper than {_DEEPEST}")
        opening = text[place : place + 1]
        if opening not in ("{", "["):
            return scalar(place)
        closing = "}" if opening == "{" else "]"
        members: dict[str, Any] = {}
        items: list[Any] = []
        place = blank(place + 1)
        while text[place : place + 1] != closing:
            if members or items:
                if text[place : place + 1] != ",":
                    raise fail(place, f"is not JSON: ',' or {closing!r} is expected")
                place = blank(place + 1)
            if opening == "[":
                one, place = value(place, (*path, str(len(items))))
                items.append(one)
            else:
                key, start = scalar(place)
                if not isinstance(key, str):
                    raise fail(place, f"is not JSON: {shown(key)} is not a key")
                if key in members:
                    raise fail(place, f"{key!r} stands twice")
                line = text.count("\n", 0, place) + 1
                place = blank(start)
                if text[place : place + 1] != ":":
                    raise fail(place, "is not JSON: ':' is expected")
                members[key], place = value(place + 1, (*path, key))
                lines[*path, key] = line
            place = blank(place)
        return (members if opening == "{" else items), place + 1

    if not text.strip():
        return Located(None, name, {(): 1})
    found, end = value(0, ())
    if blank(end) != len(text):
        raise fail(blank(end), "is not JSON: something follows the end")
    return Located(found, name, lines)


_YAML_KINDS: Final = frozenset({"null", "bool", "int", "float", "str", "timestamp", "seq", "map"})


def yaml_is_there() -> bool:
    """Whether PyYAML is installed."""
    from importlib.util import find_spec

    return find_spec("yaml") is not None


def parse_yaml(text: str, name: str) -> Located:
    """YAML with the line of every value, as far as it is plain: no aliases, no tags, texts as keys.

    Raises
    ------
    InvalidInput
        Naming file and line; or that PyYAML is needed.
    """
    try:
        import yaml
    except ImportError:
        message = "is YAML, which needs PyYAML: pip install 'tiermem-fast[yaml]', or write it as JSON"
        raise InvalidInput.of(name, message) from None
    lines: dict[Path_, int] = {}

    def fail(line: int, problem: str) -> InvalidInput:
        return InvalidInput(f"{name}:{line}: {problem}", argument=name)

    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise fail(event.start_mark.line + 1, "aliases are not read; write the value out")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise fail(1 if mark is None else mark.line + 1, f"is not YAML: {problem}") from None
    except RecursionError:
        raise fail(1, "is nested too deeply") from None
    scalars = yaml.SafeLoader("")

    def value(node: Any, path: Path_) -> Any:
        line = node.start_mark.line + 1
        lines.setdefault(path, line)
        if len(path) > _DEEPEST:
            raise fail(line, f"is nested deeper than {_DEEPEST}")
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind not in _YAML_KINDS:
            raise fail(line, f"the tag {node.tag!r} is not read")
        if isinstance(node, yaml.SequenceNode):
            return [value(one, (*path, str(place))) for place, one in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            members: dict[str, Any] = {}
            for key_node, one in node.value:
                where = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode):
                    raise fail(where, "a key must be a text")
                key = key_node.value
                if key in members:
                    raise fail(where, f"{key!r} stands twice")
                lines[*path, key] = where
                members[key] = value(one, (*path, key))
            return members
        if kind == "timestamp":
            return node.value
        try:
            return scalars.construct_object(node)
        except (ValueError, yaml.YAMLError) as error:
            raise fail(line, f"{shown(node.value)} is not read: {error}") from None

    return Located(None if root is None else value(root, ()), name, lines or {(): 1})
