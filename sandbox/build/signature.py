"""Launchers of a kernel file: found in its source, checked against the one form there is, and described as plain data.

    extern "C" int NAME(const T* in..., T* out..., int64_t | int | float | double | bool scalars..., cudaStream_t stream)

A ``const`` pointer is an input, any other pointer an output; the parameters may come in any order, the stream last and
only in a ``.cu`` file. ``T`` is a name of ``DTYPES``, or an alias that the same file gives one. Everything else with C
linkage is answered with a diagnostic that says what to write instead.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

import tree_sitter_cpp
import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

from sandbox.verdict import Diagnostic

FORM = 'extern "C" int NAME(const T* in, T* out, int64_t n, float eps, cudaStream_t stream)'

DTYPES = {
    "float": "float32",
    "double": "float64",
    "__half": "float16",
    "half": "float16",
    "_Float16": "float16",
    "float16": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "int8_t": "int8",
    "signed char": "int8",
    "uint8_t": "uint8",
    "unsigned char": "uint8",
    "int16_t": "int16",
    "uint16_t": "uint16",
    "int32_t": "int32",
    "int": "int32",
    "uint32_t": "uint32",
    "int64_t": "int64",
    "long long": "int64",
    "bool": "bool",
}
"""Element types a pointer may have, and the torch dtype each stands for.

On the CPU ``_Float16`` and ``__bf16`` need a compiler that has them in C++ (g++ 13, clang 15); any other 16-bit type of
the file's own may be named ``float16`` or ``bfloat16`` (``struct bfloat16 { uint16_t bits; };``).
"""

SCALARS = {
    "int64_t": "int64",
    "long long": "int64",
    "int": "int32",
    "int32_t": "int32",
    "float": "float32",
    "double": "float64",
    "bool": "bool",
}
"""Types a parameter passed by value may have."""

_INSTEAD = {
    "size_t": "int64_t",
    "long": "int64_t",
    "unsigned": "int64_t",
    "unsigned int": "int64_t",
    "unsigned long": "int64_t",
    "unsigned long long": "int64_t",
    "uint64_t": "int64_t",
    "uint32_t": "int64_t",
    "short": "int",
    "char": "int",
    "cudaStream_t": "",
}
_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)

_NOT_PLAIN = {
    "array_declarator": "is written as an array",
    "reference_declarator": "is passed by reference",
    "function_declarator": "is a function",
}

Kind = Literal["input", "output", "scalar"]


@dataclass(frozen=True)
class Param:
    """One parameter: its C name, what it is, and its torch dtype (of the elements, for a pointer).

    ``strided`` tells that the launcher also takes ``NAME_stride...`` as ``int64_t``, so a tensor that is not contiguous
    may be passed.
    """

    name: str
    kind: Kind
    dtype: str
    strided: bool = False


@dataclass(frozen=True)
class Launcher:
    """One function that Python can call: where it is defined, its parameters in C order, and whether a stream follows."""

    name: str
    file: str
    line: int
    params: tuple[Param, ...]
    has_stream: bool

    def to_json(self) -> dict[str, Any]:
        """Return the launcher as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Launcher:
        """Rebuild a launcher from its JSON data."""
        return cls(**{**data, "params": tuple(Param(**param) for param in data["params"])})


