"""A torchlint to run; and what one test leaves behind in torch's switches is taken back before the
next one."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import torchlint
from tests.forked import Origin, origin

if TYPE_CHECKING:
    from tests.verify.prepared import Prepared
    from torchlint.verify.paired.sessions import Session

# A shell starts what it puts in the background with signals ignored, nohup too, and children would
# inherit that.
for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)


# Most tests start a process. Without bytecode each would compile all of torchlint that it imports
# again, which takes as long as all the rest of a short run.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# A check makes many objects that all live until it ends: looking for garbage among them, among all
# tests and among all of torch is a fifth of the time of the tests that check in their own process.
gc.set_threshold(100_000, 20, 100)


BEING_WRITTEN = shutil.ignore_patterns("*.pyc.*")
"""What a copy of the package leaves out: bytecode that another process is writing."""


STARTING = frozenset({"live", "process", "runner", "site", "verify"})
"""Fixtures that start a program from nothing, or torch: whoever asks for one is slow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what needs one of `STARTING`."""
    for item in items:
        if not STARTING.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Never look for garbage among the tests and what they import; and let torch work alone: on
    small tensors its threads wait for each other most of the time."""
    gc.collect()
    gc.freeze()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the package: a change of its code between two runs would void the
    first one's cache."""
    folder = tmp_path_factory.mktemp("package")
    source = Path(torchlint.__file__).parent
    shutil.copytree(source, folder / "torchlint", ignore=BEING_WRITTEN)
    return folder


@pytest.fixture(scope="session")
def copies(package: Path) -> Iterator[Origin | None]:
    """What runs of that copy are forks of."""
    with origin(package) as found:
        yield found


@pytest.fixture(scope="session")
def live() -> Iterator[Session]:
    """A session of verify with one zygote: torch is imported once for all tests that fork from
    it."""
    if sys.platform == "win32":
        pytest.skip("zygotes fork")
    pytest.importorskip("torch")
    from torchlint.program.machine.workspace import Workspace
    from torchlint.verify.options import Options
    from torchlint.verify.paired.rule_mode import PRELOAD
    from torchlint.verify.paired.sessions import session

    with Workspace() as made, session(Options(launches=1, pairs=8), made, preload=PRELOAD) as found:
        yield found


@pytest.fixture(scope="session")
def prepared() -> Iterator[Prepared]:
    """What zygotes are forked from, and programs, where a test asks for that."""
    from tests.verify.prepared import Prepared

    found = Prepared()
    yield found
    found.close()


def switches(torch: Any) -> list[tuple[Callable[[], Any], Callable[[Any], object]]]:
    """Return how to read and how to set each switch that documentation examples touch."""
    return [
        (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        (torch.is_grad_enabled, torch._C._set_grad_enabled),
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
        (
            lambda: torch.backends.cudnn.benchmark,
            lambda on: setattr(torch.backends.cudnn, "benchmark", on),
        ),
        (
            lambda: torch.backends.cudnn.deterministic,
            lambda on: setattr(torch.backends.cudnn, "deterministic", on),
        ),
        (torch.get_num_threads, torch.set_num_threads),
    ]


@pytest.fixture(autouse=True)
def cpu_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """End a test that is marked with ``cpu(seconds)`` when it has taken so much, where the system
    can."""
    marker = request.node.get_closest_marker("cpu")
    if marker is None:
        yield
        return
    limit, before = marker.args[0], time.process_time()

    def late(*_: object) -> None:
        pytest.fail(f"took more than {limit} s of CPU time")

    if not hasattr(signal, "setitimer"):
        yield
        assert time.process_time() - before < limit
        return
    old = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


@pytest.fixture(autouse=True)
def torch_as_before() -> Iterator[None]:
    """Put torch's switches back; and fail a test that leaves a mode of torch's on, which each later
    test of the process would run under. Without torch in the process there is nothing to do."""
    torch = sys.modules.get("torch")
    before = [] if torch is None else [(read(), write) for read, write in switches(torch)]
    yield
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if before:
        for (value, write), (read, _) in zip(before, switches(torch), strict=True):
            if read() != value:
                write(value)
    left = []
    while torch._C._len_torch_function_stack():
        left.append(torch._C._pop_torch_function_stack())
    while torch._C._len_torch_dispatch_stack():
        left.append(torch._C._pop_torch_dispatch_stack(None))
    assert not left, f"modes left on: {left}"
