"""TL301 is an info where nothing is trained: in a function or a script that evaluates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check
from torchlint.run.projects import forget

WRAPPED = """\
import torch
from torch import nn


def main(model, loader):
    model = nn.DataParallel(model)
    return [model(x) for x in loader]
"""
TRAINS = """\


def fit(model, loader, optimizer):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "source", "severity"),
    [
        ("src/predict.py", WRAPPED, "info"),
        ("src/test_model.py", WRAPPED, "info"),
        ("src/model.py", WRAPPED, "warning"),
        ("src/model.py", WRAPPED.replace("main", "sample"), "info"),
        ("src/predict.py", WRAPPED + TRAINS, "warning"),
        ("src/latest.py", WRAPPED, "warning"),
        ("src/contest/model.py", WRAPPED, "warning"),
    ],
)
def test_where_nothing_is_trained_it_is_an_info(name: str, source: str, severity: str) -> None:
    found = check(source, codes=frozenset({"TL301"}), name=name).findings
    assert [each.severity.value for each in found] == [severity]


@pytest.mark.parametrize(
    ("line", "one"),
    [
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '2'", True),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # the free one', True),
        ("import sys\nos.environ['CUDA_VISIBLE_DEVICES'] = \"1\"", True),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'", False),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = str(2)", False),
        ("if debug:\n    os.environ['CUDA_VISIBLE_DEVICES'] = '2'", False),
        ("# os.environ['CUDA_VISIBLE_DEVICES'] = '2'", False),
    ],
)
def test_a_script_that_sees_one_gpu_parallelises_nothing(line: str, one: bool) -> None:
    source = f"import os\n{line}\n{WRAPPED}{TRAINS}"
    (found,) = check(source, codes=frozenset({"TL301"}), name="src/train.py").findings
    assert ("one device" in found.message, found.severity.value) == (
        one,
        "info" if one else "warning",
    )


EVALUATES = """\
import torch
from torch import nn


def restored(net, batches):
    net = nn.DataParallel(net.cuda())
    net.eval()
    return [net(x) for x in batches]
"""


@pytest.mark.parametrize(
    "source",
    [
        EVALUATES,
        EVALUATES.replace("net.cuda())\n    net.eval()", "net).eval()"),
        EVALUATES.replace("net = nn", "self.net = nn").replace("net.eval()", "self.net.eval()"),
    ],
)
def test_where_nothing_is_trained_the_wrapper_is_to_be_dropped(source: str) -> None:
    (found,) = check(source, codes=frozenset({"TL301"}), name="src/model.py").findings
    assert found.severity.value == "info"
    assert "drop the wrapper" in found.message


@pytest.mark.parametrize("source", [EVALUATES + TRAINS, WRAPPED])
def test_who_may_train_is_advised_to_use_ddp(source: str) -> None:
    (found,) = check(source, codes=frozenset({"TL301"}), name="src/model.py").findings
    assert found.severity.value == "warning"
    assert "DistributedDataParallel" in found.message


@pytest.mark.parametrize("folder", ["testing", "tests", "lib/tests/gpu"])
def test_a_folder_of_tests_may_test_the_wrapper(folder: str) -> None:
    assert not check(WRAPPED, codes=frozenset({"TL301"}), name=f"{folder}/models.py").findings


LOADS = """\
import torch
from torch import nn


def main(net, path, batches):
    if torch.cuda.device_count() > 1:
        net = nn.DataParallel(net)
    net.load_state_dict(torch.load(path)["state_dict"])
    net = net.cuda()
    net.eval()
    return [net(x) for x in batches]
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (LOADS, True),
        (LOADS.replace("net = nn", "self.net = nn").replace("    net.", "    self.net."), True),
        (LOADS.replace('torch.load(path)["state_dict"]', "keys"), True),
        (LOADS.replace("net.load_state_dict", "net.module.load_state_dict"), False),
        (EVALUATES, False),
    ],
)
def test_the_keys_of_a_checkpoint_for_the_wrapper_are_spoken_of(source: str, said: bool) -> None:
    (found,) = check(source, codes=frozenset({"TL301"}), name="src/restore.py").findings
    assert found.severity.value == "info"
    assert ("without the `module.`" in found.message) is said


STILL = """\
import torch
from torch import nn


