"""Heat, guards and autograd: how often a line runs, and under what."""

from __future__ import annotations

import libcst as cst
import pytest

from tests.semantic.test_values import module
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.once import runs_once


def probe(source: str, filename: str = "train.py") -> tuple[Module, cst.Call]:
    """Return the module and its (first) call of ``probe()``."""
    found = module(source, filename)
    for call in found.nodes(cst.Call):
        if (
            isinstance(call, cst.Call)
            and isinstance(call.func, cst.Name)
            and call.func.value == "probe"
        ):
            return found, call
    raise AssertionError("no probe")


def grade(source: str) -> Grade:
    found, call = probe(source)
    return heat_of(found, call).grade


TRAIN = """
def train(model, loader, optimizer, crit, epochs, rank, verbose, log_interval):
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            loss = crit(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {}
        {}
    {}
"""


def test_step_epoch_and_cold() -> None:
    assert grade(TRAIN.format("probe()", "pass", "pass")) is Grade.TRAIN
    assert grade(TRAIN.format("pass", "probe()", "pass")) is Grade.EPOCH
    assert grade(TRAIN.format("pass", "pass", "probe()")) is Grade.COLD


_CALLBACKS = "from transformers import ProgressCallback, TrainerCallback\n"


@pytest.mark.parametrize(
    "test",
    [
        "step % 50 == 0",
        "step % log_interval == 0 and rank == 0",
        "step == 0",
        "step == len(loader) - 1",
        "step in (0, 10)",
        "not step % 10",
        "time.time() - last > 10",
        "is_last_batch",
        "should_log(step)",
        "step < 5",
        "step <= 3",
        "5 > step",
        "3 >= step",
        "not torch.isfinite(loss) or step <= 3",
        "loss.isnan().any() or (step < 3)",
        "debug",
        "getattr(model, 'debug', False)",
        "crit['debug']",
        "crit.get('profile', False)",
    ],
)
def test_intervals_throttle(test: str) -> None:
    source = "import time\n" + TRAIN.format(f"if {test}: probe()", "pass", "pass")
    assert grade(source) is Grade.COLD


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("torch.rand(1).item() < 0.1", Grade.COLD),
        ("rank == 0 and random.random() <= 0.05", Grade.COLD),
        ("np.random.rand() > 0.9", Grade.COLD),
        ("not random.random() < 0.9", Grade.COLD),
        ("random.random() < 0.5", Grade.TRAIN),  # every other one
        ("random.random() > 0.1", Grade.TRAIN),  # nearly all
        ("random.uniform(0, 100) < 0.1", Grade.TRAIN),  # of which share is not known
        ("loss.mean() < 0.1", Grade.TRAIN),
    ],
)
def test_chance_that_seldom_lets_pass_throttles(test: str, expected: Grade) -> None:
    imports = "import random\nimport numpy as np\nimport torch\n"
    assert grade(imports + TRAIN.format(f"if {test}: probe()", "pass", "pass")) is expected


@pytest.mark.parametrize(
    "test",
    [
        *("rank == 0", "verbose", "log_interval > 0", "loss is not None", "step > 5", "5 <= step"),
        *("5 < step", "size <= 3", "step <= most"),
        "torch.isfinite(loss) or len(batch) <= 3",
    ],
)
def test_other_guards_do_not(test: str) -> None:
    assert grade(TRAIN.format(f"if {test}: probe()", "pass", "pass")) is Grade.TRAIN


@pytest.mark.parametrize(
    ("before", "every", "expected"),
    [
        ("", "1", "its interval is 1"),
        ("every = 1", "every", "`every` is 1"),
        (
            "parser.add_argument('--every', default=1)",
            "args.every",
            "`args.every` is 1 unless it is set otherwise",
        ),
        (
            "@dataclasses.dataclass\nclass Args:\n    every: int = 1",
            "args.every",
            "`args.every` is 1 unless it is set otherwise",
        ),
    ],
)
def test_an_interval_of_one_is_told(before: str, every: str, expected: str) -> None:
    source = TRAIN.format(f"if step % {every} == 0: probe()", "pass", "pass")
    found, call = probe(f"import dataclasses\n{before}\n{source}")
    heat = heat_of(found, call)
    assert heat.grade is Grade.TRAIN
    assert heat.why[0].text == f"the condition holds every time: {expected}"


def test_nothing_is_told_of_other_conditions_of_a_hot_line() -> None:
    found, call = probe(TRAIN.format("if rank == 0: probe()", "pass", "pass"))
    assert [why.text for why in heat_of(found, call).why] == ["every training step of the loop"]


