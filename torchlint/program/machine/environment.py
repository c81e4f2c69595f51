"""The environment of the processes that run the user's program: caches and temporary files go into
the workspace, experiment trackers are silent, credentials are left out, and what would make two
runs differ is fixed.

What is not in reach of variables: the network is not blocked, and credentials that lie in files
(``~/.netrc``, ``~/.aws``, a Hugging Face token on disk) stay readable, as the program is the user's
own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

RUN_VARIABLE = "TORCHLINT_RUN"
"""Names the run a process belongs to, so that it is found when it has left the process tree: see
`processes`."""

_FOLDERS: Mapping[str, str] = {
    "TMPDIR": "tmp",
    "TEMP": "tmp",
    "TMP": "tmp",
    "XDG_CACHE_HOME": "cache",
    "CUDA_CACHE_PATH": "cache/cuda",
    "CUPY_CACHE_DIR": "cache/cupy",
    "TRITON_CACHE_DIR": "cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": "cache/inductor",
    "TORCH_EXTENSIONS_DIR": "cache/torch_extensions",
    "NUMBA_CACHE_DIR": "cache/numba",
    "MPLCONFIGDIR": "cache/matplotlib",
    "HF_MODULES_CACHE": "cache/hf_modules",
    "WANDB_DIR": "trackers",
    "WANDB_CACHE_DIR": "cache/wandb",
    "WANDB_CONFIG_DIR": "cache/wandb",
    "WANDB_DATA_DIR": "cache/wandb",
    "NEPTUNE_LOG_DIRECTORY": "trackers",
    "TRACKIO_DIR": "trackers",
}

_SETTINGS: Mapping[str, str] = {
    # Caches of models and data are read, never filled.
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    # Trackers: dozens of short runs must not appear among the user's experiments. TensorBoard
    # writes files only.
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",
    "COMET_START_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "offline",  # the one value that both of its client libraries know
    "SWANLAB_MODE": "disabled",
    "DVC_STUDIO_OFFLINE": "true",
    "DVC_NO_ANALYTICS": "true",
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",
    # No window that waits for a person.
    "MPLBACKEND": "Agg",
    # The order of sets of strings is the same in every process.
    "PYTHONHASHSEED": "0",
    # Bytecode that exists is used, none is written: a cache folder of our own would compile all of
    # torch anew.
    "PYTHONDONTWRITEBYTECODE": "1",
    # A crash in native code leaves its Python lines in the log.
    "PYTHONFAULTHANDLER": "1",
}

_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

_DROPPED = frozenset(
    {
        "MLFLOW_TRACKING_URI",  # without it MLflow writes into the current folder, which is a copy
        "MLFLOW_REGISTRY_URI",
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "GPG_AGENT_INFO",
        "KRB5CCNAME",
        "KUBECONFIG",
        "NETRC",
        "PYTHONPYCACHEPREFIX",
        "PYTHONINSPECT",  # waits at a prompt when the program ends
        "__PYVENV_LAUNCHER__",  # macOS: would make another interpreter believe it is ours
    }
)
# Whole words between underscores, so that TOKENIZERS_PARALLELISM stays.
_CREDENTIAL = re.compile(
    r"(?:^|_)(?:TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|PWD_?FILE|CREDENTIALS?|API_?KEYS?|ACCESS_?KEYS?"
    r"|PRIVATE_?KEYS?|SECRET_?KEYS?|AUTH)(?:_|$)|^AWS_|APIKEY|PASSWORD|SECRET|CREDENTIAL"
)
_PASSWORD_IN_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:[^/\s@]+@")


def is_credential(name: str, value: str = "") -> bool:
    """Say whether a variable may hold a credential: by its name, or as its value is a URL with a
    password.

    Proxies are exempt, since without them a network is out of reach.
    """
    upper = name.upper()
    if _CREDENTIAL.search(upper):
        return True
    return not upper.endswith("_PROXY") and bool(_PASSWORD_IN_URL.search(value))


def child_environment(
    parent: Mapping[str, str], workspace: Path, *, threads: int | None, extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a child process. Creates the folders they name.

    * Temporary files and caches (``TMPDIR``, ``XDG_CACHE_HOME``, CUDA, Triton, Inductor, Matplotlib
      ...) go into the workspace: the user's caches stay as they are, and a run does not profit from
      an earlier one.
    * Hugging Face and ``torch.hub`` keep the user's folders (``HF_HOME``, ``TORCH_HOME``) for
      reading, offline, so that cached models and data are still found. Under Landlock they cannot
      be written, not even a lock file.
    * Trackers (W&B, Comet, MLflow, ClearML, Neptune, SwanLab, DVCLive) are off or write into the
      workspace.
    * Credentials are dropped: see `is_credential`; so is what would reach a tracking server or an
      agent.
    * ``PYTHONHASHSEED=0``; no ``.pyc`` files are written; faults print a traceback.
    * Thread counts of all numeric libraries follow `threads`.

    Args:
        parent: the variables to start from, usually ``os.environ``.
        workspace: the run's folder, or a subfolder for caches of one's own.
        threads: the number of threads; None leaves the parent's choice.
        extra: set last; it wins over everything but ``TORCHLINT_RUN``, and readmits a dropped
            variable.
    """
    environment = {
        name: value
        for name, value in parent.items()
        if name not in _DROPPED and not is_credential(name, value)
    }
    environment |= _libraries(parent)
    for name, folder in _FOLDERS.items():
        path = workspace / folder
        path.mkdir(parents=True, exist_ok=True)
        environment[name] = str(path)
    environment |= _SETTINGS
    if threads is not None:
        environment |= dict.fromkeys(_THREADS, str(threads))
    environment |= extra
    environment[RUN_VARIABLE] = str(workspace)
    return environment


def python_path(parent: Mapping[str, str], inject: Path, original: Path, copy: Path) -> str:
    """Return the ``PYTHONPATH`` of a program that runs in a copy of its project.

    Args:
        parent: the user's variables; entries that lie in the project are those of the copy.
        inject: the folder of what is started first.
        original: the project.
        copy: of it; its folder and its ``src`` come before what is installed.
    """
    own = [str(inject), str(copy)]
    if (copy / "src").is_dir():
        own.append(str(copy / "src"))
    for entry in parent.get("PYTHONPATH", "").split(os.pathsep):
        moved = Path(entry).resolve() if entry else None
        if moved is not None and moved.is_relative_to(original):
            own.append(str(copy / moved.relative_to(original)))
        elif entry:
            own.append(entry)
    return os.pathsep.join(own)


def _libraries(parent: Mapping[str, str]) -> dict[str, str]:
    """Return where models and data were cached by default before ``XDG_CACHE_HOME`` changes, where
    it exists."""
    home = parent.get("HOME") or parent.get("USERPROFILE")
    cache = (
        Path(parent["XDG_CACHE_HOME"])
        if parent.get("XDG_CACHE_HOME")
        else Path(home or "/nonexistent") / ".cache"
    )
    places = {"HF_HOME": cache / "huggingface", "TORCH_HOME": cache / "torch"}
    return {
        name: str(path) for name, path in places.items() if not parent.get(name) and path.is_dir()
    }
