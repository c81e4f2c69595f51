"""The variables of child processes: what is redirected, silenced, dropped, fixed and kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.program.machine.environment import RUN_VARIABLE, child_environment, is_credential

REDIRECTED = [
    "TMPDIR",
    "XDG_CACHE_HOME",
    "CUDA_CACHE_PATH",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "NUMBA_CACHE_DIR",
    "MPLCONFIGDIR",
    "HF_MODULES_CACHE",
    "WANDB_DIR",
    "TRACKIO_DIR",
]
SET = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "offline",
    "SWANLAB_MODE": "disabled",
    "MPLBACKEND": "Agg",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
CREDENTIALS = [
    "HF_TOKEN",
    "GITHUB_TOKEN",
    "WANDB_API_KEY",
    "COMET_API_KEY",
    "NEPTUNE_API_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_PROFILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_CLIENT_SECRET",
    "MLFLOW_TRACKING_PASSWORD",
    "DB_PASSWORD",
    "PGPASSWORD",
    "MY_SECRET",
    "OPENAI_APIKEY",
    "DOCKER_AUTH_CONFIG",
    "aws_session_token",
]
HARMLESS = [
    "PATH",
    "TOKENIZERS_PARALLELISM",
    "CUDA_VISIBLE_DEVICES",
    "KEYBOARD",
    "MONKEY",
    "LD_LIBRARY_PATH",
    "AUTHOR",
]


def environment(parent: dict[str, str], workspace: Path, **extra: str) -> dict[str, str]:
    return child_environment(parent, workspace, threads=None, extra=extra)


@pytest.mark.parametrize("name", REDIRECTED)
def test_caches_and_temporary_files_go_into_the_workspace(tmp_path: Path, name: str) -> None:
    found = Path(environment({name: "/home/me/there"}, tmp_path)[name])
    assert found.is_relative_to(tmp_path)
    assert found.is_dir()


@pytest.mark.parametrize("name", SET)
def test_settings(tmp_path: Path, name: str) -> None:
    assert environment({name: "other"}, tmp_path)[name] == SET[name]


@pytest.mark.parametrize("name", [*REDIRECTED, *SET, *CREDENTIALS, "PLAIN", "MLFLOW_TRACKING_URI"])
def test_extra_wins(tmp_path: Path, name: str) -> None:
    assert environment({name: "theirs"}, tmp_path, **{name: "asked for"})[name] == "asked for"


@pytest.mark.parametrize("name", CREDENTIALS)
def test_credentials_are_dropped(tmp_path: Path, name: str) -> None:
    assert is_credential(name)
    assert name not in environment({name: "hunter2"}, tmp_path)


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_names_are_kept(tmp_path: Path, name: str) -> None:
    assert not is_credential(name)
    assert environment({name: "value"}, tmp_path)[name] == "value"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("DATABASE_URL", "postgres://me:pw@host/db", True),
        ("SENTRY_DSN", "https://:pw@host/1", True),
        ("DATABASE_URL", "postgres://host:5432/db", False),
        ("ENDPOINT", "https://host/a:b@c", False),
        ("https_proxy", "http://me:pw@proxy:3128", False),
    ],
)
def test_passwords_in_urls(name: str, value: str, secret: bool) -> None:
    assert is_credential(name, value) is secret


@pytest.mark.parametrize(
    "name",
    [
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "MLFLOW_TRACKING_URI",
        "PYTHONINSPECT",
        "PYTHONPYCACHEPREFIX",
    ],
)
def test_agents_and_servers_are_out_of_reach(tmp_path: Path, name: str) -> None:
    assert name not in environment({name: "1"}, tmp_path)


def test_cached_models_are_still_found(tmp_path: Path) -> None:
    for folder in ("home/.cache/huggingface", "home/.cache/torch"):
        (tmp_path / folder).mkdir(parents=True)
    found = environment({"HOME": str(tmp_path / "home")}, tmp_path / "work")
    assert found["HF_HOME"] == str(tmp_path / "home/.cache/huggingface")
    assert found["TORCH_HOME"] == str(tmp_path / "home/.cache/torch")


def test_cached_models_are_found_under_the_users_cache_folder(tmp_path: Path) -> None:
    (tmp_path / "cache/huggingface").mkdir(parents=True)
    found = environment(
        {"HOME": "/nowhere", "XDG_CACHE_HOME": str(tmp_path / "cache")}, tmp_path / "work"
    )
    assert found["HF_HOME"] == str(tmp_path / "cache/huggingface")


def test_an_own_model_folder_is_kept_and_an_absent_one_not_made_up(tmp_path: Path) -> None:
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    found = environment({"HOME": str(tmp_path), "HF_HOME": "/data/hf"}, tmp_path / "work")
    assert found["HF_HOME"] == "/data/hf"
    assert "TORCH_HOME" not in found


@pytest.mark.parametrize(
    "name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"]
)
def test_threads(tmp_path: Path, name: str) -> None:
    parent = {name: "8"}
    assert child_environment(parent, tmp_path, threads=1, extra={})[name] == "1"
    assert child_environment(parent, tmp_path, threads=None, extra={})[name] == "8"
    assert name not in child_environment({}, tmp_path, threads=None, extra={})


def test_the_run_is_named_and_cannot_be_renamed(tmp_path: Path) -> None:
    assert environment({RUN_VARIABLE: "other"}, tmp_path, **{RUN_VARIABLE: "mine"})[
        RUN_VARIABLE
    ] == str(tmp_path)


def test_the_parents_variables_are_not_changed(tmp_path: Path) -> None:
    parent = {"HF_TOKEN": "x", "TMPDIR": "/tmp"}
    environment(parent, tmp_path)
    assert parent == {"HF_TOKEN": "x", "TMPDIR": "/tmp"}


def test_python_uses_it(tmp_path: Path) -> None:
    code = "import sys, tempfile; print(tempfile.gettempdir(), hash('a'), sys.dont_write_bytecode)"
    results = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment({}, tmp_path),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }
    (line,) = results
    assert line.split()[0] == str(tmp_path / "tmp")
    assert line.split()[2] == "True"