def test_an_early_continue_throttles() -> None:
    source = TRAIN.format("if step % 50: continue\n            probe()", "pass", "pass")
    assert grade(source) is Grade.COLD


def test_what_skips_the_left_in_epoch_is_no_throttle_for_the_others() -> None:
    skip = "if left_in_epoch > 0:\n                left_in_epoch -= 1\n                continue"
    source = TRAIN.format(f"{skip}\n            probe()", "pass", "pass")
    assert grade(source) is Grade.TRAIN
    assert grade(source.replace("left_in_epoch -= 1", "pass")) is Grade.COLD


def test_heat_flows_into_helpers_with_its_reasons() -> None:
    source = "def helper():\n    probe()\n" + TRAIN.format("helper()", "pass", "pass")
    found, call = probe(source)
    heat = heat_of(found, call)
    assert heat.grade is Grade.TRAIN
    assert [why.text for why in heat.why] == [
        "helper() is called",
        "every training step of the loop",
    ]


def test_a_throttled_call_leaves_the_helper_cold() -> None:
    source = "def helper():\n    probe()\n" + TRAIN.format(
        "if step % 9 == 0: helper()", "pass", "pass"
    )
    assert grade(source) is Grade.COLD


def test_methods_inherit_heat_from_a_base_class_loop() -> None:
    source = """
    class Engine:
        def run(self, loader):
            for batch in loader:
                self.train_one(batch)
        def train_one(self, batch):
            raise NotImplementedError
    class Mine(Engine):
        def train_one(self, batch):
            loss = self.model(batch)
            loss.backward()
            self.optimizer.step()
            probe()
    """
    assert grade(source) is Grade.TRAIN


def test_evaluation_loops_and_other_loops() -> None:
    source = (
        "def evaluate(model, loader):\n    for x, y in loader:\n        out = model(x)\n    "
        "    probe()"
    )
    assert grade(source) is Grade.EVAL
    assert grade("def f(names):\n    for n in names:\n        probe()") is Grade.COLD


@pytest.mark.parametrize(
    ("moved", "expected"),
    [("x = x.to(device)", Grade.EVAL), ("y = x.mean()", Grade.COLD), ("net.cuda()", Grade.COLD)],
)
def test_a_loop_that_brings_batches_to_a_device_without_autograd_runs_for_each(
    moved: str, expected: Grade
) -> None:
    text = (
        "@torch.no_grad()\ndef check(net, test_loader, device):\n"
        f"    for x in test_loader:\n        {moved}\n"
    )
    assert grade(f"{text}        probe()\n".replace("@torch.no_grad()", "")) is Grade.COLD
    assert grade(f"{text}        probe()\n") is expected
    assert grade(f"{text}        probe()\n".replace("test_loader", "names")) is Grade.COLD


