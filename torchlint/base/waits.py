"""What a finding is among the waits of its step, by the effect that its rule declares: which of
them messages name, whose fixes are kept back, and which are no more than hints.

The first of a step's waits to be fixed gains little as long as another stays.
"""

from __future__ import annotations

from dataclasses import replace

from torchlint.base.finding import Severity
from torchlint.base.records import frozen

_EVERY = frozenset(Severity)
MOST_NAMED = 40
"""Waits of one file from which on none names the others: each would look at each."""


@frozen
class WaitPolicy:
    """What becomes of a finding beside the waits of its step, and of them beside it.

    Args:
        named: the severities at which the waits of its step name it, and it names them.
        grouped: whether it waits by itself: of those of one statement all are fixed, or none.
        kept_back: whether its fix is only shown, or unsafe, while another wait of the step stays.
        keeps_back: whether fixes of other waits are only shown, or unsafe, while it stays.
        together: whether all of one rule in a function have one fix, as in a loop all have.
        hint: whether it is an info where the step waits in any case.
        hint_as_row: whether that is so of a row of numbers: what is larger takes its time as well.
    """

    named: frozenset[Severity] = frozenset()
    grouped: bool = False
    kept_back: bool = False
    keeps_back: bool = True
    together: bool = False
    hint: bool = False
    hint_as_row: bool = False


_POLICIES = {
    "wait": WaitPolicy(named=_EVERY, grouped=True, kept_back=True, together=True, hint=True),
    "copy": WaitPolicy(named=_EVERY, kept_back=True, together=True, hint=True),
    "host": WaitPolicy(kept_back=True, together=True),
    "upload": WaitPolicy(
        named=frozenset((Severity.WARNING,)), keeps_back=False, together=True, hint_as_row=True
    ),
}
_OTHER = WaitPolicy()
_OF_A_WAIT = {
    effect: replace(policy, named=_EVERY, grouped=True, together=True, hint=True)
    for effect, policy in {**_POLICIES, "": _OTHER}.items()
} | {"memory": WaitPolicy(named=_EVERY, grouped=True)}


def policy_of(effect: str, *, waits: bool) -> WaitPolicy:
    """Return the policy for a finding whose rule has an effect; `waits` says that its cause is a
    wait, whatever the effect is."""
    if waits:
        return _OF_A_WAIT.get(effect, _OF_A_WAIT[""])
    return _POLICIES.get(effect, _OTHER)
