"""Kernel files become one library and the description of how to call it, or diagnostics a person can act on."""

from __future__ import annotations

from sandbox.build.compile import Built, build_kernels
from sandbox.build.manifest import Manifest, Recipe
from sandbox.build.sources import has_sources
from sandbox.build.target import ExtraFlags

__all__ = ["Built", "ExtraFlags", "Manifest", "Recipe", "build_kernels", "has_sources"]
