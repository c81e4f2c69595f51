"""What a worker is asked to do for one file, by the settings that hold for it."""

from __future__ import annotations

from torchlint.catalog.rules import Catalog
from torchlint.engine.job import Job
from torchlint.settings.keys import Settings
from torchlint.settings.load import codes_for, unfixable
from torchlint.source.document import Document


def job_for(document: Document, relative: str, settings: Settings, catalog: Catalog) -> Job:
    """Return the job that checks a file; what more is wanted of it, `dataclasses.replace` adds.

    Args:
        document: the file.
        relative: its posix path under the project root.
        settings: those that hold for it.
        catalog: the rules.
    """
    return Job(
        document,
        relative,
        codes_for(settings, catalog, relative),
        settings.target_torch,
        settings.accelerator,
        settings.assume_hot,
        line_length=settings.line_length,
        root=settings.root,
        torch_declared=bool(settings.target_torch_from),
        unfixable=unfixable(settings, catalog),
        strict=settings.safe == "strict",
        library_infos=settings.library_infos,
        newest_torch=settings.newest_torch,
        contract=settings.no_waits,
    )
