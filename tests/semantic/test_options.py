"""Options that are off by default, and who may turn them on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.semantic.code import options
from torchlint.source.python import around, walk
from torchlint.testing.source import job

TRAINER = """\
import torch


class Trainer:
    def __init__(self, model, loud=False):
        self.model = model
        self.loud = loud

    def fit(self, loader, optimizer):
        for x in loader:
            loss = self.model(x.cuda(non_blocking=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if self.loud:
                print(loss.item())
"""
RUN = "from trainer import Trainer\nprint 'starts'\nmade().fit(batches, steps)\n"


@pytest.mark.parametrize(("more", "severity"), [("Trainer(net, True)\n", "warning"), ("", "info")])
def test_what_does_not_parse_may_turn_an_option_on(
    tmp_path: Path, more: str, severity: str
) -> None:
    (tmp_path / "run.py").write_text(RUN + more, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(TRAINER, encoding="utf-8")
    forget()
    found = analyse_job(job(TRAINER, name="trainer.py", root=str(tmp_path))).findings
    assert [each.severity.value for each in found if each.code == "TL105"] == [severity]


@pytest.mark.parametrize(
    ("text", "parses", "on"),
    [
        ("def run(trainer: Trainer = None):\n    return Trainer.from_file(trainer)\n", 0, False),
        ("run(Trainer\n    (net, True))\n", 1, True),
        (
            "class Loud(Base, Trainer):\n    def f(self):\n        super().__init__(net, True)\n",
            1,
            True,
        ),
        (
            "class Loud(Trainer, Base):\n    def f(self):\n        super().__init__(net, 1)\n",
            1,
            True,
        ),
        (
            "class Loud(trainer.Trainer):\n    def f(self):\n        super().__init__(net)\n",
            1,
            False,
        ),
    ],
)
def test_a_file_that_only_names_a_class_is_not_parsed_for_how_its_objects_are_made(
    monkeypatch: pytest.MonkeyPatch, text: str, parses: int, on: bool
) -> None:
    read: list[str] = []
    parsed = options.parsed
    monkeypatch.setattr(options, "parsed", lambda text: read.append(text) or parsed(text))
    assert options._turned_on_by_place("Trainer", "1", "loud", "True", text) is on
    assert len(read) == parses


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\nmade = Net(\n    2,\n    3,\n)\ny = 2\n",
        "@made(\n    Net(1)\n)\ndef f():\n    def g():\n        pass\n    return Net(2)\n",
        "class Mine(\n    Net,\n):\n    def __init__(self):\n        super().__init__(1)\n",
        "if a:\n    pass\nelse:\n    try:\n        b\n    except E:\n        Net(1)\n",
        "match a:\n    case Net(1):\n        b\n    case _:\n        Net(2)\n",
        "a = 1; b = Net(1); c = 2\r\nd = 3\r\n",
        "a = 'x\x0cy'\n\x0cNet(1)\n",
    ],
)
def test_nodes_around_a_word_are_those_of_the_statements_that_hold_it(text: str) -> None:
    tree = ast.parse(text)
    here = around(tree, text, "Net")
    assert set(here) <= {*walk(tree)}
    found = [[ast.dump(each) for each in args] for args in options._making("Net", here)]
    assert found
    assert found == [
        [ast.dump(each) for each in args] for args in options._making("Net", walk(tree))
    ]


def test_of_a_long_file_the_statements_around_a_word_are_few() -> None:
    text = "".join(f"def f{one}(x):\n    return g(x, {one})\n" for one in range(200)) + "Net(1)\n"
    assert len(around(ast.parse(text), text, "Net")) < 10


LOUD = TRAINER.replace("loud=False", "loud=True")
MAKES = "from trainer import Trainer\nnet = batches = steps = 1\nprint(net.fit)\n"


@pytest.mark.parametrize(
    ("run", "more", "severity"),
    [
        ("Trainer(net, loud=False).fit(batches, steps)", {}, "info"),
        ("Trainer(net, False).fit(batches, steps)", {}, "info"),
        ("made: Trainer\nmade = Trainer(net, False)\nprint(isinstance(made, Trainer))", {}, "info"),
        ("Trainer(net).fit(batches, steps)", {}, "warning"),
        ("Trainer(net, False)\nTrainer(net, True).fit(batches, steps)", {}, "warning"),
        ("Trainer(net, loud=net).fit(batches, steps)", {}, "warning"),
        ("Trainer(*net, loud=False).fit(batches, steps)", {}, "warning"),
        ("Trainer(net, **net).fit(batches, steps)", {}, "warning"),
        ("made = Trainer(net, loud=False)\nmade.loud = steps > 3", {}, "warning"),
        ("made = Trainer(net, loud=False)\nsetattr(made, 'loud', steps)", {}, "warning"),
        ("KINDS = [Trainer]\nTrainer(net, loud=False)", {}, "warning"),
        ("class Mine(Trainer):\n    pass\nTrainer(net, loud=False)", {}, "warning"),
        ("print('Trainer')\nTrainer(net, loud=False)", {}, "warning"),
        ("from trainer import Trainer as T\nT(net)\nTrainer(net, loud=False)", {}, "warning"),
        ("Trainer(net, loud=False)", {"other.py": f"{MAKES}Trainer(net)\n"}, "warning"),
        ("Trainer(net, False)", {"test_a.py": f"import pytest\n{MAKES}Trainer(net)\n"}, "info"),
        ("Trainer(net, False)", {"old.py": f"{MAKES}print 'x'\nTrainer(net)\n"}, "warning"),
    ],
)
def test_an_option_that_every_call_leaves_off(
    tmp_path: Path, run: str, more: dict[str, str], severity: str
) -> None:
    for each, text in {"run.py": f"{MAKES}{run}\n", "trainer.py": LOUD, **more}.items():
        (tmp_path / each).write_text(text, encoding="utf-8")
    forget()
    found = analyse_job(job(LOUD, name="trainer.py", root=str(tmp_path))).findings
    assert [each.severity.value for each in found if each.code == "TL105"] == [severity]


@pytest.mark.parametrize(
    ("kept", "severity"),
    [("loud", "info"), ("not loud", "warning"), ("loud\n        self.loud = 2", "warning")],
)
def test_what_an_object_keeps_of_an_option(tmp_path: Path, kept: str, severity: str) -> None:
    text = LOUD.replace("self.loud = loud", f"self.loud = {kept}")
    run = f"{MAKES}Trainer(net, loud=False).fit(batches, steps)\n"
    (tmp_path / "run.py").write_text(run, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(text, encoding="utf-8")
    forget()
    found = analyse_job(job(text, name="trainer.py", root=str(tmp_path))).findings
    assert [each.severity.value for each in found if each.code == "TL105"] == [severity]


BLOCKS = """
import torch


class Part:
    def __init__(self, loud=True, wide=True):
        self.loud = loud

    def fit(self, model, loader, optimizer):
        for x in loader:
            loss = model(x.cuda(non_blocking=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if self.loud:
                print(loss.item())


class Other:
    pass


class Whole:
    def __init__(self, loud=True, other=False):
        {made}

    def fit(self, *given):
        self.part.fit(*given)
"""


@pytest.mark.parametrize(
    ("made", "run", "severity"),
    [
        ("self.part = Part(loud)", "Whole(False)", "info"),
        ("self.part = Part(loud=loud)", "Whole(loud=False)", "info"),
        ("self.part = Part(loud=loud)", "Whole()", "warning"),
        ("self.part = Part(loud=loud)", "Whole(False)\nWhole(True)", "warning"),
        ("self.part = Part(loud=not loud)", "Whole(False)", "warning"),
        ("loud = loud or other; self.part = Part(loud)", "Whole(False)", "warning"),
        ("kind = Part if not other else Other; self.part = kind(loud)", "Whole(False)", "info"),
        ("kind = Part if not other else Other; self.part = kind()", "Whole(False)", "warning"),
        ("kind = Part; self.part = kind(loud); kind.loud = 2", "Whole(False)", "warning"),
        ("more = dict(loud=loud); self.part = Part(**more)", "Whole(False)", "info"),
        (
            "more = dict(loud=loud); more = dict(**more, wide=1); self.part = Part(**more)",
            "Whole(False)",
            "info",
        ),
        ("more = dict(wide=1); self.part = Part(**more)", "Whole(False)", "warning"),
        (
            "more = dict(loud=loud); more['loud'] = 1; self.part = Part(**more)",
            "Whole(False)",
            "warning",
        ),
        ("more = dict(loud=loud, **other); self.part = Part(**more)", "Whole(False)", "warning"),
        ("self.part = Part(**other)", "Whole(False)", "warning"),
    ],
)
def test_an_option_that_a_constructor_hands_on(
    tmp_path: Path, made: str, run: str, severity: str
) -> None:
    text = BLOCKS.replace("{made}", made)
    start = f"from trainer import Whole\nnet = 1\nprint(net.fit)\n{run}\n"
    (tmp_path / "run.py").write_text(start, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(text, encoding="utf-8")
    forget()
    found = analyse_job(job(text, name="trainer.py", root=str(tmp_path))).findings
    assert [each.severity.value for each in found if each.code == "TL105"] == [severity]


SETTINGS = "class Settings:\n    EXTRA: object = None\n"
NETWORK = """\
import torch
from settings import Settings


def train(model, loader, optimizer):
    for x in loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


class Network:
    def __init__(self, settings: Settings, model):
        self.settings = settings
        self.model = model.cuda()

    def fit(self, loader, optimizer):
        for epoch in range(9):
            if self.settings.EXTRA is not None:
                train(self.model, loader, optimizer)
"""


@pytest.mark.parametrize(
    ("run", "more", "severity"),
    [
        ("network.Network(Settings(), net).fit(batches, steps)\n", "", "info"),
        ("network.Network(Settings(EXTRA=batches), net)\n", "", "warning"),
        ("s = Settings()\ns.EXTRA = batches\n", "", "warning"),
        ("network.train(net, batches, steps)\n", "", "warning"),
        ("", "        train(self.model, loader, optimizer)\n", "warning"),
        ("", "        return map(train, loader)\n", "warning"),
    ],
)
def test_a_function_that_is_called_only_with_an_option(
    tmp_path: Path, run: str, more: str, severity: str
) -> None:
    head = "import network\nfrom settings import Settings\n"
    text = NETWORK + more
    files = {"run.py": f"{head}{run}", "settings.py": SETTINGS, "network.py": text}
    for each, content in files.items():
        (tmp_path / each).write_text(content, encoding="utf-8")
    forget()
    found = analyse_job(job(text, name="network.py", root=str(tmp_path))).findings
    assert [each.severity.value for each in found if each.code == "TL105"] == [severity]


@pytest.mark.parametrize(
    ("kept", "parser", "severity"),
    [
        ("getattr(args, 'loud', False)", "", "info"),
        ("getattr(args, 'loud', False)", "p.add_argument('--loud', default=False)\n", "info"),
        ("getattr(args, 'loud', None)", "", "info"),
        ("getattr(args, 'loud', True)", "", "warning"),
        ("getattr(args, 'loud', False)", "p.add_argument('--loud', default=True)\n", "warning"),
        ("getattr(args, 'loud', False)", "args.loud = batches\n", "warning"),
        ("getattr(args, name, False)", "", "warning"),
    ],
)
def test_an_option_that_is_asked_for_by_its_name(
    tmp_path: Path, kept: str, parser: str, severity: str
) -> None:
    text = TRAINER.replace("model, loud=False", "model, args, name").replace("= loud", f"= {kept}")
    run = f"from trainer import Trainer\n{parser}Trainer(net, args, 'x').fit(batches, steps)\n"
    (tmp_path / "run.py").write_text(run, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(text, encoding="utf-8")
    forget()
    found = analyse_job(job(text, name="trainer.py", root=str(tmp_path))).findings
    assert [each.severity.value for each in found if each.code == "TL105"] == [severity]
