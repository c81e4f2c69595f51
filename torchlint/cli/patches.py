"""Patches of changed files that apply."""

from __future__ import annotations

import dataclasses

from torchlint.base.finding import FileReport
from torchlint.report.diff import render_diff
from torchlint.report.run_report import RunReport
from torchlint.source.document import Document, encode


def patch_bytes(run: RunReport, file: FileReport, document: Document) -> bytes:
    """Return the patch of one file with its lines as the bytes that the file has, so that it
    applies.

    Of a notebook these are the lines of its JSON text.

    Args:
        run: the run, for the places that names are relative to.
        file: the file before and after.
        document: the file as it was read.
    """
    before, after = (
        data.decode(document.encoding) for data in (document.data, encode(document, file.after))
    )
    whole = dataclasses.replace(file, before=before, after=after)
    text = render_diff(dataclasses.replace(run, files=(whole,)), for_eyes=False)
    return text.encode(document.encoding, "backslashreplace")
