"""What a candidate says, without how it is laid out, so that clones are told as the same."""

from __future__ import annotations

import ast
import hashlib
import re

from sandbox.build.text import without_comments

_DIRECTIVE = re.compile(r"^[ \t]*//[ \t]*(?:link:.*|fast-math)[ \t]*$", re.MULTILINE)
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\w+|\S')
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def likeness(files: dict[str, bytes]) -> str:
    """Return a sha256 that two candidates share whose code differs in comments, docstrings and layout alone."""
    total = hashlib.sha256()
    for name in sorted(files):
        text = files[name].decode("utf-8", "replace")
        said = _python(text) if name.endswith(".py") else _kernel(text)
        total.update(f"{name}\0{len(said)}\0{said}".encode("utf-8", "replace"))
    return total.hexdigest()


def _kernel(text: str) -> str:
    """Its tokens, in lines where the preprocessor goes by them, and comments that ask for libraries or other arithmetic."""
    directives = [" ".join(line.split()) for line in _DIRECTIVE.findall(text)]
    lines = (" ".join(_TOKEN.findall(line)) for line in without_comments(text).splitlines())
    ended = (f"\n{line}\n" if line.startswith("#") or line.endswith("\\") else line for line in lines if line)
    return " ".join([*directives, *ended])


def _python(text: str) -> str:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
