"""Tasks of many kinds, each judged with the reference as its own candidate: correct, reward 1, nothing found.

::

    python -m tests.gpu.kinds --minutes 18                        both tiers of every kind
    python -m tests.gpu.kinds scan recurrent --tiers full         some
    python -m tests.gpu.kinds --device cpu                        the same at small sizes

Every verdict is a line of a file the moment it is known; those that this judge gave before are not asked for again.
"""
