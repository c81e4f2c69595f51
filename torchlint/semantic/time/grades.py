"""How hot a line is, as a grade with its evidence."""

from __future__ import annotations

import enum

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.module import Module


class Grade(enum.IntEnum):
    """How hot a line is; higher is hotter."""

    COLD = 0
    EPOCH = 1
    SAMPLE = 2
    FORWARD = 3
    EVAL = 4
    TRAIN = 5


@frozen
class Link:
    """One link in the chain of evidence that lies in another file, whose analysis may be gone."""

    text: str
    path: str
    row: int


@frozen
class Why:
    """One link in the chain of evidence.

    Args:
        text: what it says.
        node: the place in the file under analysis that it speaks of.
        elsewhere: the place in another file of the project, where it is one: that file's `Module`,
            and the node there, or its row.
    """

    text: str
    node: cst.CSTNode
    elsewhere: tuple[Module, cst.CSTNode] | Link | None = None


@frozen
class Heat:
    """How often a line runs.

    Args:
        grade: how hot it is.
        why: the evidence.
        loop: the hot loop in its own function, if the heat comes from one.
        untrained: whether it is an evaluation's only because ``self.training`` is false there, or
            a mode says so.
        optional: whether it takes an option that is off by default to run that often, or somebody
            who uses what nothing uses here.
    """

    grade: Grade
    why: tuple[Why, ...] = ()
    loop: cst.CSTNode | None = None
    untrained: bool = False
    optional: bool = False

    @property
    def order(self) -> tuple[float, Grade]:
        """Where it stands among the heats of all that calls a function: what each forward pass
        calls as well is no evaluation's alone, nor an option's."""
        if self.hot and (self.untrained or self.optional):
            return Grade.FORWARD - (0.6 if self.optional else 0.3), self.grade
        return self.grade, self.grade

    @property
    def hot(self) -> bool:
        """Runs every training step, evaluation batch or forward pass."""
        return self.grade >= Grade.FORWARD

    @property
    def train(self) -> bool:
        """Runs every training step."""
        return self.grade is Grade.TRAIN

    @property
    def step(self) -> bool:
        """Runs every step that trains, or every forward pass (which training calls)."""
        return self.grade in (Grade.TRAIN, Grade.FORWARD)


@frozen
class Caller:
    """A place in another file that calls a method on ``self``: how often, and whether autograd is
    off there."""

    heat: Heat
    no_grad: bool | None
    call: cst.Call
    module: Module


COLD = Heat(Grade.COLD)
