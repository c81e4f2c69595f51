"""Abstract interpretation of functions: what kind of thing an expression is, and where it lives."""

from torchlint.semantic.values.facts import Values
from torchlint.semantic.values.value import ACCEL, CPU, CUDA, META, UNKNOWN, Value, join

__all__ = ["ACCEL", "CPU", "CUDA", "META", "UNKNOWN", "Value", "Values", "join"]
