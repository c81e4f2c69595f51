"""TL201 gives a loader all that goes with workers in one edit, in the file's own words where they
can be read at that loader; TL202 and TL103 pin in the same words."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.checking import check, fixed
from torchlint.base.finding import Safety

HEAD = """\
import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
import torchvision
from torchvision.datasets import ImageFolder
{top}

class Photos(Dataset):
    def __init__(self, root):
        self.root = root
        self.cache = {{}}
{init}

    def __getitem__(self, index):
{get}
        return torchvision.io.read_image(self.root + str(index))


def train({params}):
    device = torch.device("cuda")
{before}
    loader = DataLoader({data}, batch_size=4, shuffle=True{more})
{after}
    model = torch.nn.Linear(3, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
{bottom}
"""
GUARD = 'if __name__ == "__main__":\n    pass'
ALONE = ", num_workers=4, pin_memory=torch.cuda.is_available(), persistent_workers=True)"


def program(**parts: str) -> str:
    empty = dict.fromkeys(("top", "init", "before", "after", "more"), "")
    usual = {"get": "        pass", "params": "root", "data": "ImageFolder(root)", "bottom": GUARD}
    return HEAD.format(**{**empty, **usual, **parts})


def made(code: str = "TL201", **parts: str) -> str:
    """Return how the fix makes the loader, on one line."""
    text = program(**parts)
    codes = frozenset((code,))
    after = fixed(text, "unsafe", codes=codes, name="src/train.py", line_length=300).after or text
    ast.parse(after)
    return next(line for line in after.splitlines() if line.startswith("    loader = "))


def fix_of(**parts: str) -> tuple[Safety, str]:
    found = check(program(**parts), codes=frozenset(("TL201",)), name="src/train.py").findings
    fix = next(each.fix for each in found if each.fix is not None)
    return fix.safety, fix.note


def test_a_loader_gets_all_that_goes_with_workers_in_one_edit() -> None:
    assert made().endswith(f"shuffle=True{ALONE}")
    text = program()
    found = check(text, codes=frozenset(("TL201",)), name="src/train.py").findings
    fix = found[0].fix
    assert fix is not None
    words = "".join(edit.text for edit in fix.edits)
    assert all(name in words for name in ("num_workers", "pin_memory", "persistent_workers"))


IMPORTED = "from config import WORKERS\n"
OTHER = "def other(it):\n    return DataLoader(ImageFolder(it), num_workers=WORKERS)"


@pytest.mark.parametrize(
    ("parts", "workers"),
    [
        ({"params": "root, num_workers"}, "num_workers"),
        ({"params": "root, workers=2"}, "workers"),
        ({"top": "NUM_WORKERS = 8"}, "NUM_WORKERS"),
        ({"top": IMPORTED + OTHER}, "WORKERS"),
        ({"before": "    other = DataLoader(ImageFolder(root), num_workers=6)"}, "6"),
        (
            {
                "params": "root, config",
                "before": "    other = DataLoader(ImageFolder(root), num_workers=config.workers)",
            },
            "config.workers",
        ),
        (
            {
                "params": "root, cfg",
                "after": '    other = DataLoader(ImageFolder(root), num_workers=cfg["workers"])',
            },
            'cfg["workers"]',
        ),
        (
            {
                "before": "    parser = argparse.ArgumentParser()\n"
                "    parser.add_argument('--n-workers', type=int)\n"
                "    args = parser.parse_args()"
            },
            "args.n_workers",
        ),
    ],
)
def test_the_file_s_own_word_for_the_number_of_workers_is_used(
    parts: dict[str, str], workers: str
) -> None:
    assert f"num_workers={workers}, " in made(**parts)


@pytest.mark.parametrize(
    ("default", "said"),
    [(", default=0", True), (", type=int, default=0", True), (", default=2", False), ("", False)],
)
def test_an_option_that_is_zero_unless_given_is_told(default: str, said: bool) -> None:
    parser = (
        "    parser = argparse.ArgumentParser()\n"
        f"    parser.add_argument('--workers'{default})\n"
        "    args = parser.parse_args()"
    )
    _, note = fix_of(before=parser)
    assert ("`args.workers` is 0 unless it is given" in note) is said


@pytest.mark.parametrize(
    "parts",
    [
        {"params": "root, worker_id"},
        {"top": "NUM_WORKERS = 0"},
        {"top": OTHER.replace("    return", f"    {IMPORTED}    return")},
        {"after": "    num_workers = 8"},
        {"before": "    if root:\n        num_workers = 8"},
        {"top": "def other(num_workers):\n    return num_workers"},
        {"top": "def other(it):\n    return DataLoader(ImageFolder(it), num_workers=it.workers)"},
        {"before": "    other = DataLoader(ImageFolder(root), num_workers=0)"},
        {"top": "parser = argparse.ArgumentParser()\nparser.add_argument('--n-workers')"},
    ],
)
def test_what_cannot_be_read_there_is_not_used(parts: dict[str, str]) -> None:
    assert made(**parts).endswith(ALONE)


def test_a_number_that_may_be_none_keeps_no_workers_then() -> None:
    assert "persistent_workers=num_workers > 0)" in made(params="root, num_workers")


@pytest.mark.parametrize(
    ("parts", "pin"),
    [
        ({"before": "    use_cuda = torch.cuda.is_available()"}, "use_cuda"),
        ({"before": "    cuda = not root and torch.cuda.is_available()"}, "cuda"),
        ({"top": "CUDA = torch.cuda.is_available()"}, "CUDA"),
        ({"before": "    other = DataLoader(ImageFolder(root), pin_memory=True)"}, "True"),
        ({"after": "    use_cuda = torch.cuda.is_available()"}, "torch.cuda.is_available()"),
        ({"before": "    cuda = not torch.cuda.is_available()"}, "torch.cuda.is_available()"),
        (
            {"before": "    other = DataLoader(ImageFolder(root), pin_memory=False)"},
            "torch.cuda.is_available()",
        ),
    ],
)
@pytest.mark.parametrize("code", ["TL201", "TL202"])
def test_memory_is_pinned_in_the_file_s_own_words(
    code: str, parts: dict[str, str], pin: str
) -> None:
    more = ", num_workers=2" if code == "TL202" else ""
    assert f"pin_memory={pin}" in made(code, more=more, **parts)


def test_what_is_written_as_zero_or_false_is_replaced() -> None:
    line = made(more=", num_workers=0, pin_memory=False")
    assert line.count("num_workers") == line.count("pin_memory") == 1
    assert "num_workers=4, pin_memory=torch.cuda.is_available(), persistent_workers=True" in line


def test_the_note_says_what_workers_need() -> None:
    safety, note = fix_of()
    assert safety is Safety.UNSAFE
    assert "seeds" in note
    assert not any(word in note for word in ("lambda", "guard", "stores", "open file"))


def test_a_lambda_cannot_be_sent_to_a_spawned_worker() -> None:
    held = "transforms.Lambda(lambda x: x)"
    assert "lambda" in fix_of(data=f"ImageFolder(root, transform={held})")[1]
    assert "lambda" not in fix_of(before=f"    unused = {held}")[1]


def test_a_function_of_a_file_without_a_guard_needs_one_in_the_script() -> None:
    safety, note = fix_of(bottom="")
    assert safety is Safety.UNSAFE
    assert "guard" in note


def test_a_script_without_a_guard_is_told_of_it() -> None:
    safety, note = fix_of(bottom="train('photos')")
    assert safety is Safety.UNSAFE
    assert "guard" in note


def test_a_dataset_that_stores_in_itself_is_named() -> None:
    photos = {"data": "Photos(root)"}
    stores = "        self.cache[index] = index"
    assert "stores" in fix_of(get=stores, **photos)[1]
    assert "stores" not in fix_of(get="        cache = index", **photos)[1]


STORES = {"data": "(photos := Photos(root))", "get": "        self.cache[index] = index"}


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "    # must be single process, for the index"},
        {"before": "    # num_workers must be 0 because of h5py"},
        {"more": ",\n  num_workers=0,  # hangs with more\n  "},
    ],
)
def test_a_comment_that_speaks_against_workers_is_believed(parts: dict[str, str]) -> None:
    assert not check(program(**parts), codes=frozenset(("TL201",)), name="src/train.py").findings


@pytest.mark.parametrize(
    "parts",
    [
        {**STORES, "bottom": "    print(loader.dataset.cache)"},
        {**STORES, "bottom": "    print(photos.cache)"},
        {"data": STORES["data"], "get": "        self.cache.update({})"}
        | {"bottom": "    print(photos.cache)"},
    ],
)
def test_what_speaks_against_workers_is_named_and_there_is_no_fix(parts: dict[str, str]) -> None:
    (found,) = check(program(**parts), codes=frozenset(("TL201",)), name="src/train.py").findings
    assert "main process reads" in found.message
    assert found.fix is None


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "    # process the images with the workers' default"},
        {"before": "    # TODO: this needs workers"},
        {"more": ",\n  num_workers=0,  # number of workers\n  "},
        STORES,
        {**STORES, "bottom": "    print(photos.root, model.cache)"},
    ],
)
def test_a_label_or_a_cache_of_its_own_does_not_speak_against_workers(
    parts: dict[str, str],
) -> None:
    assert "seeds" in fix_of(**parts)[1]


def test_a_dataset_that_keeps_a_file_open_gets_a_suggestion() -> None:
    photos = {"data": "Photos(root)", "top": "import h5py"}
    kept = "        self.file = h5py.File(root)"
    closed = "        with h5py.File(root) as file:\n            self.names = list(file)"
    assert fix_of(init=kept, **photos)[0] is Safety.SUGGESTION
    assert fix_of(init=closed, **photos)[0] is Safety.UNSAFE


@pytest.mark.parametrize(
    ("get", "safety"),
    [
        ("        self.rng.shuffle(index)", Safety.SUGGESTION),
        ("        index += self.rng.randint(0, 4)", Safety.SUGGESTION),
        ("        index += self.noise.normal()", Safety.SUGGESTION),
        ("        self.rng.seed(index)", Safety.UNSAFE),
        ("        index += random.randint(0, 4)", Safety.UNSAFE),
        ("        rng = random.Random(index)\n        index += rng.random()", Safety.UNSAFE),
    ],
)
def test_a_dataset_that_draws_from_a_generator_of_its_own_gets_a_suggestion(
    get: str, safety: Safety
) -> None:
    photos = {"data": "Photos(root)", "top": "import random"}
    found, note = fix_of(get=get, **photos)
    assert found is safety
    assert ("worker_init_fn" in note) is (safety is Safety.SUGGESTION)


def test_white_space_at_the_end_of_a_line_is_not_repeated() -> None:
    text = program(more=", \n        num_workers=2")
    text = text.replace("batch_size=4, shuffle", "batch_size=4, \n        shuffle")
    new = fixed(text, "unsafe", codes=frozenset(("TL202",)), name="src/train.py").after
    assert "        num_workers=2,\n        pin_memory=torch.cuda.is_available())" in new


@pytest.mark.parametrize("end", ["", ","], ids=["without a comma", "with a comma"])
def test_a_comment_stays_behind_its_argument(end: str) -> None:
    lines = [
        "loader = DataLoader(",
        "    data,",
        "    batch_size=4,",
        f"    shuffle=True{end}  # x",
    ]
    before = program().replace(
        "loader = DataLoader(ImageFolder(root), batch_size=4, shuffle=True)",
        "data = ImageFolder(root)\n    " + "\n    ".join([*lines, ")"]),
    )
    after = fixed(before, "unsafe", codes=frozenset({"TL201"})).after
    assert "        shuffle=True,  # x\n        num_workers=4,\n        pin_memory=" in after
    assert after.count("# x") == 1
    ast.parse(after)


def test_a_comment_behind_the_bracket_stays_with_the_last_argument() -> None:
    lines = ["loader = DataLoader(data,", "    batch_size=4,", "    shuffle=True)  # in any order"]
    before = program().replace(
        "loader = DataLoader(ImageFolder(root), batch_size=4, shuffle=True)",
        "data = ImageFolder(root)\n    " + "\n    ".join(lines),
    )
    after = fixed(before, "unsafe", codes=frozenset({"TL201"})).after
    assert "batch_size=4,\n        num_workers=4,\n        pin_memory=" in after
    assert "\n        shuffle=True)  # in any order\n" in after
    ast.parse(after)


def test_new_arguments_are_spaced_as_the_others() -> None:
    before = program().replace("shuffle=True)", "shuffle = True)")
    after = fixed(before, "unsafe", codes=frozenset({"TL201"})).after
    assert "num_workers = 4" in after
    assert "=4" not in after.replace("batch_size=4", "")


MADE = """
import torchvision
from torch.utils.data import DataLoader


def held_out_loader(root):
    return DataLoader(torchvision.datasets.ImageFolder(root), batch_size=1, num_workers=0)


def photos_loader(root):
    return DataLoader(torchvision.datasets.ImageFolder(root), shuffle=True, num_workers=0)
"""
SCRIPT = """from made import held_out_loader, photos_loader

ROOT = {root}
{call}print(photos_loader, globals())
"""
TOP = "for x, y in held_out_loader(ROOT):\n    print(x.cuda())\n"
ALL = "loader = held_out_loader(\n    ROOT,\n)\nphotos = photos_loader(ROOT)\n"
GUARDED = 'if __name__ == "__main__":\n    loader = held_out_loader(ROOT)\n'
INSIDE = "def run():\n    loader = held_out_loader(ROOT)\n"
DRIVE, MOUNT = "r'C:\\Users\\me\\photos'", "'/home/me/photos'"


@pytest.mark.parametrize(
    ("root", "call", "found"),
    [
        (DRIVE, TOP, [11]),
        ("'D:/photos'", ALL, [11]),
        ("'D:\\\\photos'", ALL, [11]),
        ("r'E:\\validation'", ALL, [11]),
        ("R'E:\\new'", TOP, [11]),
        ("'E:\\validation'", TOP, [7, 11]),  # \\v stands for one character.
        (MOUNT, TOP, [7, 11]),
        ("'s3:photos'", TOP, [7, 11]),
        (DRIVE, GUARDED, [7, 11]),
        (DRIVE, INSIDE, [7, 11]),
    ],
)
def test_a_script_of_windows_without_a_guard_takes_no_workers(
    tmp_path: Path, root: str, call: str, found: list[int]
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(root=root, call=call))
    (tmp_path / "made.py").write_text(MADE)
    report = check(MADE, codes=frozenset({"TL201"}), name="made.py", root=str(tmp_path))
    assert [each.start.row for each in report.findings] == found


CELL = """\
import torch
import torchvision
from torch.utils.data import DataLoader, Dataset

class Photos(Dataset):
    def __getitem__(self, index):
        return torchvision.io.read_image(str(index))

model = torch.nn.Linear(3, 3).to("cuda")
train_loader = DataLoader(Photos(), batch_size=4, shuffle=True)
test_loader = DataLoader(Photos(), batch_size=4)
with torch.no_grad():
    for x in test_loader:
        print(model(x.to("cuda")).sum())
"""


@pytest.mark.parametrize(("name", "found"), [("look.ipynb", [11]), ("look.py", [10, 11])])
def test_a_notebook_alone_reads_its_loaders(tmp_path: Path, name: str, found: list[int]) -> None:
    report = check(CELL, codes=frozenset({"TL201"}), name=name, root=str(tmp_path))
    assert [each.start.row for each in report.findings] == found


KEPT = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

loader = DataLoader(ImageFolder("photos"), batch_size=4, shuffle=True, num_workers=2)
for epoch in range(9):
    for x, y in loader:
        print(x.cuda().sum())
"""


@pytest.mark.parametrize(("target", "found"), [((1, 6), []), ((1, 7), ["TL208"])])
def test_a_torch_that_keeps_no_workers_is_asked_for_none(
    target: tuple[int, int], found: list[str]
) -> None:
    report = check(KEPT, codes=frozenset({"TL208"}), target_torch=target)
    assert [each.code for each in report.findings] == found


CONFIGURED = """\
import torch
import torchvision
from torch.utils.data import DataLoader
from options import parsed

model = torch.nn.Linear(3, 3).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=parsed({}))


def train(root):
    {loop}photos = DataLoader(torchvision.datasets.ImageFolder(root), shuffle=True)
    {indent}for x, _ in photos:
        {indent}model(x.to("cuda")).sum().backward()
        {indent}optimizer.step()


train("photos")
"""


@pytest.mark.parametrize(
    ("options", "loop", "safety"),
    [
        ("return given['lr']", "", Safety.UNSAFE),
        ("return given['num_workers']", "", Safety.SUGGESTION),
        ("num_workers = 2", "", Safety.UNSAFE),
        ("return given['lr']", "for epoch in range(9):\n        ", Safety.SUGGESTION),
    ],
)
def test_a_number_is_written_where_nothing_else_sets_it(
    tmp_path: Path, options: str, loop: str, safety: Safety
) -> None:
    (tmp_path / "options.py").write_text(f"def parsed(given):\n    {options}\n")
    source = CONFIGURED.replace("{loop}", loop).replace("{indent}", "    " if loop else "")
    (tmp_path / "train.py").write_text(source)
    report = check(source, codes=frozenset({"TL201"}), name="train.py", root=str(tmp_path))
    assert [each.fix and each.fix.safety for each in report.findings] == [safety]


PINNED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(8, 1).to("cuda" if torch.cuda.is_available() else "cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(rows):
    for x in DataLoader(rows, shuffle=True, num_workers=2, pin_memory=True):
        model(x.cuda(non_blocking=True)).mean().backward()
        optimizer.step()
    {again}


def score(rows):
    {loop}
"""
LOOP = "for x in DataLoader(rows, num_workers=2):\n        print(model(x.cuda()).mean())"


@pytest.mark.parametrize(
    ("again", "loop", "pin"),
    [("pass", LOOP, "torch.cuda.is_available()"), (LOOP, "return rows", "True")],
)
def test_pinned_memory_is_asked_for_where_another_function_alone_has_it(
    again: str, loop: str, pin: str
) -> None:
    after = fixed(PINNED.format(again=again, loop=loop), "safe", codes=frozenset({"TL202"})).after
    assert after is not None
    assert f"DataLoader(rows, num_workers=2, pin_memory={pin})" in after
