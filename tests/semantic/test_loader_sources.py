"""Which loaders make a batch is known where every way back to a DataLoader is certain, through any
files."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import libcst as cst
import pytest

from tests.semantic.test_project import analysed
from torchlint.semantic.data.loader_flow import loaders_of_batch

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
LOOP = "def epoch(loader, device):\n    for x, y in loader:\n        x.to(device)\n"


def known(folder: Path, files: Mapping[str, str], name: str = "train.py") -> list[str]:
    """Return the datasets of the loaders that are known to make what ``x.to(device)`` moves."""
    texts = {each: HEAD + textwrap.dedent(text) for each, text in files.items()}
    module = analysed(folder, texts, name)
    (call,) = (
        each
        for each in module.nodes(cst.Call)
        if isinstance(each.func, cst.Attribute) and each.func.attr.value == "to"
    )
    assert isinstance(call.func, cst.Attribute)
    found = loaders_of_batch(module, call.func.value)
    return [
        f"{Path(where.path).stem}:{where.source_of(made.args[0].value)}" for where, made in found
    ]


FOUND = {
    "returned": (
        "from data import get\nfor x, y in get(2):\n    x.to(device)\n",
        "def get(n):\n    return DataLoader(a, n)\n",
        ["data:a"],
    ),
    "one of two": (
        "from data import get\nval, train = get()\nfor x, y in train:\n    x.to(device)\n",
        "def get():\n    t = DataLoader(a)\n    v = DataLoader(b)\n    return v, t\n",
        ["data:a"],
    ),
    "by a key": (
        "import data\nloaders = data.get()\nfor x in loaders['train']:\n    x.to(device)\n",
        "def get():\n    return {'train': DataLoader(a), 'val': DataLoader(b)}\n",
        ["data:a"],
    ),
    "each way": (
        "from data import get\nfor x in get():\n    x.to(device)\n",
        "def get(q):\n    if q:\n        return DataLoader(a)\n    return DataLoader(b)\n",
        ["data:a", "data:b"],
    ),
    "the first batches": (
        "from data import get\nfrom itertools import islice\n"
        "for x, y in islice(get(), 9):\n    x.to(device)\n",
        "def get():\n    return DataLoader(a)\n",
        ["data:a"],
    ),
    "counted, with a bar": (
        "from data import get\nfrom tqdm import tqdm\nbar = tqdm(get())\n"
        "for i, (x, y) in enumerate(bar):\n    x.to(device)\n",
        "def get():\n    return DataLoader(a)\n",
        ["data:a"],
    ),
    "unpacked in the loop": (
        "from data import get\nfor batch in get():\n    x, y = batch\n    x.to(device)\n",
        "def get():\n    return DataLoader(a)\n",
        ["data:a"],
    ),
    "given to the step": (
        "from data import get\ndef step(batch):\n    x = batch['x']\n    x.to(device)\n"
        "for batch in get():\n    step(batch)\n",
        "def get():\n    return DataLoader(a)\n",
        ["data:a"],
    ),
    "a bar of a with statement": (
        "from data import get\nfrom tqdm import tqdm\nwith tqdm(get()) as bar:\n"
        "    for i, (x, y) in enumerate(bar):\n        x.to(device)\n",
        "def get():\n    return DataLoader(a)\n",
        ["data:a"],
    ),
    "nothing where there is none": (
        "from data import get\nfor x in get(2):\n    x.to(device)\n",
        "def get(q):\n    if not q:\n        return False\n    return DataLoader(a)\n",
        ["data:a"],
    ),
    "one way or the other, bound anew below": (
        "from data import get\nfor batch in get():\n    x, y = batch\n"
        "    x = x.cuda(0) if many else x.to(device)\n    x = mixed(x, y)\n",
        "def get():\n    return DataLoader(a)\n",
        ["data:a"],
    ),
    "inside an epoch loop": (
        "from data import get\nloader = get()\nfor e in range(3):\n    for x, y in loader:\n"
        "        x.to(device)\n",
        "def get():\n    return DataLoader(a)\n",
        ["data:a"],
    ),
}


MIXED = {
    "bound anew above": "from data import get\nfor x in get():\n    x = mixed(x)\n"
    "    x.to(device)\n",
    "bound anew on one way": "from data import get\nfor x in get():\n    if q:\n"
    "        x = mixed(x)\n    x.to(device)\n",
    "left from the iteration before": "from data import get\nfor i, batch in enumerate(get()):\n"
    "    if i % 2:\n        x = batch\n    x.to(device)\n    x = mixed(x)\n",
    "another object of a with statement": "from data import get\nwith opened(get()) as bar:\n"
    "    for x in bar:\n        x.to(device)\n",
}


@pytest.mark.parametrize("case", MIXED)
def test_what_may_be_something_else_is_not_known(tmp_path: Path, case: str) -> None:
    data = "def get():\n    return DataLoader(a)\n"
    assert known(tmp_path, {"train.py": MIXED[case], "data.py": data}) == []


@pytest.mark.parametrize("case", FOUND)
def test_loaders_of_another_file_are_found(tmp_path: Path, case: str) -> None:
    train, data, wanted = FOUND[case]
    assert known(tmp_path, {"train.py": train, "data.py": data}) == wanted


def test_three_files_are_followed(tmp_path: Path) -> None:
    main = """
        from data import get
        from train import epoch
        def main():
            train, val = get()
            epoch(train, "cuda")
    """
    data = "def get():\n    return DataLoader(a), DataLoader(b)\n"
    files = {"train.py": LOOP, "main.py": main, "data.py": data}
    assert known(tmp_path, files) == ["data:a"]
    more = "\n    epoch(val, 'cuda')\n"
    files["main.py"] = textwrap.dedent(main).rstrip() + more
    assert known(tmp_path, files) == ["data:a", "data:b"]
    files["main.py"] = textwrap.dedent(main).rstrip() + "\n    epoch(load(), 'cuda')\n"
    assert known(tmp_path, files) == []


def test_what_a_trainer_is_given_is_followed(tmp_path: Path) -> None:
    train = """
        class Trainer:
            def __init__(self, model, loader):
                self.model, self.loader = model, loader
            def fit(self):
                for x, y in self.loader:
                    x.to(device)
    """
    main = """
        from train import Trainer
        Trainer(net, {}).fit()
    """
    files = {"train.py": train, "main.py": main.format("DataLoader(a)")}
    assert known(tmp_path, files) == ["main:a"]
    files["main.py"] = main.format("loader=DataLoader(a)")
    assert known(tmp_path, files) == ["main:a"]
    files["main.py"] = main.format("*parts")
    assert known(tmp_path, files) == []


HOLDER = """
class Data:
    def __init__(self):
        self.train = DataLoader(a)
        self.val = None
    def loader(self):
        return DataLoader(b)
