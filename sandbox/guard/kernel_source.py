"""Rules on kernel files: what C++ and CUDA text may not reach for.

The text is searched without its comments. A general word (``open``, ``exit``) counts only where it is called and the file
defines no function of that name; a word that has one meaning (``dlopen``) counts wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from sandbox.build.signature import parse
from sandbox.build.sources import read_directives
from sandbox.build.text import line_of, without_comments
from sandbox.guard.findings import Findings
from sandbox.guard.kernel_names import (
    CALLED,
    HEADERS,
    OTHER_LIBRARY_CALL,
    PATTERNS,
    TORCH_ALLOWED,
    TORCH_CALL,
    TORCH_METHOD,
    UNMISTAKABLE,
)
from sandbox.verdict import Severity

Found = tuple[int, str, str, Severity]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_LAUNCH = re.compile(r"<<<([^;]{0,1000}?)>>>\s*\(")
_NAMES = {"identifier", "type_identifier", "field_identifier", "namespace_identifier"}


def check_kernel_source(
    text: str, findings: Findings, *, cuda: bool, torch_allowed: bool = False, first_line: int = 1
) -> None:
    """Look at one kernel file, or at a piece of C++ that Python builds (``torch_allowed``; it begins at ``first_line``)."""
    code = without_comments(text)
    root = parse(text.encode(), cuda=cuda)
    found: list[Found] = [*_headers(code), *_identifiers(root, _defined(root)), *_patterns(code)]
    found += _launches(code)
    if torch_allowed:
        found += _torch_calls(code)
    if read_directives(text, cuda=True)[1]:
        found.append((1, "fast-math", "compiled with fast-math: denormals, infinities and rounding differ", "label"))
    for line, rule, why, severity in found:
        findings.add(rule, line + first_line - 1, why, severity=severity)


def _nodes(root: Node) -> Iterator[Node]:
    """Yield every node of a tree."""
    ahead = [root]
    while ahead:
        node = ahead.pop()
        yield node
        ahead += node.children


def _defined(root: Node) -> set[str]:
    """Return the names of the functions a file defines; a mere declaration is not enough."""
    found = set()
    for node in _nodes(root):
        declarator = node.child_by_field_name("declarator") if node.type == "function_definition" else None
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator")
        if declarator is not None:
            found.add(_text(declarator.child_by_field_name("declarator")).rpartition("::")[2])
    return found


def _text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode(errors="replace")


def _headers(code: str) -> Iterator[Found]:
    for include in _INCLUDE.finditer(code):
        if include[1] in HEADERS:
            rule, why = HEADERS[include[1]]
            yield line_of(code, include.start()), rule, f"<{include[1]}>: {why}", "reject"


def _identifiers(root: Node, own: set[str]) -> Iterator[Found]:
    """Yield the names that tell: unmistakable ones anywhere, general ones where they are called."""
    for node in _nodes(root):
        if node.type in _NAMES:
            name, table = _text(node), UNMISTAKABLE
        elif node.type == "call_expression":
            name, table = _called(node), CALLED
        else:
            continue
        if name in table and name not in own:
            rule, why = table[name]
            yield node.start_point.row + 1, rule, f"{name}: {why}", "reject"


def _called(node: Node) -> str:
    """Return the name of a function that is called as such, or out of ``std``; methods do not count."""
    function = node.child_by_field_name("function")
    if function is None or function.type not in {"identifier", "qualified_identifier"}:
        return ""
    parts = re.sub(r"\s", "", _text(function)).split("::")
    return parts[-1] if set(parts[:-1]) <= {"", "std"} else ""


def _patterns(code: str) -> Iterator[Found]:
    for pattern in PATTERNS:
        for found in pattern.expression.finditer(code):
            yield line_of(code, found.start()), pattern.rule, pattern.why, pattern.severity
    for found in OTHER_LIBRARY_CALL.finditer(code):
        why = f"{found[0].rstrip('( ')}: cuBLAS is for matrix products and cuDNN for convolutions; write the rest"
        yield line_of(code, found.start()), "library-use", why, "reject"


def _launches(code: str) -> Iterator[Found]:
    """Yield kernel launches that name no stream."""
    for found in _LAUNCH.finditer(code):
        depth = commas = 0
        for character in found[1]:
            depth += (character in "([{<") - (character in ")]}>")
            commas += character == "," and depth == 0
        if commas < 3:
            why = "launches on the default stream; pass the stream as fourth launch argument"
            yield line_of(code, found.start()), "stream", why, "label"


def _torch_calls(code: str) -> Iterator[Found]:
    for found in TORCH_CALL.finditer(code):
        if not TORCH_ALLOWED.fullmatch(found[1].rpartition("::")[2].strip()):
            yield line_of(code, found.start()), "torch-in-cpp", _torch_computes(found[0].rstrip("( ")), "reject"
    for found in TORCH_METHOD.finditer(code):
        yield line_of(code, found.start()), "torch-in-cpp", _torch_computes(f"Tensor.{found[1]}"), "reject"


def _torch_computes(what: str) -> str:
    return f"{what}: torch computes here; do it in a kernel"
