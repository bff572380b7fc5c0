"""Looks at a candidate that are no verdict: under a profiler, under sanitizers, in several variants."""