def test_a_loop_over_optimizers_is_not_the_step_loop() -> None:
    source = TRAIN.format(
        "for opt in optimizers:\n                opt.step()\n            probe()", "pass", "pass"
    )
    assert grade(source) is Grade.TRAIN


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("for optim_step in range(total_optim_steps)", Grade.COLD),
        ("for step in trange(cfg.optim.max_steps)", Grade.COLD),
        ("for epoch in tqdm(range(params['epochs']))", Grade.COLD),
        ("for i in range(self.hparams.rounds)", Grade.COLD),
        ("for i in range(len(optimizers))", Grade.TRAIN),
        ("for i in range(self.num_optims)", Grade.TRAIN),
        ("for i, optimizer in enumerate(self.trainer.optimizers)", Grade.TRAIN),
        ("for optimizer in params['optimizers']", Grade.TRAIN),
    ],
)
def test_a_number_of_steps_is_no_collection_of_parts(loop: str, expected: Grade) -> None:
    """What stands before the loop runs once, where the loop counts steps, and else in each step."""
    source = f"""
def main(self, cfg, params, model, batches, optimizers, total_optim_steps):
    probe()
    {loop}:
        loss = model(batches.sample())
        loss.backward()
        optimizer.step()
"""
    assert grade(source) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class A(nn.Module):\n    def forward(self, x):\n        probe()", Grade.FORWARD),
        ("class A(nn.Module):\n    def __init__(self):\n        probe()", Grade.COLD),
        ("class A(object):\n    def forward(self, x):\n        probe()", Grade.COLD),
        ("def dice_loss(pred, target):\n    d = torch.sum(pred)\n    probe()", Grade.FORWARD),
        ("def plot_losses(ax, values):\n    probe()", Grade.COLD),
        ("def net_loss(pred, y):\n    probe()\n    return torch.norm(pred - y)", Grade.FORWARD),
        ("class A(nn.Module):\n    def forward(self, dl):\n        probe()", Grade.COLD),
        (
            "def net_loss(pred, y):\n    probe()\n    return torch.norm(pred - y).item()",
            Grade.FORWARD,
        ),
        (
            (
                "def net_loss(pred, y):\n    with torch.no_grad():\n        out = torch.norm(y)"
                "\n    probe()\n    return out.item()"
            ),
            Grade.COLD,
        ),
        (
            "class D(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        probe()",
            Grade.SAMPLE,
        ),
        ("def collate_fn(batch):\n    probe()", Grade.SAMPLE),
        (
            (
                "import lightning as L\nclass A(L.LightningModule):\n    def training_step(self, "
                "b, "
                "i):\n        probe()"
            ),
            Grade.TRAIN,
        ),
        (
            _CALLBACKS + "class A(TrainerCallback):\n"
            "    def on_step_end(self, args, state, control, **kw):\n"
            "        probe()",
            Grade.TRAIN,
        ),
        (
            _CALLBACKS + "class A(ProgressCallback):\n"
            "    def on_substep_end(self, *args, **kw):\n"
            "        probe()",
            Grade.TRAIN,
        ),
        (
            _CALLBACKS + "class A(TrainerCallback):\n"
            "    def on_prediction_step(self, *args, **kw):\n"
            "        probe()",
            Grade.EVAL,
        ),
        (
            _CALLBACKS + "class A(TrainerCallback):\n"
            "    def on_evaluate(self, *args, **kw):\n"
            "        probe()",
            Grade.COLD,
        ),
        (
            _CALLBACKS + "class A(TrainerCallback):\n"
            "    def on_step_end(self, args, state, control, **kw):\n"
            "        if control.should_log:\n"
            "            probe()",
            Grade.COLD,
        ),
        (
            _CALLBACKS + "class A:\n    def on_step_end(self):\n        probe()",
            Grade.COLD,
        ),
        (
            "class A:\n    def __next__(self):\n        return self.moved(self.rows)\n"
            "    def moved(self, x):\n        probe()\n        return x.to(self.device)",
            Grade.FORWARD,
        ),
        (
            "class A:\n    def __next__(self):\n        return self.moved(self.rows)\n"
            "    def moved(self, x):\n        probe()\n        return list(x)",
            Grade.COLD,
        ),
        (
            "from boilr import VAEExperimentManager\nclass A(VAEExperimentManager):\n"
            "    def get_metrics_dict(self, results):\n        probe()",
            Grade.TRAIN,
        ),
        (
            "from mmengine.hooks import Hook\nclass A(Hook):\n"
            "    def after_val_iter(self, runner, *args):\n        probe()",
            Grade.EVAL,
        ),
        (
            "from mmengine.hooks import Hook\nclass A(Hook):\n"
            "    def after_val_epoch(self, runner, *args):\n        probe()",
            Grade.COLD,
        ),
        (
            "from boilr import VAEExperimentManager\nclass A:\n"
            "    def get_metrics_dict(self, results):\n        probe()",
            Grade.COLD,
        ),
        (
            _CALLBACKS + "class A:\n    def on_before_zero_grad(self, optimizer):\n        probe()",
            Grade.TRAIN,
        ),
    ],
)
def test_roles(source: str, expected: Grade) -> None:
    assert grade(source) is expected


def test_assume_hot() -> None:
    text = "def act():\n    probe()\n"
    found = Module(cst.parse_module(text), text, "a.py", Outside(), assume_hot=("act*",))
    assert heat_of(found, found.nodes(cst.Call)[0]).grade is Grade.TRAIN


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n    with torch.no_grad():\n        probe()", True),
        ("@torch.no_grad()\ndef f():\n    probe()", True),
        ("@torch.inference_mode()\ndef f():\n    probe()", True),
        ("def f():\n    probe()", False),
        ("def f():\n    torch.set_grad_enabled(False)\n    probe()", True),
        (
            (
                "def f():\n    with torch.no_grad():\n        with torch.enable_grad():\n        "
                "    "
                "probe()"
            ),
            False,
        ),
        ("def f(train):\n    with torch.set_grad_enabled(train):\n        probe()", None),
        ("def g():\n    probe()\ndef f():\n    with torch.no_grad():\n        g()", True),
        ("def g():\n    probe()\ndef f():\n    with torch.no_grad():\n        g()\n    g()", None),
    ],
)
def test_no_grad(source: str, expected: bool | None) -> None:
    found, call = probe(source)
    assert no_grad(found, call) is expected


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("bench/bench_step.py", True),
        ("tests/test_model.py", True),
        ("src/train.py", False),
        ("latest/model.py", False),
    ],
)
def test_bench_files(filename: str, expected: bool) -> None:
    found, call = probe("def f():\n    probe()", filename)
    assert is_benchmark(found, call) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("if __name__ == '__main__':\n    test_net(net, loader)", False),
        ("if __name__ == '__main__':\n    test_net(\n        net,\n        loader)", False),
        ("if __name__ == '__main__':\n    test_net()", True),
        ("", True),
    ],
)
def test_what_its_own_file_calls_with_arguments_is_no_test(call: str, expected: bool) -> None:
    found, node = probe(f"def test_net(net, loader):\n    probe()\n\n{call}", "test_net.py")
    assert is_benchmark(found, node) is expected


