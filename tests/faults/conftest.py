"""The fixture of the numbered faults; a test names its fault with ``@pytest.mark.fault("T01")``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import Fault
from tests.forked import Origin


@pytest.fixture
def fault(tmp_path: Path, copies: Origin | None, request: pytest.FixtureRequest) -> Iterator[Fault]:
    """Return the case's state, and record the fault's number and the invariants that broke for the
    score."""
    marker = request.node.get_closest_marker("fault")
    assert marker is not None, "name the fault: @pytest.mark.fault(...)"
    folder = tmp_path / "case"
    folder.mkdir()
    case = Fault(folder, origin=copies)
    yield case
    request.node.user_properties.append(("fault", marker.args[0]))
    request.node.user_properties.append(("broken", ",".join(case.broken)))
