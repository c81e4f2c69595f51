"""From when on a change of a program's speed is worth a word."""

from __future__ import annotations

MIN_EFFECT = 0.03
"""Gains and losses below 3 % are not worth a change of the program; the default of
``--min-effect``."""