def test_what_trains_by_itself_is_no_loss_function_though_it_is_called_one() -> None:
    loss = "def pair_loss(x, y):\n    probe()\n    return torch.norm(x - y)\n"
    assert grade(loss) is Grade.FORWARD
    driver = """
def train_with_pair_loss(net, loader, sgd):
    probe()
    for x, y in loader:
        loss = torch.norm(net(x) - y)
        loss.backward()
        sgd.step()
"""
    assert grade(driver) is not Grade.FORWARD


@pytest.mark.parametrize(
    ("filename", "says", "expected"),
    [
        ("tools/smoke_features.py", "a smoke test of two steps", True),
        ("tools/train_smoke.py", "Smoke-run on 8 clips", True),
        ("tools/train.py", "a smoke test of two steps", False),
        ("smoke_detection.py", "finds fire and smoke", False),
    ],
)
def test_a_smoke_test_is_a_test_and_a_detector_of_smoke_none(
    filename: str, says: str, expected: bool
) -> None:
    found, call = probe(f"def f():\n    '''{says}'''\n    probe()", filename)
    assert is_benchmark(found, call) is expected


STARTED = """
import torch.multiprocessing as mp

def worker(rank):
    probe()

def main():
    {start}

main()
"""


@pytest.mark.parametrize(
    ("start", "once"),
    [
        ("mp.spawn(worker, nprocs=2)", True),
        ("mp.start_processes(worker, nprocs=2)", True),
        ("mp.Process(target=worker, args=(0,)).start()", True),
        ("for batch in loader: Thread(target=worker).start()", False),
        ("run(worker)", False),
        ("mp.spawn(worker, nprocs=2); run(worker)", False),
    ],
)
def test_a_process_runs_its_function_once(start: str, *, once: bool) -> None:
    module, call = probe(STARTED.format(start=start))
    assert runs_once(module, call) is once


TESTED = "def test_epoch(model, loader):\n    for x in loader:\n        probe()"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("def test():\n    assert probe()", True),
        ("def test() -> None:\n    for x in (1, 2):\n        assert probe() > x", True),
        ("def test_it():\n    probe()", True),
        (f"{TESTED}\n\ntest_epoch(net, rows)", False),
        (TESTED, True),
        ("class Trainer:\n    def test_epoch(self):\n        probe()", False),
        ("def test_shapes(size=8):\n    probe()", True),
        ("import pytest\n\ndef test_it(tmp_path):\n    probe()", True),
        ("class TestNet:\n    def test_forward(self):\n        probe()", True),
        ("def test():\n    print(probe())", False),
        ("def test(model):\n    assert probe()", False),
        ("def check():\n    assert probe()", False),
    ],
)
def test_what_asserts_and_is_called_test_is_one(head: str, expected: bool) -> None:
    found, call = probe(head)
    assert is_benchmark(found, call) is expected


