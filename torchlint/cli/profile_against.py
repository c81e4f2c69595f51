"""``torchlint profile --against``: the exit code of what became of a step, and its history."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint.base.errors import TraceError
from torchlint.cli.output import complain

if TYPE_CHECKING:
    from torchlint.profile.output.content import Content


def regressed(limit: float | None, content: Content) -> int:
    """Return the exit code of the comparison with an older trace, and say why it is not 0.

    Args:
        limit: by which part of itself a step may be shown to have become longer; None for any.
        content: of the report.

    Raises:
        TraceError: there are too few steps to compare.
    """
    if limit is None or content.against is None:
        return 0
    from torchlint.profile.change import LEAST

    found = content.change
    if found is None:
        raise TraceError(
            f"--fail-above: one of the traces has fewer than {LEAST} marked steps, so that they "
            "cannot be compared"
        )
    if found.longer <= limit:
        return 0
    complain(
        f"torchlint: a step takes {100 * found.longer:.1f} % longer than before, more than "
        f"{100 * limit:g} %"
    )
    return 1


def keep(path: str, content: Content, typed: Sequence[str]) -> None:
    """Append what became of a step to a file of ``--history``.

    Args:
        path: of the file.
        content: of the report.
        typed: the program that was run; empty where traces were read.
    """
    from torchlint.cli.history import append, now
    from torchlint.report.history import Entry
    from torchlint.source.revisions import described

    found, before = content.change, content.before
    if found is None or before is None:
        return
    entry = Entry(
        date=now(),
        command=shlex.join(typed) or "traces",
        machine=content.shown.device or "CPU",
        before=before.path,
        after=os.path.basename(content.shown.path),
        commit=described(os.getcwd()),
        verdict=found.verdict,
        ratio=found.ratio,
        ci95=found.bounds,
        ms=(found.before_ns / 1e6, found.now_ns / 1e6),
    )
    append(path, entry)
