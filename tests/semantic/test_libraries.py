"""A row of a library decides what is found; the same names of another library, or of the project
itself, do not."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.semantic.test_project import probed
from torchlint.semantic.torch import libraries
from torchlint.testing import findings

STEP = """
import torch

{imports}

def train(net, loader, optimizer, criterion, given):
    total = 0
{before}
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        out = net(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{inside}
    return total
"""
MAPS = """
from transformers import AutoTokenizer
{imports}

tokenizer = AutoTokenizer.from_pretrained("a")

{before}
"""
TOKENS = "map(lambda row: tokenizer(row['text']))"
GRAPH, READ, TRUTH, LOGGED, TOKEN = "TL502", "TL105", "TL602", "TL908", "TL909"
FOUND = [
    (GRAPH, "from timm.utils import reduce_tensor", "", "total += reduce_tensor(loss, 2)"),
    (GRAPH, "import timm", "pre = timm.create_model('a')", "total += pre(x).mean()"),
    (GRAPH, "from timm.loss import JsdCrossEntropy as J", "f = J()", "total += f(out, y)"),
    (
        TRUTH,
        "from timm.utils.metrics import accuracy",
        "",
        "a, b = accuracy(out, y, topk=(1, 5))\nif a > 3:\n    break",
    ),
    (
        GRAPH,
        "from torchmetrics.functional.regression import mean_squared_error as mse",
        "",
        "total += mse(out, y)",
    ),
    (
        TRUTH,
        "from torchmetrics.functional import accuracy",
        "",
        "if accuracy(out, y, task='binary') > 0.9:\n    break",
    ),
    (
        TRUTH,
        "from torchmetrics.functional.image import structural_similarity_index_measure as ssim",
        "",
        "if ssim(out, y) > 0.9:\n    break",
    ),
    (
        GRAPH,
        "from torch.distributions import Categorical",
        "",
        "total += Categorical(logits=out).log_prob(y)",
    ),
    (
        GRAPH,
        "from torch.distributions.normal import Normal\nfrom torch.distributions import kl",
        "",
        "total += kl.kl_divergence(Normal(out, 1.0), Normal(y, 1.0)).mean()",
    ),
    (
        TRUTH,
        "from torch.distributions import Bernoulli",
        "",
        "a = Bernoulli(logits=out.mean()).sample()\nif a > 0:\n    break",
    ),
    (
        TOKEN,
        "from datasets import load_dataset",
        f"def data():\n    return load_dataset('a')\n\nrows = data().{TOKENS}",
        None,
    ),
    (
        TOKEN,
        "import datasets",
        "class Data:\n    def __init__(self):\n        self.rows = datasets.Dataset.from_dict({})\n"
        f"    def tokens(self):\n        return self.rows.{TOKENS}",
        None,
    ),
    (
        TOKEN,
        "from datasets import load_dataset",
        f"def tokens(rows):\n    return rows.{TOKENS}\n\ntokens(load_dataset('a').shuffle())",
        None,
    ),
    (LOGGED, "from trl import SFTConfig", "SFTConfig('o', logging_steps=1)", "pass"),
    (LOGGED, "import trl", "trl.DPOConfig('o', logging_steps=1)", "pass"),
    (
        LOGGED,
        "from trl.experimental.cpo import CPOConfig",
        "CPOConfig('o', logging_steps=1)",
        "pass",
    ),
    (
        GRAPH,
        "from peft import LoraConfig, get_peft_model",
        "lora = get_peft_model(net, LoraConfig(r=8))",
        "total += lora(x).mean()",
    ),
    (
        GRAPH,
        "from peft import PeftModel",
        "tuned = PeftModel.from_pretrained(net, 'a')",
        "total += tuned(x).mean()",
    ),
    (
        READ,
        "from peft import AutoPeftModelForCausalLM as Auto",
        "tuned = Auto.from_pretrained('a')",
        "print(tuned(x).mean().item())",
    ),
    (
        READ,
        "from accelerate import Accelerator",
        "acc = Accelerator()",
        "g = acc.gather(given)\nprint(g.mean().item())",
    ),
    (
        READ,
        "import accelerate",
        "acc = accelerate.Accelerator()",
        "print(acc.clip_grad_norm_(net.parameters(), 1.0).item())",
    ),
    (
        GRAPH,
        "from accelerate.accelerator import Accelerator",
        "acc = Accelerator()",
        "total += acc.unwrap_model(net)(x).mean()",
    ),
    (
        READ,
        "from diffusers import DDPMScheduler",
        "noises = DDPMScheduler()",
        "print(noises.add_noise(x, torch.randn_like(x), y).mean().item())",
    ),
    (
        READ,
        "from diffusers.models import AutoencoderKL",
        "vae = AutoencoderKL.from_pretrained('a').cuda()",
        "print(vae.encode(x).latent_dist.sample().mean().item())",
    ),
    (
        READ,
        "from diffusers.training_utils import compute_snr",
        "",
        "print(compute_snr(given, y).mean().item())",
    ),
    (
        READ,
        "from lightning.fabric import Fabric",
        "fabric = Fabric()",
        "g = fabric.all_reduce(loss.detach())\nprint(g.item())",
    ),
    (
        READ,
        "import lightning as L",
        "fabric = L.Fabric()\nval = fabric.setup_dataloaders(given)",
        "for a, b in val:\n    print((a - b).mean().item())",
    ),
    (
        READ,
        "from lightning.fabric import Fabric",
        "fabric = Fabric()",
        "print(fabric.to_device(torch.ones(3)).sum().item())",
    ),
]
OTHER = {
    "from torch.dist": "from own.dist",
    "import timm": "from own import timm",
    "import datasets": "from own import datasets",
    "import trl": "from own import trl",
    "import accelerate": "from own import accelerate",
    "import lightning as": "from own import lightning as",
}
"""What makes the same name one of another library."""


def program(imports: str, before: str, inside: str | None) -> str:
    if inside is None:
        return MAPS.format(imports=imports, before=before)
    return STEP.format(
        imports=imports, before=indent(before, " " * 4), inside=indent(inside, " " * 8)
    )


def other(imports: str) -> str:
    lines = imports.splitlines()
    known = (OTHER.get(line[: len(key)], "") for line in lines for key in OTHER)
    if any(known):
        for key, new in OTHER.items():
            imports = imports.replace(key, new)
        return imports
    return imports.replace("from ", "from own.")


@pytest.mark.parametrize(("code", "imports", "before", "inside"), FOUND)
def test_what_a_library_gives_decides_what_is_found(
    code: str, imports: str, before: str, inside: str | None
) -> None:
    assert findings(program(imports, before, inside), select=[code])
    assert not findings(program(other(imports), before, inside), select=[code])


HOST = [
    ("from accelerate import Accelerator", "acc.gather(out.detach().cpu()).mean()"),
    ("from accelerate import Accelerator", "acc.reduce(loss.detach().cpu())"),
]


@pytest.mark.parametrize(("imports", "expression"), HOST)
def test_what_is_gathered_on_the_host_is_read_without_a_wait(imports: str, expression: str) -> None:
    inside = f"value = {expression}\nprint(value.item())"
    before = "acc = Accelerator()"
    assert not findings(program(imports, before, inside), select=[READ])
    on_device = program(imports, before, inside.replace(".cpu()", ""))
    assert findings(on_device, select=[READ])


@pytest.mark.parametrize(
    ("library", "module", "name", "call"),
    [
        ("timm", "utils", "accuracy", "accuracy(x, y)"),
        ("torchmetrics", "functional", "accuracy", "accuracy(x, y)"),
        ("datasets", "loading", "load_dataset", "load_dataset('a')"),
        ("accelerate", "accelerator", "Accelerator", "Accelerator().reduce(x)"),
        ("diffusers", "schedulers", "DDPMScheduler", "DDPMScheduler().add_noise(x, x, y)"),
        ("peft", "models", "get_peft_model", "get_peft_model(x)"),
    ],
)
def test_what_the_project_itself_defines_is_no_library(
    tmp_path: Path, library: str, module: str, name: str, call: str
) -> None:
    main = f"import torch\nfrom {library}.{module} import {name}\nx = y = torch.ones(3).cuda()\n"
    method = call.partition("().")[2].partition("(")[0] or "other"
    own = (
        f"class {name}:\n    def {method}(self, *given):\n        return 'nothing'\n"
        if name[0].isupper()
        else f"def {name}(*given):\n    return 'nothing'\n"
    )
    files = {
        f"{library}/__init__.py": "",
        f"{library}/{module}.py": own,
        "train.py": f"{main}probe({call})\n",
    }
    assert probed(tmp_path / "own", files).kind == "str"
    if libraries.row(f"{library}.{module}.{name}") is not None:
        there = {"train.py": files["train.py"]}
        assert probed(tmp_path / "library", there).kind in ("tensor", "list", "object")


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("timm.utils.metrics.accuracy", "timm.utils.accuracy"),
        ("torchmetrics.functional.image.ssim.peak_signal_noise_ratio", None),
        ("lightning.pytorch.trainer.trainer.Trainer", "lightning.Trainer"),
        ("diffusers.DDPMScheduler.from_pretrained", "diffusers.DDPMScheduler"),
        ("datasets.arrow_dataset.Dataset.from_dict", "datasets.Dataset"),
    ],
)
def test_a_name_of_a_module_below_is_that_of_the_package(name: str, same: str | None) -> None:
    known = libraries.row(same or "torchmetrics.functional.peak_signal_noise_ratio")
    assert known is not None
    assert libraries.row(name) is known


@pytest.mark.parametrize(
    "name",
    ["utils.accuracy", "timm.accuracy.other", "accuracy", "trl.GRPOConfig", "random.Random.choice"],
)
def test_other_names_have_no_row(name: str) -> None:
    assert libraries.row(name) is None
    assert libraries.held(name) is None


def test_a_file_of_trl_alone_is_looked_at() -> None:
    program = "from trl import SFTConfig\n\nSFTConfig('o', logging_steps=1)\n"
    assert findings(program, select=[LOGGED])
    assert not findings(program.replace("trl", "own"), select=[LOGGED])


def test_a_keyword_that_makes_it_something_else() -> None:
    imports = "from torchmetrics.functional.image import structural_similarity_index_measure as s"
    for keyword, found in (("", True), (", return_full_image=True", False), (", **given", False)):
        inside = f"if s(out, y{keyword}) > 0.9:\n    break"
        assert bool(findings(program(imports, "", inside), select=[TRUTH])) is found


def test_each_row_is_written_well() -> None:
    words = set("like on-cpu on-device scalar float no-graph any-graph placed repeated".split())
    words |= set("counted loader module held as".split())
    for name, row in libraries.rows().items():
        assert {word for word in row.words if "=" not in word and "." not in word} <= words | {
            row.of.rpartition(".")[2]
        }, name
        assert row.gives in set(
            "tensor object module loader loss optimizer scheduler device first each int float bool "
            "plain".split()
        ), name
        made = libraries.row(row.of) or libraries.held(row.of)
        assert made is not None or "as" in row.words, name
