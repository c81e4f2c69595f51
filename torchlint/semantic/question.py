"""Questions: the functions that decide facts, remembered in one place, with the words in which an
answer is told.

A question is a function ``(module, …)`` in the file that decides it. What it has answered is
remembered with the file, and freed with it. While it is being answered, asking it again gives what
is not known, so that no circle is endless; an answer found on such a way is kept only if it was the
one that was asked for.

``torchlint check --explain`` imagines other answers to find the one that decides
(`Module.counterfactual`). It can do so for questions that have words: in the sentences ``{0}`` is
the source of what was asked about, and ``{answer}`` the answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from torchlint.semantic.module import Module, Question

P = ParamSpec("P")
R = TypeVar("R")
Asked = Callable[Concatenate[Module, P], R]

_PENDING, _NEW = object(), object()

QUESTIONS: dict[str, Question] = {}
"""All questions of the files that have been imported, by name."""


def question(
    *,
    yes: str = "",
    no: str = "",
    ground: bool = False,
    remember: bool = True,
    circular: object = None,
) -> Callable[[Asked[P, R]], Asked[P, R]]:
    """Make a question of a function whose first parameter is the `Module`.

    Args:
        yes: the sentence for an answer that holds something to be so; without it `--explain` never
            speaks of it.
        no: the sentence for one that does not.
        ground: whether it rests on what is written alone, so that no imagined answer of another
            question enters.
        remember: False where working it out costs no more than finding it in the memory.
        circular: the answer where a circle comes back to what is being asked.
    """

    def mark(decide: Asked[P, R]) -> Asked[P, R]:
        title = " ".join((decide.__doc__ or "").partition("\n\n")[0].split())
        about = Question(decide.__name__, decide.__module__, title, yes, no)
        assert QUESTIONS.setdefault(about.name, about) == about, (
            f"two questions are called {about.name}"
        )
        if not yes and not remember:
            return decide
        several = str(decide.__annotations__["return"]).startswith("Iterator[")

        def ask(module: Module, *args: P.args, **named: P.kwargs) -> Any:
            if module.counterfactual is not None:
                return imagined(module, *args, **named)
            key: Any = (args, *named.items()) if named else args
            known = module.answers[decide]
            found = known.get(key, _NEW)
            if found is _PENDING:
                module.circles += 1
                return circular
            if found is _NEW:
                known[key] = _PENDING
                circles, outermost = module.circles, not module.asking
                module.asking += 1
                try:
                    found = decide(module, *args, **named)
                    found = tuple(cast(Any, found)) if several else found
                finally:
                    module.asking -= 1
                    del known[key]
                # Where a circle was cut on the way, it may know more when asked from elsewhere.
                if outermost or module.circles == circles:
                    known[key] = found
            return iter(found) if several else found

        def ask_anew(module: Module, *args: P.args, **named: P.kwargs) -> Any:
            if module.counterfactual is not None:
                return imagined(module, *args, **named)
            return decide(module, *args, **named)

        def imagined(module: Module, *args: P.args, **named: P.kwargs) -> Any:
            world = module.counterfactual
            assert world is not None
            key = (decide, *args, *named.items()) if remember else None
            if key is not None and key in world.pending:
                return circular
            world.pending.add(key)
            try:
                truth: Any = (
                    asked(module.ground, *args, **named)
                    if ground
                    else decide(module, *args, **named)
                )
                truth = tuple(truth) if several else truth
            finally:
                world.pending.discard(key)
            given: Any = world.tell(about, (*args, *named.values()), truth) if yes else truth
            return iter(given) if several else given

        asked = cast(Asked[P, R], functools.update_wrapper(ask if remember else ask_anew, decide))
        return asked

    return mark
