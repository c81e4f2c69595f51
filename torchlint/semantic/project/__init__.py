"""What a file's imports from its own project give: classes and their bases, helpers, base classes that call back."""

from torchlint.semantic.project.exports import ArgumentRead, Caller
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.project.project import Definition, Lineage, Project

__all__ = ["ArgumentRead", "Caller", "Definition", "Lineage", "Outside", "Project"]