@dataclass(frozen=True)
class Parsed:
    """What a file offers, and what is wrong with it. ``exempt`` are C symbols that are not launchers (C-linkage kernels)."""

    launchers: tuple[Launcher, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    exempt: frozenset[str] = frozenset()


class _Refused(Exception):
    """A declaration outside the form: where, and what to write instead."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.line = node.start_point.row + 1


def parse_launchers(source: bytes, file: str) -> Parsed:
    """Find every function with C linkage that a file defines, and read its signature.

    Args:
        source: The file's text.
        file: Its path relative to the workspace; the suffix decides whether a stream is expected.
    """
    aliases: dict[str, str] = {}
    launchers: list[Launcher] = []
    diagnostics: list[Diagnostic] = []
    exempt: set[str] = set()
    tree = parse(source, cuda=file.endswith(".cu"))
    _collect_aliases(tree, aliases)
    for definition in _exported(tree, c_linkage=False):
        declarator = _function_declarator(definition)
        if _is_kernel(definition):
            exempt.add(_text(declarator.child_by_field_name("declarator")))
            continue
        try:
            launchers.append(_launcher(definition, declarator, file, aliases))
        except _Refused as refused:
            exempt.add(_text(declarator.child_by_field_name("declarator")))
            diagnostics.append(Diagnostic(file, refused.line, str(refused)))
    return Parsed(tuple(launchers), tuple(diagnostics), frozenset(exempt))


@cache
def _parser(cuda: bool) -> Parser:
    return Parser(Language(tree_sitter_cuda.language() if cuda else tree_sitter_cpp.language()))


def parse(source: bytes, *, cuda: bool) -> Node:
    """Return the root of the syntax tree of a C++ or CUDA source."""
    return _parser(cuda).parse(source).root_node


def _text(node: Node | None) -> str:
    """Return a node's source on one line, without comments."""
    if node is None or node.text is None:
        return ""
    return " ".join(_COMMENT.sub(b" ", node.text).decode(errors="replace").split())


def _collect_aliases(node: Node, aliases: dict[str, str]) -> None:
    """Collect ``using A = B;`` and ``typedef B A;`` of plain types, wherever they stand outside functions."""
    for child in node.named_children:
        if child.type == "alias_declaration":
            target = child.child_by_field_name("type")
            aliases[_text(child.child_by_field_name("name"))] = _text(target and target.child_by_field_name("type"))
        elif child.type == "type_definition":
            declarator = child.child_by_field_name("declarator")
            if declarator is not None and declarator.type in {"type_identifier", "primitive_type"}:
                aliases[_text(declarator)] = _text(child.child_by_field_name("type"))
        elif child.type not in {"function_definition", "class_specifier", "struct_specifier"}:
            _collect_aliases(child, aliases)


def _exported(node: Node, *, c_linkage: bool) -> Iterator[Node]:
    """Yield the function definitions with C linkage that other files can see."""
    for child in node.named_children:
        if child.type == "function_definition":
            if c_linkage and not _is_local(child) and _is_function(child):
                yield child
        elif child.type == "linkage_specification":
            yield from _exported(child, c_linkage=_text(child.child_by_field_name("value")).replace(" ", "") == '"C"')
        elif child.type == "preproc_if" and _text(child.child_by_field_name("condition")) == "0":
            alternative = child.child_by_field_name("alternative")
            if alternative is not None:
                yield from _exported(alternative, c_linkage=c_linkage)
        elif child.type not in {"class_specifier", "struct_specifier", "compound_statement"}:
            yield from _exported(child, c_linkage=c_linkage)


def _specifiers(definition: Node) -> set[str]:
    return {_text(child) for child in definition.children if child.type != "compound_statement"}


def _is_local(definition: Node) -> bool:
    return bool({"static", "inline", "__inline__", "__forceinline__"} & _specifiers(definition))


def _is_kernel(definition: Node) -> bool:
    return bool({"__global__", "__device__"} & _specifiers(definition))


def _is_function(definition: Node) -> bool:
    try:
        return _function_declarator(definition).type == "function_declarator"
    except _Refused:
        return False


def _function_declarator(definition: Node) -> Node:
    node = definition.child_by_field_name("declarator")
    while node is not None and node.type in {"pointer_declarator", "reference_declarator"}:
        node = node.child_by_field_name("declarator") or (node.named_children[-1] if node.named_children else None)
    if node is None:
        raise _Refused(definition, f"This is not a function the binding can read; write {FORM}.")
    return node


def _launcher(definition: Node, declarator: Node, file: str, aliases: dict[str, str]) -> Launcher:
    name = _text(declarator.child_by_field_name("declarator"))
    returns = _text(definition.child_by_field_name("type"))
    if returns != "int" or definition.child_by_field_name("declarator") != declarator:
        hint = "return (int)cudaGetLastError();" if file.endswith(".cu") else "return 0;"
        raise _Refused(definition, f"{name} must return int, not `{returns}`: end it with `{hint}`.")
    if keyword.iskeyword(name) or name.startswith("_"):
        raise _Refused(definition, f"Python cannot import a function called {name}; choose another name.")
    parameters = declarator.child_by_field_name("parameters")
    nodes = [] if parameters is None else [n for n in parameters.named_children if n.type != "comment"]
    if len(nodes) == 1 and _text(nodes[0]) == "void":
        nodes = []
    has_stream = file.endswith(".cu")
    nodes = _without_stream(nodes, definition, name, has_stream)
    params = [_param(node, position, name, aliases) for position, node in enumerate(nodes, 1)]
    strides = [p.name for p in params if p.kind == "scalar" and p.dtype == "int64"]
    marked = [
        Param(p.name, p.kind, p.dtype, p.kind != "scalar" and any(s.startswith(f"{p.name}_stride") for s in strides))
        for p in params
    ]
    return Launcher(name, file, definition.start_point.row + 1, tuple(marked), has_stream)


def _without_stream(nodes: list[Node], definition: Node, name: str, has_stream: bool) -> list[Node]:
    streams = [node for node in nodes if _base_type(node) == "cudaStream_t"]
    if not has_stream and streams:
        raise _Refused(streams[0], f"{name} is a CPU function and takes no stream; remove the parameter.")
    if has_stream and (len(streams) != 1 or nodes[-1] != streams[0] or _pointers(nodes[-1], name)):
        where = streams[0] if streams else definition
        raise _Refused(where, f"{name} must take exactly one `cudaStream_t stream`, as its last parameter.")
    return nodes[:-1] if has_stream else nodes


def _base_type(node: Node) -> str:
    """Return the written type of a parameter without ``const``, namespaces and pointers."""
    kind = node.child_by_field_name("type")
    return "" if kind is None else _text(kind).removeprefix("::").removeprefix("std::")


def _pointers(node: Node, function: str) -> int:
    """Count the stars of a parameter; anything but stars is refused."""
    depth = 0
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "identifier":
        if declarator.type in {"pointer_declarator", "abstract_pointer_declarator"}:
            depth += 1
        else:
            what = _NOT_PLAIN.get(declarator.type.removeprefix("abstract_"), "cannot be bound")
            raise _Refused(node, f"{function}: `{_text(node)}` {what}; take a pointer, `T* name`, or a plain number.")
        declarator = declarator.child_by_field_name("declarator")
    return depth


def _name(node: Node, position: int) -> str:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "identifier":
        declarator = declarator.child_by_field_name("declarator")
    return _text(declarator) or f"arg{position}"


def _param(node: Node, position: int, function: str, aliases: dict[str, str]) -> Param:
    if node.type != "parameter_declaration":
        raise _Refused(
            node, f"{function}: `{_text(node)}` cannot be bound; a launcher takes pointers and plain numbers."
        )
    depth = _pointers(node, function)
    written = _base_type(node)
    base = written
    for _ in aliases:
        base = aliases.get(base, base).removeprefix("::").removeprefix("std::")
    if depth > 1:
        raise _Refused(
            node, f"{function}: `{_text(node)}` is a pointer to pointers; pass each tensor as its own parameter."
        )
    if depth == 1:
        return _pointer(node, _name(node, position), written, base, function)
    if base not in SCALARS:
        raise _Refused(node, _scalar_message(node, function, base))
    return Param(_name(node, position), "scalar", SCALARS[base])


def _pointer(node: Node, name: str, written: str, base: str, function: str) -> Param:
    if base not in DTYPES:
        known = "float, double, __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2, intN_t, uintN_t or bool"
        instead = (
            "write the element type, one launcher for each dtype" if base == "void" else f"take {known}, cast inside"
        )
        raise _Refused(node, f"{function}: no torch dtype is known for `{written}*`: {instead}.")
    const = any(child.type == "type_qualifier" and _text(child) == "const" for child in node.children)
    return Param(name, "input" if const else "output", DTYPES[base])


def _scalar_message(node: Node, function: str, base: str) -> str:
    instead = _INSTEAD.get(base, "")
    if instead:
        return f"{function}: `{_text(node)}` cannot be bound; write {instead}."
    if base in DTYPES:
        return f"{function}: `{_text(node)}` cannot be passed by value; write float, and convert inside."
    allowed = "int64_t, int, float, double or bool"
    return f"{function}: `{_text(node)}` cannot be passed by value; a launcher takes pointers and {allowed}."
