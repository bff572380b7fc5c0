"""Records, in the developer's own processes, which of their modules take how long.

Needs the standard library and torch only. ``sitecustomize.py`` loads this folder as a package of a private name, so that
it shares no import name with the developer's project.
"""
