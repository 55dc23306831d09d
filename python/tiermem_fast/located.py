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

__all__ = ["Located", "parse_json", "parse_yaml", "read_document"]

_MOST_BYTES: Final = 1 << 20
_DEEPEST: Final = 64
Keys = tuple[str, ...]


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
    lines: dict[Keys, int] = field(default_factory=dict)

    def line(self, path: Keys) -> int:
        """The line of a value, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def fault(self, path: Keys, field: str, problem: str) -> InvalidInput:
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
    r"""JSON with the line of every value; ``Infinity`` is a number too.

    Examples
    --------
    >>> parse_json('{"a": [1,\n 2]}', "x.json").lines[("a", "1")]
    2
    """
    if not text.strip():
        return Located(None, name, {(): 1})
    return _JsonReader(text, name).read()


class _JsonReader:
    """Walks over a JSON text and notes where each value begins; a place is an offset into the text."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.lines: dict[Keys, int] = {}

    def read(self) -> Located:
        found, end = self.value(0, ())
        if self.blank(end) != len(self.text):
            raise self.fail(self.blank(end), "is not JSON: something follows the end")
        return Located(found, self.name, self.lines)

    def line(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1

    def fail(self, place: int, problem: str) -> InvalidInput:
        return InvalidInput(f"{self.name}:{self.line(place)}: {problem}", argument=self.name)

    def sign(self, place: int) -> str:
        return self.text[place : place + 1]

    def blank(self, place: int) -> int:
        found = _BLANK.match(self.text, place)
        return found.end() if found else place

    def value(self, place: int, path: Keys) -> tuple[Any, int]:
        place = self.blank(place)
        self.lines.setdefault(path, self.line(place))
        if len(path) > _DEEPEST:
            raise self.fail(place, f"is nested deeper than {_DEEPEST}")
        opening = self.sign(place)
        if opening == "{":
            return self.mapping(place, path)
        return self.sequence(place, path) if opening == "[" else self.scalar(place)

    def scalar(self, place: int) -> tuple[Any, int]:
        if self.sign(place) == '"':
            try:
                value, end = scanstring(self.text, place + 1, True)
            except ValueError as error:
                raise self.fail(place, f"is not JSON: {error}") from None
            return value, end
        found = _SCALAR.match(self.text, place)
        if found is None:
            rest = self.text[place : place + 12].partition("\n")[0]
            problem = f"a value is expected, not {rest!r}" if rest else "it ends too early"
            raise self.fail(place, f"is not JSON: {problem}")
        return json.loads(found[0]), found.end()

    def separated(self, place: int, closing: str, *, first: bool) -> tuple[int, bool]:
        """The place of the next member, or behind the closing sign and that there is none."""
        place = self.blank(place)
        if self.sign(place) == closing:
            return place + 1, False
        if not first:
            if self.sign(place) != ",":
                raise self.fail(place, f"is not JSON: ',' or {closing!r} is expected")
            place = self.blank(place + 1)
        return place, True

    def sequence(self, place: int, path: Keys) -> tuple[list[Any], int]:
        items: list[Any] = []
        place, more = self.separated(place + 1, "]", first=True)
        while more:
            one, place = self.value(place, (*path, str(len(items))))
            items.append(one)
            place, more = self.separated(place, "]", first=False)
        return items, place

    def mapping(self, place: int, path: Keys) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        place, more = self.separated(place + 1, "}", first=True)
        while more:
            key, end = self.scalar(place)
            if not isinstance(key, str):
                raise self.fail(place, f"is not JSON: {shown(key)} is not a key")
            if key in members:
                raise self.fail(place, f"{key!r} stands twice")
            # The line of a member is that of its key.
            self.lines[*path, key] = self.line(place)
            place = self.blank(end)
            if self.sign(place) != ":":
                raise self.fail(place, "is not JSON: ':' is expected")
            members[key], place = self.value(place + 1, (*path, key))
            place, more = self.separated(place, "}", first=False)
        return members, place


_YAML_KINDS: Final = frozenset({"null", "bool", "int", "float", "str", "timestamp", "seq", "map"})


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
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                message = f"{name}:{event.start_mark.line + 1}: aliases are not read; write the value out"
                raise InvalidInput(message, argument=name)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        line = 1 if mark is None else mark.line + 1
        raise InvalidInput(f"{name}:{line}: is not YAML: {problem}", argument=name) from None
    except RecursionError:
        raise InvalidInput(f"{name}:1: is nested too deeply", argument=name) from None
    if root is None:
        return Located(None, name, {(): 1})
    reader = _YamlReader(yaml, name)
    return Located(reader.value(root, ()), name, reader.lines)


class _YamlReader:
    """Makes plain values of the nodes of a YAML text and notes where each begins."""

    def __init__(self, yaml: Any, name: str) -> None:
        self.yaml = yaml
        self.name = name
        self.scalars = yaml.SafeLoader("")
        self.lines: dict[Keys, int] = {}

    def fail(self, node: Any, problem: str) -> InvalidInput:
        return InvalidInput(f"{self.name}:{node.start_mark.line + 1}: {problem}", argument=self.name)

    def value(self, node: Any, path: Keys) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if len(path) > _DEEPEST:
            raise self.fail(node, f"is nested deeper than {_DEEPEST}")
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind not in _YAML_KINDS:
            raise self.fail(node, f"the tag {node.tag!r} is not read")
        if isinstance(node, self.yaml.SequenceNode):
            return [self.value(one, (*path, str(place))) for place, one in enumerate(node.value)]
        if isinstance(node, self.yaml.MappingNode):
            return self.mapping(node, path)
        if kind == "timestamp":
            return node.value
        try:
            return self.scalars.construct_object(node)
        except (ValueError, self.yaml.YAMLError) as error:
            raise self.fail(node, f"{shown(node.value)} is not read: {error}") from None

    def mapping(self, node: Any, path: Keys) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, one in node.value:
            if not isinstance(key, self.yaml.ScalarNode):
                raise self.fail(key, "a key must be a text")
            if key.value in members:
                raise self.fail(key, f"{key.value!r} stands twice")
            self.lines[*path, key.value] = key.start_mark.line + 1
            members[key.value] = self.value(one, (*path, key.value))
        return members