SHOWN = """
def show(model, loader):
    model.eval()
    n = 0
    for i, (x, y) in enumerate(loader):
        out = model(x.cuda())
        probe()
        {end}
"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("if i == 5: break", Grade.COLD),
        ("if i >= 10: return out", Grade.COLD),
        ("n += 1\n        if n > 3: break", Grade.COLD),
        ("if i == 5: print(out)", Grade.EVAL),
        ("if i == 500: break", Grade.EVAL),
        ("if y == 5: break", Grade.EVAL),
        ("if y: n += 1\n        if n > 3: break", Grade.EVAL),
        ("i = 0\n        if i > 3: break", Grade.EVAL),
    ],
)
def test_a_loop_that_leaves_itself_after_a_few_iterations(end: str, expected: Grade) -> None:
    assert grade(SHOWN.format(end=end)) is expected


@pytest.mark.parametrize(("head", "expected"), [("", Grade.COLD), ("epoch", Grade.TRAIN)])
def test_a_few_steps_in_each_epoch_are_many(head: str, expected: Grade) -> None:
    around = "for epoch in range(9):\n" if head else "if True:\n"
    source = (
        "def train(model, loader, optimizer):\n    " + around + "        for i, x in enumerate("
        "loader):\n            model(x).sum().backward()\n            optimizer.step()\n"
        "            probe()\n            if i == 20: break\n"
    )
    assert grade(source) is expected


def test_a_name_that_is_an_interval_is_one_behind_or() -> None:
    body = "due = step % 50 == 0\n            if low or due: probe()"
    assert grade(TRAIN.format(body, "pass", "pass")) is Grade.COLD


@pytest.mark.parametrize(
    ("iterated", "expected"),
    [
        ("loader", Grade.TRAIN),
        ("enumerate(train_loader)", Grade.TRAIN),
        ("range(epochs)", Grade.EPOCH),
        ("loaders", Grade.EPOCH),
    ],
)
def test_a_batch_that_gets_several_steps_is_no_epoch(iterated: str, expected: Grade) -> None:
    source = (
        "def train(model, loader, train_loader, loaders, optimizer, epochs):\n"
        f"    for x in {iterated}:\n"
        "        for part in x:\n"
        "            model(part).sum().backward()\n            optimizer.step()\n"
        "        probe()\n"
    )
    assert grade(source) is expected


SAMPLER = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return self.net(x)

    {off}
    def {name}(self, x: torch.Tensor, steps):
        {first}
        {loop}
            x = {run}
            {inside}
        {last}
        return x
"""


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"first": "probe()"}, Grade.COLD),
        ({"first": "probe()", "name": "denoise"}, Grade.COLD),
        ({"first": "probe()", "name": "decode", "loop": "while x.any():"}, Grade.COLD),
        ({"inside": "probe()"}, Grade.FORWARD),
        ({"last": "probe()"}, Grade.FORWARD),
        ({"first": "probe()", "off": ""}, Grade.FORWARD),
        ({"first": "probe()", "run": "x + 1"}, Grade.FORWARD),
        ({"first": "probe()", "loop": "if steps:"}, Grade.FORWARD),
        ({"first": "probe()", "loop": "for _ in range(2):"}, Grade.FORWARD),
    ],
)
def test_what_comes_once_before_the_runs_of_a_sampler_is_cold(
    parts: dict[str, str], expected: Grade
) -> None:
    usual = {
        "off": "@torch.no_grad()",
        "name": "sample",
        "first": "pass",
        "loop": "for _ in range(steps):",
        "run": "self(x)",
        "inside": "pass",
        "last": "pass",
    }
    assert grade(SAMPLER.format(**usual | parts)) is expected


EXPLAINED = """
import torch

class Attribution:
    def __init__(self, model, layer):
        self.model = model
        {kept}

    def keep(self, module, given, back):
        self.gradients = back[0]

    def __call__(self, x, label):
        scores = self.model(x.requires_grad_())
        {line}
        probe()
        return self.gradients
"""


@pytest.mark.parametrize(
    ("kept", "line", "expected"),
    [
        ("layer.register_forward_hook(self.keep)", "scores[0, label].backward()", Grade.COLD),
        ("self.layer = layer", "score = scores[:, label].sum(); score.backward()", Grade.COLD),
        (
            "layer.register_full_backward_hook(self.keep)",
            "scores.backward(gradient=torch.eye(9)[label])",
            Grade.COLD,
        ),
        (
            "layer.register_full_backward_hook(self.keep)",
            "scores[0, label].backward(); self.optimizer.step()",
            Grade.TRAIN,
        ),
        (
            "self.layer = layer",
            "loss = torch.nn.functional.cross_entropy(scores, label); loss.backward()",
            Grade.TRAIN,
        ),
        ("self.layer = layer", "loss = self.loss(scores[0], label); loss.backward()", Grade.TRAIN),
    ],
)
def test_a_backward_pass_that_explains_a_prediction_is_no_training_step(
    kept: str, line: str, expected: Grade
) -> None:
    assert grade(EXPLAINED.format(kept=kept, line=line)) is expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("(out - y).abs().mean(1).detach().cpu()", Grade.COLD),
        ("loss.detach()", Grade.COLD),
        ("loss.detach().mean() if y is None else loss", Grade.FORWARD),
        ("loss", Grade.FORWARD),
    ],
)
def test_nothing_trains_on_a_loss_that_leaves_its_graph(result: str, expected: Grade) -> None:
    source = f"""
import torch

def sample_loss(out, y):
    loss = torch.abs(out - y).mean(1)
    probe()
    return {result}
"""
    assert grade(source) is expected