"""


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("data.train", ["data:a"]),
        ("data.loader()", ["data:b"]),
        ("data.val", []),
        ("data.test", []),
        ("data.other()", []),
    ],
)
def test_what_an_object_holds_or_gives_is_followed(
    tmp_path: Path, made: str, wanted: list[str]
) -> None:
    train = f"from data import Data\ndata = Data()\nfor x, y in {made}:\n    x.to(device)\n"
    assert known(tmp_path, {"train.py": train, "data.py": HOLDER}) == wanted


def test_what_a_base_class_of_another_file_makes_is_followed(tmp_path: Path) -> None:
    train = """
        from data import Data
        class Trainer(Data):
            def fit(self):
                for x, y in self.train:
                    x.to(device)
    """
    assert known(tmp_path, {"train.py": train, "data.py": HOLDER}) == ["data:a"]


UNKNOWN = {
    "prepared by somebody": "def get():\n    return prepare(DataLoader(a))\n",
    "bound twice": "def get(q):\n    d = DataLoader(a)\n    d = wrap(d)\n    return d\n",
    "one way is not known": (
        "def get(q):\n    if q:\n        return other()\n    return DataLoader(a)\n"
    ),
    "handed on batch by batch": "def get():\n    for each in DataLoader(a):\n        yield each\n",
    "decorated": "@cached\ndef get():\n    return DataLoader(a)\n",
    "nothing returned": "def get():\n    DataLoader(a)\n",
    "returned twice over": "def get():\n    return [*more, DataLoader(a)]\n",
    "from itself": "def get():\n    return get()\n",
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_certain_is_not_known(tmp_path: Path, case: str) -> None:
    train = "from data import get\nfor x in get():\n    x.to(device)\n"
    assert known(tmp_path, {"train.py": train, "data.py": UNKNOWN[case]}) == []


@pytest.mark.parametrize(
    "train",
    [
        "def step(batch):\n    batch.to(device)\n",
        "def step(batch, loader):\n    for i in range(3):\n        batch.to(device)\n",
        "from data import get\nfor x in get():\n    z.to(device)\n",
        "from data import get\nfor x in get()[name]:\n    x.to(device)\n",
    ],
)
def test_what_no_loop_hands_out_is_not_known(tmp_path: Path, train: str) -> None:
    data = "def get():\n    return DataLoader(a)\n"
    assert known(tmp_path, {"train.py": train, "data.py": data}) == []
