"""What TL903 says of Lightning's Trainer is what its signature says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tests.checking import check
from tests.semantic.test_project import analysed
from torchlint.rules.frameworks import lightning_removed_arguments as removed
from torchlint.semantic.code.versions import before_lightning_2

MESSAGES = [
    ("checkpoint_callback=ModelCheckpoint()", "callbacks=[...]."),
    ("checkpoint_callback=kept", "callbacks=[...]."),
    ("checkpoint_callback=False", "enable_checkpointing=."),
    ("checkpoint_callback=given", "enable_checkpointing= for a bool."),
    ("early_stop_callback=None", "leave it out"),
    ("early_stop_callback=True", "EarlyStopping(monitor=...)"),
    ("auto_lr_find=False", "leave it out"),
    ("auto_lr_find=True", "Tuner(trainer).lr_find()"),
    ("auto_scale_batch_size='power'", "Tuner(trainer).scale_batch_size()"),
    ("progress_bar_refresh_rate=0", "enable_progress_bar=False"),
    ("progress_bar_refresh_rate=20", "TQDMProgressBar(refresh_rate=...)"),
    ("weights_summary=None", "enable_model_summary=False"),
    ("weights_summary='full'", "ModelSummary(max_depth=...)"),
    ("weights_summary='top'", "leave it out"),
    ("gpus=0", 'use accelerator="cpu".'),
    ("gpus=0, accelerator='cpu'", "leave it out"),
    ("gpus='0'", 'accelerator="gpu", devices='),
]
WHEEL = "Name: a\nRequires-Dist: pytorch-lightning"
POETRY = "[tool.poetry.dependencies]\npytorch-lightning = "


@pytest.mark.parametrize(("arguments", "words"), MESSAGES)
def test_the_replacement_fits_the_value(arguments: str, words: str) -> None:
    text = (
        "import lightning.pytorch as pl\nfrom lightning.pytorch.callbacks import ModelCheckpoint\n"
        f"kept = ModelCheckpoint()\n\n\ndef run(given):\n    pl.Trainer({arguments})\n"
    )
    found = check(text, codes=frozenset(("TL903",))).findings
    assert [words in each.message for each in found] == [True]


def test_the_arguments_are_gone_and_their_replacements_are_there() -> None:
    pytest.importorskip("lightning")
    from lightning.pytorch import Trainer, callbacks

    known = set(inspect.signature(Trainer).parameters)
    assert not known & set(removed._REMOVED)
    assert set(removed._NOTHING) <= set(removed._REMOVED)
    new = [*removed._REMOVED.values(), *removed._BY_VALUE.values()]
    told = [word for text in new for word in re.findall(r"(?:^|[ ])(\w+)=(?! of|\))", text)]
    assert set(told) <= known
    for text in new:
        for name, argument in re.findall(r"\[(\w+)\((\w*)", text):
            given = inspect.signature(getattr(callbacks, name)).parameters
            assert not argument or argument in given


@pytest.mark.parametrize(
    ("name", "text", "old"),
    [
        ("requirements.txt", "torch\npytorch-lightning==1.2.3\n", True),
        ("requirement.txt", "pytorch_lightning[extra]>=1.4, <2.0\n", True),
        ("requirements/base.txt", "lightning~=1.9\n", True),
        ("Pipfile", '[packages]\npytorch-lightning = "==1.5.*"\n', True),
        ("environment.yml", "dependencies:\n  - pytorch-lightning=1.9.0=pyhd8ed1ab_0\n", True),
        ("setup.cfg", "[options]\ninstall_requires =\n    pytorch-lightning<=1.9\n", True),
        ("setup.py", "setup(install_requires=['torch', 'pytorch-lightning==1.2'])\n", True),
        ("setup.py", "setup(install_requires=['pytorch-lightning>=2', 'numpy==1.2'])\n", False),
        ("requirements.txt", "pytorch-lightning>=1.4\n", False),
        ("requirements.txt", "pytorch-lightning<2.1\n", False),
        ("requirements.txt", "lightning-utilities==0.10.0\n", False),
        ("requirements.txt", "# pytorch-lightning==1.2.3\nlightning\n", False),
        ("a-1.dist-info/METADATA", f"{WHEEL} (>=1.9,<1.10)\n\nFor all.\n", True),
        ("a-1.dist-info/METADATA", f"{WHEEL}<2.0.0,>=1.6 ; extra == 'pl'\n", True),
        ("pyproject.toml", '[project]\ndependencies = ["pytorch-lightning (~=1.9)"]\n', True),
        ("pyproject.toml", f"{POETRY}{{extras = ['extra'], version = '^1.8'}}\n", True),
        ("a-1.dist-info/METADATA", f"{WHEEL} (>=1.9)\n\nlightning==1.9 was used.\n", False),
        ("a-1.dist-info/METADATA", f"{WHEEL} (>=1.9,<2.1)\n", False),
        ("pyproject.toml", f"{POETRY}{{version = '^2.0'}}\nnumpy = '^1.8'\n", False),
        ("pyproject.toml", f"{POETRY}{{extras = ['extra']}}\nnumpy = '^1.8'\n", False),
    ],
)
def test_lists_of_dependencies_say_that_lightning_is_old(
    tmp_path: Path, name: str, text: str, old: bool
) -> None:
    files = {name: text, "code/train.py": "import pytorch_lightning as pl\n"}
    assert before_lightning_2(analysed(tmp_path, files, "code/train.py")) is old


def test_metadata_of_several_wheels_are_those_of_an_environment(tmp_path: Path) -> None:
    files = {f"{name}-1.dist-info/METADATA": f"{WHEEL}<2\n" for name in "ab"}
    files["code/train.py"] = "import pytorch_lightning as pl\n"
    assert not before_lightning_2(analysed(tmp_path, files, "code/train.py"))


MADE = "import lightning.pytorch as pl\n\n\ndef made():\n    return pl.Trainer({})\n\n\n"


@pytest.mark.parametrize(
    ("flag", "use", "found"),
    [
        ("detect_anomaly=True", "def run(m):\n    t = made()\n    t.test(m)\n", 0),
        ("limit_train_batches=2", "def run(m):\n    made().validate(m)\n", 0),
        ("num_sanity_val_steps=-1", "def run(m):\n    t = made()\n    return t.predict(m)\n", 0),
        ("detect_anomaly=True", "def run(m):\n    t = made()\n    t.fit(m)\n    t.test(m)\n", 1),
        ("detect_anomaly=True", "def run(m):\n    t = made()\n    t.test(m)\n    m.t = t\n", 1),
        ("detect_anomaly=True", "def run(m):\n    made().test(m)\n    made().fit(m)\n", 1),
        ("detect_anomaly=True", "", 1),
        ("profiler='advanced'", "def run(m):\n    made().test(m)\n", 1),
        ("fast_dev_run=True", "def run(m):\n    made().test(m)\n", 1),
    ],
)
def test_what_training_alone_heeds_is_no_fault_of_a_trainer_that_evaluates(
    flag: str, use: str, found: int
) -> None:
    text = MADE.format(flag) + use
    assert len(check(text, codes=frozenset(("TL904",))).findings) == found
