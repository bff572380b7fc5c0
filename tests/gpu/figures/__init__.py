"""The figures that the judge must show, each through the code path of a real verdict.

One command, from the repository root; it prints as it goes, and every trial is a line of ``results.jsonl`` the moment it
is known, so a run that is cut off loses one trial, and runs add up, over versions of the judge too as long as what measures
stays the same (``measuring.py`` names it)::

    python -m tests.gpu.figures --minutes 18                      every figure, in turn
    python -m tests.gpu.figures aa20 aa8 --minutes 9 --load busy  some, with all cores busy
    python -m tests.gpu.figures aa20 aa8 power --device all       on each GPU at once, one load after the other
    python -m tests.gpu.figures --table                           what is known so far
    python -m tests.gpu.figures --add FILE                        take over the lines of a run on another machine
    python -m tests.gpu.figures aa8 --device cpu --minutes 2      the same on the CPU, into a file of its own

| figure | what |
|---|---|
| ``aa20``, ``aa8`` | the reference as its own candidate, at about 20 and 8 µs; beside it, the protocols people use |
| ``power`` | a candidate exactly 10 % faster |
| ``ncu`` | the judge's time beside Nsight Compute's kernel time, for modules of one kernel |

Verifying is skipped (``JudgeLimits`` without cases), nothing of the profile is.
"""
