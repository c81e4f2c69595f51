"""What a worker is asked to explain; libcst and the rules are imported only there."""

from __future__ import annotations

from collections.abc import Mapping

from torchlint.base.explanation import Asked
from torchlint.base.finding import FileReport
from torchlint.base.records import frozen
from torchlint.engine.job import Job


@frozen
class Explainer:
    """Analyses a job and explains what is asked about its file, see `torchlint.run.run.run`."""

    asked: Mapping[str, Asked]
    """By the name of the file as the user gave it."""

    def __call__(self, job: Job) -> FileReport:
        from torchlint.explain.file import explain

        return explain(job, self.asked[job.document.filename])