class Features(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.features = nn.Sequential(*net.children())
        for weight in self.features.parameters():
            weight.requires_grad = False

    def forward(self, x):
        return self.features(x)


def prepare(net, model):
    features = Features(net)
    features = nn.DataParallel(features)
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    return model, features, optimizer
"""
LOOPED = STILL.replace(
    "features = Features(net)",
    "for weight in net.parameters():\n        weight.requires_grad_(False)",
).replace("DataParallel(features)", "DataParallel(net)")
TEACHER = STILL.replace("features = Features(net)", "teacher = net.cuda()").replace(
    "features = nn.DataParallel(features)", "teacher = nn.DataParallel(teacher)"
)
TRANSFER = LOOPED.replace("    features = nn", "    net.fc = nn.Linear(8, 2)\n    features = nn")
THAWED = LOOPED.replace(
    "    features = nn",
    "    for weight in net.head.parameters():\n        weight.requires_grad_(True)\n"
    "    features = nn",
)
DISTILS = """\
import torch
from torch import nn


def fit(net, model, loader, optimizer):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        (net(x) - model(x)).sum().backward()
        optimizer.step()


def main(teacher, model, loader):
    teacher = nn.DataParallel(teacher)
    fit(teacher, model, loader, None)
"""


@pytest.mark.parametrize(
    ("source", "trained"),
    [
        (STILL, False),
        (LOOPED, False),
        (TEACHER, False),
        (STILL.replace("requires_grad = False", "requires_grad = weight.dim() > 1"), True),
        (
            LOOPED.replace("weight.requires_grad_", "if weight.dim() > 1: weight.requires_grad_"),
            True,
        ),
        (LOOPED.replace("for weight in net.", "for weight in net.layer1."), True),
        (TEACHER.replace("SGD(model", "SGD(teacher"), True),
        (STILL.replace("DataParallel(features)", "DataParallel(model)"), True),
        (TRANSFER, True),
        (TRANSFER.replace("net.fc", "net.fc[2]"), True),
        (TRANSFER.replace("nn.Linear(8, 2)", "nn.Identity()"), False),
        (THAWED, True),
        (THAWED.replace("(True)", "(False)"), False),
        (LOOPED.replace("for weight in", "for () in"), True),
        (DISTILS, False),
        (DISTILS.replace("model.parameters()", "net.parameters()"), True),
    ],
)
def test_a_network_that_nothing_trains_needs_no_ddp(source: str, trained: bool) -> None:
    (found,) = check(source, codes=frozenset({"TL301"}), name="src/model.py").findings
    assert found.severity.value == ("warning" if trained else "info")
    assert ("unwrapped" in found.message) is not trained
    assert (found.fix is not None) is trained


FLAGGED = """\
import torch
from torch import nn

{imports}


class Runner:
    def __init__(self, net, args):
        self.net, self.args = net, args

    def fit(self, loader, optimizer):
        if torch.cuda.device_count() > 1 and {test}:
            self.net = nn.DataParallel(self.net)
        for x in loader:
            self.net(x).sum().backward()
            optimizer.step()
"""
OFF = "USE_ALL_GPUS = False  # One is enough.\n"
OPTION = "parser.add_argument('--multi_gpu', action='store_true')\n"
SETTINGS = "class Settings:\n    multi_gpu: bool = False\n"


@pytest.mark.parametrize(
    ("imports", "test", "other", "severity"),
    [
        ("import config as cfg", "cfg.USE_ALL_GPUS", OFF, "info"),
        ("from config import USE_ALL_GPUS", "USE_ALL_GPUS", OFF, "info"),
        ("import config", "self.args.multi_gpu", OPTION, "info"),
        ("import config", "self.args.multi_gpu", SETTINGS, "info"),
        ("import config as cfg", "cfg.USE_ALL_GPUS", "USE_ALL_GPUS = True\n", "warning"),
        ("import config as cfg", "not cfg.USE_ALL_GPUS", OFF, "warning"),
        (
            "import config as cfg",
            "cfg.USE_ALL_GPUS",
            OFF + "if len(names) > 1:\n    USE_ALL_GPUS = True\n",
            "warning",
        ),
        ("import config as cfg\ncfg.USE_ALL_GPUS = True", "cfg.USE_ALL_GPUS", OFF, "warning"),
        ("import config", "self.args.multi_gpu", SETTINGS + "s.multi_gpu = True\n", "warning"),
        ("import config", "self.args.multi_gpu", "", "warning"),
    ],
)
def test_behind_what_nothing_turns_on_it_is_an_info_that_says_so(
    tmp_path: Path, imports: str, test: str, other: str, severity: str
) -> None:
    text = FLAGGED.format(imports=imports, test=test)
    (tmp_path / "config.py").write_text(other)
    (tmp_path / "main.py").write_text(text)
    forget()
    found = check(text, codes=frozenset({"TL301"}), name="main.py", root=str(tmp_path)).findings
    assert [each.severity.value for each in found] == [severity]
    assert ("nothing in the project turns on" in found[0].message) is (severity == "info")


REWRAPPED = """\
import torch
from torch import nn


def adapted(model, make):
    if isinstance(model, {cls}):
        inner, wrapped = model.module, True
        was = True
    else:
        inner = model
        was = {other}
    model = make(inner)
    if was:
        model = nn.DataParallel(model)
    return model
"""


@pytest.mark.parametrize(
    ("cls", "other", "findings"),
    [
        ("nn.DataParallel", "False", 0),
        ("nn.Sequential", "False", 1),
        ("nn.DataParallel", "True", 1),
    ],
)
def test_what_came_in_wrapped_is_wrapped_again(cls: str, other: str, findings: int) -> None:
    text = REWRAPPED.format(cls=cls, other=other)
    assert len(check(text, codes=frozenset({"TL301"})).findings) == findings
