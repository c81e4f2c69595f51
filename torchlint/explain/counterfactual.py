"""A file's analysis as it is, or as it would be if some answers were others; it notes what it is
asked.

A rule that is silent in the world as it is, and flags a line in one that differs by a single fact,
is silent because of that fact. Nothing here runs in a plain `check`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.calls import Arguments
from torchlint.semantic.module import Module, Question
from torchlint.semantic.time.grades import Grade, Heat, Why
from torchlint.semantic.time.loops import LoopKind
from torchlint.semantic.values.value import ACCEL, CUDA, Value

Key = tuple[object, ...]
"""A question with its arguments: nodes by identity, as they are compared by it."""


class Policy(enum.Enum):
    """Answers that are changed wherever they are asked for."""

    HOT = "every line runs every training step"
    ON_DEVICE = "what the line handles is a tensor on the accelerator"


@frozen
class Answer:
    """What was asked, the true answer, and the one that was given, which may be another."""

    question: str
    arguments: tuple[object, ...]
    key: Key
    answer: object
    given: object

    @property
    def changed(self) -> bool:
        """Whether another answer than the true one was given."""
        return self.given is not self.answer

    @property
    def subject(self) -> cst.CSTNode | None:
        """The node that the question is about."""
        return next((each for each in self.arguments if isinstance(each, cst.CSTNode)), None)


PACE = frozenset(("heat_of", "function_heat", "may_be_hot", "throttled"))
DEVICE = frozenset(("inferred", "on_accelerator", "named_device"))
_MAYBE_TENSOR = frozenset(("?", "tensor", "accumulated", "number", "ndarray", "batch"))
# What else an answer that is not simply yes or no could have been.
WIDE = frozenset(("is_benchmark", "unreached", "on_demand"))
"""Questions whose answer is imagined for all places at once, as rules also ask it of the
callers."""
_INSTEAD: Mapping[str, tuple[object, ...]] = {
    "iteration_count": (None,),
    "compiled_by": (None,),
    "device_effect": ("",),
    "loader_feeds": ("train",),
    "pins_memory": (False,),
    "loop_kind": (LoopKind.TRAIN, LoopKind.OTHER),
    "sample_cost": (True,),
    "loader_unit": (None,),
    "batches_go_to": (CUDA,),
    "moves_batches": (CUDA,),
    "conditions_around": ((),),
    "worked_on_beside": (None,),
    "worked_on_in_batch": (None,),
    "copied_up_beside": (None,),
}


# These tell what a rule is about at all: were `print(x)` a backward pass, much would be flagged.
_ABOUT = frozenset(
    (
        "is_array is_dataset is_debug is_interval in_lightning is_loader is_model_call is_network "
        "is_replica is_step makes_lightning_trainer makes_loader mentions runs_replica "
        "makes_training_arguments leaves is_size streams_rows has_main_guard is_exported "
        "read_as_number called_at_once same_modules_one_by_one suppresses"
    ).split()
)
_COUNTS = frozenset(("heat_of", "is_benchmark", "unreached"))
"""What is asked of the nodes that a check is about, see `torchlint.rule`."""


def otherwise(answer: Answer) -> tuple[object, ...]:
    """Return the answers that could have been given instead, as far as they can be imagined."""
    if answer.question in PACE or answer.question in DEVICE:
        return ()
    if answer.question in _INSTEAD:
        return tuple(each for each in _INSTEAD[answer.question] if each != answer.answer)
    if isinstance(answer.answer, Arguments):
        # What a call would give with one argument less, or without what ``**kwargs`` may add.
        bound = answer.answer
        less = [
            {other: arg for other, arg in bound.named.items() if other != name}
            for name in bound.named
        ]
        return (
            *((Arguments(bound.named, False),) if bound.open else ()),
            *(Arguments(named, bound.open) for named in less),
        )
    if answer.question == "keyword_argument":
        return (None,) * (answer.answer is not None)
    if isinstance(answer.answer, bool) and answer.question not in _ABOUT:
        return (not answer.answer,)
    return ()


def looks(asked: Sequence[Answer]) -> bool:
    """Say whether a check that asked this asked about the node, and not only what it is."""
    return any(
        answer.question != "may_be_hot" and (answer.question not in _ABOUT or bool(answer.answer))
        for answer in asked
    )


def holds(asked: Sequence[Answer]) -> bool:
    """Say whether something that a check asked holds, or it asked whether the node counts, which is
    asked of nothing else than what it is about."""
    return any(
        answer.question in _COUNTS
        or (
            answer.question != "may_be_hot"
            and (
                answer.answer.kind != "?"
                if isinstance(answer.answer, Value)
                else bool(answer.answer)
            )
        )
        for answer in asked
    )


class World(Module):
    """A `Module` that shares all it knows with another one and may give other answers.

    Args:
        module: the analysis of the file.
        subjects: the expressions of the line in question.
        policies: which answers are changed wherever they are asked for.
        imagined: single answers that are changed.
    """

    def __init__(
        self,
        module: Module,
        subjects: frozenset[cst.CSTNode] = frozenset(),
        policies: frozenset[Policy] = frozenset(),
        imagined: Mapping[Key, object] | None = None,
    ) -> None:
        vars(self).update(vars(module))
        self.counterfactual = self
        self.subjects = subjects
        self.policies = policies
        self.imagined = imagined or {}
        self.asked: list[Answer] = []
        self.pending: set[object] = set()

    def tell(self, question: Question, arguments: tuple[object, ...], truth: object) -> object:
        """Note a question with its true answer, and return the answer that is given."""
        name = question.name
        key: Key = (
            name,
            *(each if isinstance(each, (str, int, type(None))) else id(each) for each in arguments),
        )
        given = self.imagined.get(key, self.imagined.get((name,), truth))
        if given is truth and self.policies:
            given = self._changed(name, arguments, truth)
        self.asked.append(Answer(name, arguments, key, truth, given))
        return given

    def _changed(self, question: str, arguments: tuple[object, ...], truth: object) -> object:
        if Policy.HOT in self.policies and question in PACE:
            return self._hot(question, arguments, truth)
        if Policy.ON_DEVICE in self.policies and question in DEVICE:
            if question == "on_accelerator":
                return truth or True
            subject = arguments[0] if arguments else None
            if subject not in self.subjects:
                return truth
            if question == "named_device":
                return truth if truth in (CUDA, ACCEL) else CUDA
            return self._moved(truth)
        return truth

    def _hot(self, question: str, arguments: tuple[object, ...], truth: object) -> object:
        if isinstance(truth, Heat):
            node = next(each for each in arguments if isinstance(each, cst.CSTNode))
            loop = next(iter(self.loops(node)), None) if question == "heat_of" else None
            return (
                truth
                if truth.grade is Grade.TRAIN
                else Heat(Grade.TRAIN, (Why("as imagined", node),), loop)
            )
        wanted = question == "may_be_hot"
        return truth if truth is wanted else wanted

    def _moved(self, truth: object) -> object:
        if not isinstance(truth, Value) or truth.kind not in _MAYBE_TENSOR:
            return truth
        if truth.tensor and (
            truth.device in (CUDA, ACCEL) or (truth.device is None and truth.origin)
        ):
            return truth
        return Value(
            "tensor",
            device=CUDA,
            origin="model",
            grad=truth.grad,
            rank=0 if truth.kind == "number" else None,
        )
