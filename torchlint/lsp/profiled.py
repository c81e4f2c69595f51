"""What a profile says of findings, beside those of open documents; read anew where it changes."""

from __future__ import annotations

import os
from collections.abc import Callable

from torchlint.base.errors import UsageError
from torchlint.base.finding import FileReport
from torchlint.report.measured import Measurements, read_measurements


class Profiled:
    """The findings of a report of ``torchlint profile``.

    Args:
        path: the report, absolute; none where empty.
        tell: is given each trouble with it, once.
    """

    def __init__(self, path: str, tell: Callable[[str], object]) -> None:
        self._path = path
        self._tell = tell
        self._read: tuple[int, int] | None = None
        self._known = Measurements(())

    def beside(self, report: FileReport) -> FileReport:
        """Return a report with what was measured of its findings."""
        if not self._path:
            return report
        try:
            state = os.stat(self._path)
            now = state.st_mtime_ns, state.st_size
        except OSError:
            now = (0, -1)
        if now != self._read:
            self._read = now
            try:
                self._known = read_measurements(self._path)
            except UsageError as error:
                self._known = Measurements(())
                self._tell(str(error))
        return self._known.beside(report)
