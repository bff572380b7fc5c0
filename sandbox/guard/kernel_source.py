"""Rules on kernel files: what C++ and CUDA text may not reach for.

What is searched is what the preprocessor left of a file, where it was compiled, or else its text without comments. A general
word (``open``, ``exit``) counts only where it is called and no file defines it; a word that has one meaning (``dlopen``)
counts wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set

from tree_sitter import Node

from sandbox.build.signature import parse
from sandbox.build.sources import read_directives
from sandbox.build.text import line_of, without_comments
from sandbox.guard.findings import Findings
from sandbox.guard.kernel_names import (
    ASSEMBLY,
    CALLED,
    HEADERS,
    OTHER_LIBRARY_CALL,
    PATTERNS,
    TORCH_ALLOWED,
    TORCH_CALL,
    TORCH_METHOD,
    UNMISTAKABLE,
    Pattern,
)
from sandbox.verdict import Severity

Found = tuple[int, str, str, Severity]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_LAUNCH = re.compile(r"<<<([^;]{0,1000}?)>>>\s*\(")
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_STRINGS = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*')
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})(?![0-9a-fA-F])|\\([0-7]{3})")
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b[\s\w]*\(")
_BRACKET = re.compile(r'"(?:\\.|[^"\\])*"|[()]')
_LINE_MARKER = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(?:line\b|\d)", re.MULTILINE)
_DEFINITIONS = {"function_definition", "init_declarator", "parameter_declaration", "optional_parameter_declaration"}
_NAMES = {"identifier", "type_identifier", "field_identifier", "namespace_identifier"}


def check_kernel_source(
    text: str,
    findings: Findings,
    *,
    cuda: bool,
    torch_allowed: bool = False,
    first_line: int = 1,
    own: Set[str] = frozenset(),
) -> None:
    """Look at one kernel file, or at a piece of C++ that Python builds.

    Args:
        text: The file's text, or what the preprocessor left of it.
        findings: What is found is added here.
        cuda: Whether it is CUDA.
        torch_allowed: Whether it is C++ that Python builds, which may allocate through torch.
        first_line: Where it begins.
        own: Names that other files of the candidate define.
    """
    code = without_comments(text)
    root = parse(text.encode(), cuda=cuda)
    found: list[Found] = [*_headers(code), *_identifiers(root, own | _defined(root)), *_patterns(code, PATTERNS)]
    found += [*_assembly(code), *_launches(code), *_markers(code)]
    if torch_allowed:
        found += _torch_calls(code)
    _add(found, text, findings, first_line)


def check_written(text: str, findings: Findings) -> None:
    """Look at the text of a file whose preprocessed text is looked at too: what the preprocessor takes out of it."""
    code = without_comments(text)
    labels = [pattern for pattern in PATTERNS if pattern.severity == "label"]
    _add([*_patterns(code, labels), *_launches(code), *_markers(code)], text, findings, 1)


def defined_names(text: str, *, cuda: bool) -> set[str]:
    """Return the names of functions and variables that a text defines."""
    return _defined(parse(text.encode(), cuda=cuda))


def _add(found: Iterable[Found], text: str, findings: Findings, first_line: int) -> None:
    if read_directives(text, cuda=True)[1]:
        findings.add(
            "fast-math",
            first_line,
            "compiled with fast-math: denormals, infinities and rounding differ",
            severity="label",
        )
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
    """Return the names of the functions and variables a file defines; a mere declaration of a function is not enough."""
    found = set()
    for node in _nodes(root):
        declarator = node.child_by_field_name("declarator") if node.type in _DEFINITIONS else None
        wanted = "function_declarator" if node.type == "function_definition" else "identifier"
        while declarator is not None and declarator.type != wanted:
            declarator = declarator.child_by_field_name("declarator")
        if declarator is not None and wanted == "function_declarator":
            declarator = declarator.child_by_field_name("declarator")
        if declarator is not None:
            found.add(_text(declarator).rpartition("::")[2])
    return found


def _text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode(errors="replace")


def _headers(code: str) -> Iterator[Found]:
    for include in _INCLUDE.finditer(code):
        if include[1] in HEADERS:
            rule, why = HEADERS[include[1]]
            yield line_of(code, include.start()), rule, f"<{include[1]}>: {why}", "reject"


def _identifiers(root: Node, own: Set[str]) -> Iterator[Found]:
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


def _patterns(code: str, patterns: Sequence[Pattern]) -> Iterator[Found]:
    joined = _with_strings_joined(code)
    for pattern in patterns:
        for found in pattern.expression.finditer(joined):
            yield line_of(joined, found.start()), pattern.rule, pattern.why, pattern.severity
    for found in OTHER_LIBRARY_CALL.finditer(code):
        why = f"{found[0].rstrip('( ')}: cuBLAS is for matrix products and cuDNN for convolutions; write the rest"
        yield line_of(code, found.start()), "library-use", why, "reject"


def _with_strings_joined(code: str) -> str:
    """Return code with neighbouring string literals made one and escapes of characters resolved; lines stay as they are."""

    def joined(found: re.Match[str]) -> str:
        parts = [part[1:-1] for part in _STRING.findall(found[0])]
        return '"' + _ESCAPE.sub(_character, "".join(parts)) + '"' + "\n" * found[0].count("\n")

    return _STRINGS.sub(joined, code)


def _character(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16) if escape[1] else int(escape[2], 8))
    return character if character.isalnum() or character in "._$/ " else escape[0]


def _assembly(code: str) -> Iterator[Found]:
    """Yield what a block of assembler has no use for."""
    joined = _with_strings_joined(code)
    for block in _ASM.finditer(joined):
        text = _up_to_bracket(joined, block.end())
        given = "\n".join(part.strip('R"()') for part in re.findall(r'R?"(?:\\.|[^"\\])*"', text))
        for pattern in ASSEMBLY:
            if pattern.expression.search(given):
                yield line_of(joined, block.start()), pattern.rule, pattern.why, pattern.severity


def _up_to_bracket(code: str, start: int) -> str:
    """Return code from behind an opening bracket up to the one that closes it."""
    depth = 1
    for token in _BRACKET.finditer(code, start):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0:
            return code[start : token.start()]
    return code[start:]


def _markers(code: str) -> Iterator[Found]:
    """Yield directives that give lines another file's name."""
    why = "lines keep their own file and number"
    found = [line_of(code, marker.start()) for marker in _LINE_MARKER.finditer(code)]
    if len(found) < len(_LINE_MARKER.findall(code.replace("\\\n", ""))):
        found.append(1)
    for line in found:
        yield line, "hidden-text", why, "reject"


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
