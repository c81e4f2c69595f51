"""What part of the program the untimed runs go through, the same for the original and for every
variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torchlint.base.records import frozen
from torchlint.program.traffic import SKIPPED_STEPS
from torchlint.report.kit.words import pluralise
from torchlint.verify.options import Options

EVALUATION_BATCHES = 6
"""Batches of the first way of evaluation through a data set; of the later ones, and steps of later
epochs, fewer."""
LATER = 2
LEAST_STEPS = 6
PATIENCE_SHARE = 0.025
"""Of the budget, what the steps that were asked for may take, of each run; where they take longer
there are fewer, but so many."""
EXPLORE_SHARE = 0.1
"""Of the budget, what is spent on waiting for the places of fixes to run, at most."""


@frozen
class RunExtent:
    """How the untimed runs go.

    Args:
        steps: of training, at least.
        ledger: whether they run on the ledger's virtual device, and so give counts too.
        cut: how much of each way through a DataLoader is left; see inside/schedule.
        until: steps of training and batches of evaluation together after which a run is stopped; 0
            for its own end.
        trained: how many steps of training that is.
        epochs, evaluations, batches: how many epochs were cut short, and what evaluation there was.
        gap: why the ledger could not follow the program.
    """

    steps: int
    ledger: bool
    cut: Mapping[str, int]
    until: int = 0
    trained: int = 0
    epochs: int = 0
    evaluations: int = 0
    batches: int = 0
    gap: str = ""

    @property
    def compared(self) -> int:
        """Steps of training whose counts and results are compared."""
        return min(self.steps, self.trained or self.steps)

    def settings(self) -> dict[str, Any]:
        """Return the settings of a run that goes this way."""
        return {**self._common(), "until": self.until}

    def looking(self, options: Options, marks: Sequence[Any]) -> dict[str, Any]:
        """Return the settings of the run that finds out how far to go."""
        return {
            **self._common(),
            "least": min(self.steps, LEAST_STEPS),
            "patience": options.budget * PATIENCE_SHARE,
            "explore": options.budget * EXPLORE_SHARE,
            "marks": list(marks),
        }

    def _common(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "ledger": self.ledger,
            "cut": dict(self.cut),
            "warmup": SKIPPED_STEPS,
        }

    def unfit(self, record: Mapping[str, Any]) -> bool:
        """Say whether a run that went well is not what is wanted: compiled code runs eagerly under
        the ledger."""
        notes = (record.get("counts") or {}).get("notes", ())
        return self.ledger and any("torch.compile" in note for note in notes)

    def gone(self, record: Mapping[str, Any]) -> RunExtent:
        """Return this with what a run of it cut and evaluated."""
        return replace(self, trained=int(record.get("steps", 0)), **(record.get("schedule") or {}))

    @property
    def extent(self) -> str:
        """Say how far it goes: ``20 steps and 6 batches of evaluation``."""
        steps = pluralise(self.trained or self.steps, "step")
        end = "" if self.until else ", the whole program"
        if not self.batches:
            return f"{steps}{end}"
        return f"{steps} and {self.batches} batch{'es' * (self.batches != 1)} of evaluation{end}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what was cut: ``epochs shortened to 20 steps; evaluation ran 1 x, 6 batches in
        all``."""
        parts = []
        if 0 < self.trained < self.steps and self.until:
            parts.append(
                f"{pluralise(self.trained, 'step')} of {self.steps}, as they are long (--budget)"
            )
        if self.epochs:
            later = f", later ones to {self.cut['later']}" if self.epochs > 1 else ""
            parts.append(f"epochs shortened to {pluralise(self.cut['train'], 'step')}{later}")
        if self.batches:
            times = f"{self.evaluations or 1} x"
            parts.append(
                f"evaluation ran {times}, {self.batches} batch{'es' * (self.batches != 1)} in all"
            )
        if not parts:
            return ()
        return (
            f"results and transfers were compared on a part of the program: {'; '.join(parts)}",
        )


def tried(virtual: bool, options: Options) -> Iterator[RunExtent]:
    """Yield the ways to run the program, the best first."""
    cut = {"train": options.check_steps, "later": LATER, "evaluation": EVALUATION_BATCHES}
    if virtual:
        yield RunExtent(options.check_steps, True, cut)
    yield RunExtent(options.check_steps, False, cut)
    yield RunExtent(options.check_steps, False, {})
