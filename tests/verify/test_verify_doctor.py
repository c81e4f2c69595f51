"""The doctor, asked of real and of made-up interpreters, and the facts of the machine read from
made-up files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from torchlint.program.errors import NoTorchError
from torchlint.program.inside import probe
from torchlint.program.machine import host, interpreter
from torchlint.program.machine.doctor import Doctor, Gpu, diagnose, render, require_torch
from torchlint.program.machine.host import Host
from torchlint.verify.errors import OriginalFailedError

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="the made-up interpreters are shell scripts"
)

QUIET = Host(
    cores=4,
    loadavg=0.5,
    psi_cpu_some_avg10=1.25,
    landlock=7,
    can_freeze=True,
    folder="/tmp",
    disk_free=3 * 2**30,
    memory_free=512 * 2**20,
)
BARE = Host(
    cores=1,
    loadavg=None,
    psi_cpu_some_avg10=None,
    landlock=0,
    can_freeze=False,
    folder="C:\\Temp",
    disk_free=None,
    memory_free=None,
)
CPU = Doctor(
    python="python3",
    host=QUIET,
    executable="/usr/bin/python3",
    python_version="3.11.7",
    torch="2.13.0",
    build="the CPU",
    no_gpu="torch is built without CUDA",
    kineto=True,
    threads=4,
)
CUDA = dataclasses.replace(
    CPU,
    build="CUDA 13.0",
    gpus=(Gpu("H200", 139 * 2**30, 138 * 2**30),),
    no_gpu="",
    no_gpu_profile="",
)
FAKE_TORCH = """
import types, warnings
__version__ = "2.13.0"
version = types.SimpleNamespace(cuda="13.0")
def get_num_threads(): return 3
kind = types.SimpleNamespace(CUDA="cuda", CPU="cpu")
class Profile:
    def __init__(self, activities): pass
    def __enter__(self): return self
    def __exit__(self, *args): pass
    def events(self): return [types.SimpleNamespace(device_type=seen) for seen in ["cpu", *SEEN]]
autograd = types.SimpleNamespace(kineto_available=lambda: True, DeviceType=kind)
profiler = types.SimpleNamespace(
    ProfilerActivity=kind, supported_activities=lambda: SUPPORTED, profile=Profile)
def ones(n, device): return types.SimpleNamespace(add=lambda x: None)
def refused(index): raise RuntimeError("busy")
cuda = types.SimpleNamespace(
    is_available=lambda: True, device_count=lambda: 2, synchronize=lambda: None,
    get_device_properties=lambda i: types.SimpleNamespace(name=f"GPU{i}", total_memory=i + 2**30),
    mem_get_info=lambda i: (2**20, 2**30) if i else refused(i))
