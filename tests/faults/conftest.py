"""The fixture of the numbered faults; a test names its fault with ``@pytest.mark.fault("T01")``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import torchlint
from tests.faults.harness import Fault
from tests.forked import Origin, origin


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the package: a change of its code between two runs would void the first one's cache."""
    folder = tmp_path_factory.mktemp("package")
    source = Path(torchlint.__file__).parent
    shutil.copytree(source, folder / "torchlint", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="session")
def copies(package: Path) -> Iterator[Origin | None]:
    """What runs of that copy are forks of."""
    with origin(package) as found:
        yield found


@pytest.fixture
def fault(tmp_path: Path, copies: Origin | None, request: pytest.FixtureRequest) -> Iterator[Fault]:
    """Return the case's state, and record the fault's number and the invariants that broke for the score."""
    marker = request.node.get_closest_marker("fault")
    assert marker is not None, "name the fault: @pytest.mark.fault(...)"
    folder = tmp_path / "case"
    folder.mkdir()
    case = Fault(folder, origin=copies)
    yield case
    request.node.user_properties.append(("fault", marker.args[0]))
    request.node.user_properties.append(("broken", ",".join(case.broken)))