SEEN, SUPPORTED = ["cuda"], {"cuda", "cpu"}
"""


def script(folder: Path, text: str) -> str:
    """Return a program made of shell text."""
    path = folder / "interpreter"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def with_torch(folder: Path, torch: str) -> str:
    """Return a real Python that finds this text as torch."""
    (folder / "lib").mkdir()
    (folder / "lib" / "torch.py").write_text(torch, encoding="utf-8")
    return script(folder, f"PYTHONPATH='{folder}/lib' exec '{sys.executable}' \"$@\"")


def runs(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    with contextlib.suppress(FileNotFoundError):  # it is gone
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
            != "Z"
        )
    return False


def said(number: int, **facts: object) -> str:
    return f"echo '{json.dumps({'torchlint_probe': number, **facts})}'"


# Interpreters


@pytest.mark.slow
def test_this_interpreter_is_described() -> None:
    torch = pytest.importorskip("torch")
    found = diagnose(sys.executable)
    assert found.problem == ""
    assert found.executable == sys.executable
    assert found.python_version == ".".join(map(str, sys.version_info[:3]))
    assert found.torch == torch.__version__
    assert found.kineto is torch.autograd.kineto_available()
    assert len(found.gpus) == torch.cuda.device_count()
    assert found.threads is not None
    assert found.threads >= 1
    require_torch(found)


def test_missing_interpreter(tmp_path: Path) -> None:
    missing = str(tmp_path / "python9")
    found = diagnose(missing, tmp_path)
    assert found.problem == f"no interpreter {missing}; use --python"
    assert found.python_version is None
    assert found.host.folder == str(tmp_path)
    with pytest.raises(NoTorchError, match="no interpreter") as caught:
        require_torch(found)
    assert caught.value.exit_code == 4


def test_errors_have_their_own_exit_codes() -> None:
    assert (NoTorchError.exit_code, OriginalFailedError.exit_code) == (4, 3)


def test_a_folder_is_no_interpreter(tmp_path: Path) -> None:
    expected = f"{tmp_path} is a folder; give --python the interpreter in it, such as bin/python"
    assert diagnose(str(tmp_path)).problem == expected


def test_a_file_that_cannot_be_run(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("hello", encoding="utf-8")
    assert diagnose(str(text)).problem == f"{text} cannot be run (Permission denied); use --python"


def test_a_name_with_a_null_byte() -> None:
    assert diagnose("py\0thon").problem.startswith(r"py\x00thon cannot be run (")


@pytest.mark.parametrize(
    "text", ["exit 0", "exit 7", "echo hello", "echo '[1]'", "echo '{\"a\": 1}'"]
)
def test_a_program_that_is_no_python(tmp_path: Path, text: str) -> None:
    program = script(tmp_path, text)
    assert diagnose(program).problem == f"{program} is no Python that could be asked; use --python"


def test_a_shell_does_not_run_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "import"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for shell in filter(os.path.exists, ["/bin/sh", "/bin/bash"]):
        assert diagnose(shell).problem == f"{shell} is no Python that could be asked; use --python"
    assert not (tmp_path / "ran").exists()


def test_old_python_is_told_its_version(tmp_path: Path) -> None:
    program = script(
        tmp_path, said(1, python="3.9.18") + "\n" + said(2, torch=None, missing=True, error="x")
    )
    assert diagnose(program).problem == f"{program} is Python 3.9.18; verify needs 3.10 or newer"


@pytest.mark.parametrize(
    ("torch", "problem"),
    [
        (
            "raise ModuleNotFoundError('none', name='torch')",
            "no torch in {0}; use --python, or {0} -m pip install torch",
        ),
        (
            "import a_module_that_is_missing",
            (
                "torch in {} cannot be imported: ModuleNotFoundError: No module named "
                "'a_module_that_is_missing'"
            ),
        ),
        (
            "raise ImportError('libcudart.so: \\x1b[31mno\\nmore')",
            r"torch in {} cannot be imported: ImportError: libcudart.so: \x1b[31mno",
        ),
        ("raise SystemExit(0)", "torch in {} cannot be imported: SystemExit: 0"),
        (
            "pass",
            (
                "torch in {} cannot be imported: AttributeError: module 'torch' has no attribute "
                "'__version__'"
            ),
        ),
        (
            "import os; os._exit(3)",
            "torch in {} ends the interpreter on import (exit code 3); use --python",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            "torch in {} crashes on import (SIGKILL); use --python",
        ),
    ],
)
def test_torch_that_cannot_be_imported(tmp_path: Path, torch: str, problem: str) -> None:
    python = with_torch(tmp_path, torch)
    found = diagnose(python)
    assert found.problem == problem.format(python)
    assert found.torch is None
    assert "gpu" not in render(found)


@pytest.mark.parametrize(
    ("version", "fits"),
    [("1.13.1", False), ("2.1.2+cu121", False), ("2.2.0", True), ("2.13.0a0", True)],
)
def test_old_torch_is_refused(tmp_path: Path, version: str, fits: bool) -> None:
    python = with_torch(tmp_path, FAKE_TORCH + f"__version__ = {version!r}")
    assert diagnose(python).problem == (
        "" if fits else f"torch {version} in {python}; verify needs 2.2 or newer"
    )


def test_what_the_import_prints_is_not_taken_for_an_answer(tmp_path: Path) -> None:
    python = with_torch(
        tmp_path, FAKE_TORCH + "print('{\"torchlint_probe\": 9}')\nprint('no line break', end='')"
    )
    assert diagnose(python).threads == 3


def test_the_probe_lends_torch_no_modules(tmp_path: Path) -> None:
    python = with_torch(
        tmp_path,
        FAKE_TORCH
        + (
            "try:\n import imports\n threads = 99\nexcept ImportError:\n threads = "
            "3\nget_num_threads = lambda: threads"
        ),
    )
    assert Path(interpreter.__file__).parents[1].joinpath("inside", "imports.py").exists()
    assert diagnose(python).threads == 3


def test_silence_ends(tmp_path: Path) -> None:
    program = script(tmp_path, "exec sleep 30")
    assert (
        diagnose(program, timeout=0.2).problem
        == f"{program} did not answer within 0.2 s; use --python"
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_a_silent_interpreter_started_ends_with_it(tmp_path: Path) -> None:
    program = script(tmp_path, f"sleep 600 & echo $! >{tmp_path}/pid; wait")
    assert "did not answer" in diagnose(program, timeout=2).problem
    assert not runs(int((tmp_path / "pid").read_text(encoding="ascii")))


def test_an_import_that_hangs_ends(tmp_path: Path) -> None:
    program = script(tmp_path, said(1, python="3.11.7") + "\nsleep 30")
    found = diagnose(program, timeout=2)
    assert found.problem == f"torch in {program} did not load within 2 s; use --python"
    assert found.python_version == "3.11.7"


def test_a_process_that_keeps_the_output_open_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "_END_S", 0.2)
    start = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '30'], "
        "start_new_session=True).pid, file=sys.stderr)"
    )
    program = script(tmp_path, f'"{sys.executable}" -S -c "{start}" 2>{tmp_path}/pid\nexit 0')
    try:
        assert "did not answer" in diagnose(program, timeout=2).problem
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text(encoding="ascii")), signal.SIGKILL)


# Devices


def test_devices_of_a_stand_in_for_torch(tmp_path: Path) -> None:
    found = diagnose(with_torch(tmp_path, FAKE_TORCH))
    assert found.gpus == (Gpu("GPU0", 2**30, None), Gpu("GPU1", 2**30 + 1, 2**20))
    assert (found.build, found.no_gpu, found.no_gpu_profile, found.kineto) == (
        "CUDA 13.0",
        "",
        "",
        True,
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("SUPPORTED = {'cpu'}", "torch is built without CUPTI"),
        ("SEEN = []", "no GPU event was recorded; CUPTI may need permission"),
        ("cuda.synchronize = lambda: 1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_profiler_that_does_not_see_the_gpu(tmp_path: Path, change: str, why: str) -> None:
    found = diagnose(with_torch(tmp_path, FAKE_TORCH + change))
    assert found.no_gpu_profile == why
    assert f"Kineto, without the GPU ({why}): profiles hold CPU time only" in render(found)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("cuda.is_available = lambda: False", "no device or driver was found"),
        (
            "cuda.is_available = lambda: bool(warnings.warn('driver too old\\n(11.0)'))",
            "driver too old",
        ),
        ("cuda.get_device_properties = lambda i: 1 / 0", "ZeroDivisionError: division by zero"),
        ("cuda.is_available = lambda: False; version.cuda = None", "torch is built without CUDA"),
    ],
)
def test_why_there_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, why: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = diagnose(with_torch(tmp_path, FAKE_TORCH + change))
    assert (found.gpus, found.no_gpu, found.no_gpu_profile) == ((), why, None)


@pytest.mark.parametrize(("value", "hides"), [("", True), ("-1", True), ("0", False)])
def test_hidden_devices_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, hides: bool
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    found = diagnose(with_torch(tmp_path, FAKE_TORCH + "cuda.is_available = lambda: False"))
    assert (found.no_gpu == "CUDA_VISIBLE_DEVICES hides all devices") is hides


def test_rocm_is_named(tmp_path: Path) -> None:
    found = diagnose(with_torch(tmp_path, FAKE_TORCH + "version.cuda = None; version.hip = '6.4'"))
    assert found.build == "ROCm 6.4"


def test_probe_prints_two_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "torch_facts", lambda: {"torchlint_probe": 2, "torch": "é"})
    monkeypatch.setattr(sys, "path", [str(Path(probe.__file__).parent), *sys.path])
    probe.main()
    out = capsys.readouterr().out
    assert out.isascii()
    assert [json.loads(line)["torchlint_probe"] for line in out.split("\n") if line] == [1, 2]


# The text


def test_text_of_a_machine_without_a_gpu() -> None:
    assert render(CPU).splitlines() == [
        "interpreter  python3 (/usr/bin/python3): Python 3.11.7",
        "torch        2.13.0, built for the CPU",
        (
            "gpu          none (torch is built without CUDA): times are CPU times; syncs and bytes "
            "are predicted"
        ),
        "profiler     Kineto: profiles hold CPU time",
        "threads      torch takes 4; verify gives it 1 unless --threads says otherwise",
        "cores        4: variants take turns, so one is enough for --threads 1",
        "load         0.5: quiet enough",
        "pressure     1.2 % of the last 10 s something waited for a core; waiting shows as noise",
        (
            "freeze       SIGSTOP: the variants that wait are frozen, so their workers do not run "
            "ahead"
        ),
        (
            "isolation    Landlock 7: programs write to their own copy only (chmod and file times "
            "are not stopped)"
        ),
        "disk         3.0 GiB free in /tmp: each variant is a copy of the program there",
        (
            "memory       512 MiB free: all variants stay loaded; fewer at a time where they do "
            "not "
            "fit"
        ),
        "",
        "verify can run here",
    ]


def test_text_of_a_gpu() -> None:
    lines = render(CUDA).splitlines()
    assert lines[1] == "torch        2.13.0, built for CUDA 13.0"
    assert (
        lines[2]
        == "gpu          H200, 139.0 GiB, 138.0 GiB free: times, syncs and bytes are the device's"
    )
    assert lines[3] == "profiler     Kineto and CUPTI: profiles hold CPU and GPU time"
    unread = dataclasses.replace(CUDA, gpus=(Gpu("H200", 2**30, None),))
    assert "H200, 1.0 GiB: times" in render(unread)


def test_text_of_a_bare_machine() -> None:
    text = render(dataclasses.replace(CPU, host=BARE, kineto=False))
    assert (
        "profiler     torch is built without Kineto: no profile, so no milliseconds a finding"
        in text
    )
    assert "load         not known here" in text
    assert "pressure     not known here" in text
    assert (
        "freeze       no SIGSTOP: variants run one after the other in fresh processes; times are "
        "coarse"
    ) in text
    assert (
        "isolation    no Landlock: programs run in a copy, but writes to absolute paths are not "
        "stopped"
    ) in text
    assert "disk         not known in C:\\Temp" in text
    assert "memory       not known:" in text


def test_text_of_a_problem_ends_with_it() -> None:
    found = Doctor(python="py\x1bthon", host=QUIET, problem="no interpreter here; use --python")
    lines = render(found).splitlines()
    assert lines[0] == r"interpreter  py\x1bthon: no answer"
    assert lines[1].startswith("cores")
    assert lines[-1] == "verify cannot run: no interpreter here; use --python"


@pytest.mark.parametrize(
    ("load", "cores", "busy"), [(2.0, 4, False), (2.1, 4, True), (0.6, 1, True), (None, 1, False)]
)
def test_load_over_half_the_cores_is_a_warning(load: float | None, cores: int, busy: bool) -> None:
    machine = dataclasses.replace(QUIET, loadavg=load, cores=cores)
    expected = (
        f"load average {load} on {cores} cores in the last minute: times will be noisy; stop "
        "other work (or wait, where a run of torchlint has just ended)"
        if busy
        else ""
    )
    assert machine.busy == expected
    assert (expected or "load         ") in render(dataclasses.replace(CPU, host=machine))


# The machine


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="cgroups are Linux's")
@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("max 100000", 8),
        ("", 8),
        ("1 0", 8),
        ("9900000 100000", 8),
    ],
)
def test_cores_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    (tmp_path / "cpu.max").write_text(quota, encoding="ascii")
    assert host.cores(tmp_path) == cores


def test_cores_without_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert host.cores(tmp_path) == 3


def test_pressure(tmp_path: Path) -> None:
    assert host.cpu_pressure(tmp_path) is None
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text(
        (
            "some avg10=12.34 avg60=1.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 "
            "avg300=0.00 "
            "total=0\n"
        ),
        encoding="ascii",
    )
    assert host.cpu_pressure(tmp_path) == 12.34


def test_load_average_is_none_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.25, 1.0, 2.0))
    assert host.load_average() == 0.25
    monkeypatch.delattr(os, "getloadavg")
    assert host.load_average() is None


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, None),
        ({"meminfo": "MemTotal: 9 kB\nMemAvailable:    100 kB\n"}, 102400),
        (
            {"meminfo": "MemAvailable: 100 kB\n", "memory.max": "max\n", "memory.current": "5\n"},
            102400,
        ),
        (
            {
                "meminfo": "MemAvailable: 100 kB\n",
                "memory.max": "50000\n",
                "memory.current": "20000\n",
            },
            30000,
        ),
        (
            {
                "memory.max": "50000",
                "memory.current": "20000",
                "memory.stat": "file 9\ninactive_file 500\n",
            },
            30500,
        ),
        ({"memory.max": "10", "memory.current": "20"}, 0),
        (
            {
                "meminfo": "MemAvailable: 1 kB\n",
                "memory.max": "50000\n",
                "memory.current": "20000\n",
            },
            1024,
        ),
    ],
)
def test_memory(tmp_path: Path, files: dict[str, str], free: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    assert host.memory_free(tmp_path, tmp_path) == free


def test_disk_of_a_folder_to_be_made(tmp_path: Path) -> None:
    free = host.disk_free(tmp_path / "not" / "yet")
    assert free is not None
    assert free > 0


def test_this_machine_has_all_facts(tmp_path: Path) -> None:
    found = host.look(tmp_path)
    assert found.cores >= 1
    assert found.can_freeze
    assert found.folder == str(tmp_path)
    assert found.landlock >= 0


@pytest.mark.slow
def test_an_interpreter_that_nobody_listened_to_leaves_no_pipe() -> None:
    with interpreter.Asked(sys.executable) as asked:
        process = asked._process
        assert process is not None
        assert process.stdout is not None
        process.wait()
    assert process.stdout.closed
