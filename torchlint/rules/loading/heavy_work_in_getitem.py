"""Read and build once what every sample needs

## Why
`__getitem__` runs for every sample of every epoch. What does not depend on the index gives the same
each time: a table or an index file that is read again, a tokenizer that is loaded again, a pipeline
of transforms that is built again. A folder that is searched for a sample's file is read whole, and
each of its names is compared, for every sample. And a row of a DataFrame is a new Series, which
costs far more than the row of a tensor (PyTorch docs, data loading tutorial: read the annotations
in `__init__`, leave the reading of images to `__getitem__`).

Flagged, in `__getitem__` of a dataset, in a collate function, or in a function that only these
call: a read of a whole file, a pretrained model or tokenizer, a `Compose` of transforms, an HDF5
or LMDB file that is opened, or the tokens of a text that is written out, where no argument depends
on the sample; a folder that is listed, or
searched with a pattern (`glob`), where it is the same for all samples; rows of a table that are
looked for by comparing a whole column with each sample's key (`frame[frame["id"] == key]`); and a
row of a DataFrame (`frame.iloc[index]`, `frame.loc[key]`) where the sample takes no reading,
decoding or transforming beside. Pipelines, opened files and rows looked for beside such work are a
hint only. So is a table of numbers that each sample parses from a text of its own (`np.loadtxt`,
`pd.read_csv`), where nothing is decoded or transformed beside it and no part of it is asked for: in
an array that is made once, `np.load` reads the numbers as they are. Also a sample of a dataset that
the same code has made before, `data[i]["mask"]` behind `data[i]["image"]`, in the making of another
sample or in a loop, unless samples are known to cost nothing. As a hint, one number that
`np.random.choice` draws out of a `range` of as many as the sample has.

## Setup
```python
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

root = Path(tempfile.mkdtemp())
(root / "labels.json").write_text(json.dumps([0, 1] * 8))
np.save(root / "rows.npy", np.ones((16, 4), dtype=np.float32))
```

## Bad
```python
class Labelled(Dataset):
    def __init__(self, root):
        self.root = root

    def __len__(self):
        return 16

    def __getitem__(self, index):
        with open(self.root / "labels.json") as file:
            labels = torch.tensor(json.load(file))
        return torch.ones(4), labels[index]


labelled = Labelled(root)
first = labelled[0]
```

## Good
```python
class Labelled(Dataset):
    def __init__(self, root):
        with open(root / "labels.json") as file:
            self.labels = torch.tensor(json.load(file))

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.ones(4), self.labels[index]


labelled = Labelled(root)
first = labelled[0]
```

## Leave alone
A file per sample.
```python
class Files(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return np.load(self.paths[index])
```

A handle that is opened lazily and kept: the right way for worker processes.
```python
import h5py


class Lazy(Dataset):
    file = None

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File("rows.h5")
        return self.file["x"][index]
```

## Fix safety
No fix is offered: what is kept on the dataset takes memory in each worker, and may need another
layout.

## Measure
Sixteen samples. A gain can be expected on a CPU, too: what is saved is reading and parsing the file
for each of them.
```python
(root / "labels.json").write_text(json.dumps([0, 1] * 2048))
```

```python
for index in range(16):
    sample = labelled[index]
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, Severity, conditions_around, keyword_argument
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import call_sites, writes_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import DISPLAYS, attr_of, keyword_of, last_name, method_called
from torchlint.semantic.data.datasets import dataset_cost, does_work, holds_samples
from torchlint.semantic.data.samples import is_fixed, loader_unit
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question

_READS = regex(
    r"^(pandas\.read_\w+|numpy\.(load|loadtxt|genfromtxt|fromfile)|torch\.load|joblib\.load|scipy\.io\.loadmat|"
    r"(json|pickle|yaml|dill|marshal)\.(safe_)?load|pyarrow\.parquet\.read_\w+|polars\.read_\w+)$"
)
_PARSES = regex(r"^(numpy\.(loadtxt|genfromtxt)|pandas\.read_(csv|table|fwf|excel))$")
_PARTS = {"max_rows", "nrows", "chunksize", "iterator", "usecols"}
_BESIDE = regex(r"imread|ima?ge?|load(er)?$|_load|decode|transform|augment", re.IGNORECASE)
_PATHS = {"os.path.join", "pathlib.Path", "builtins.str"}
_WILD = regex(r"[*?\[]")
_HANDLES = regex(
    r"^(h5py\.File|lmdb\.open|zipfile\.ZipFile|tarfile\.open|sqlite3\.connect|netCDF4\.Dataset)$"
)
_MODELS = regex(
    r"(^torch\.hub\.load|\.from_pretrained|^transformers\.pipeline|^torchvision\.models\.[a-z]\w+)$"
)
_TOKENIZER = regex(r"(^|_)tokeni[sz]er$")
_LISTS = ("os.listdir", "os.scandir", "os.walk")
_COMPOSE = regex(r"^torchvision\.transforms\.(v2\.)?Compose$")
_TRANSFORM = regex(r"^torchvision\.transforms\.(v2\.)?[A-Z]\w+$")
_FRAME = regex(
    r"(df|data|frame|table|csv|annot\w*|labels?|samples|records|landmarks\w*|index|meta\w*)$",
    re.IGNORECASE,
)
_LISTED = (
    "{what} lists a whole folder for every {unit}; list it once in __init__ and keep the names."
)
_SCANNED = (
    "{what} compares a whole column for every sample; group the rows once in __init__ (groupby)."
)
_PARSED = (
    "{what} parses text for every sample of every epoch; written once as .npy, np.load reads the "
    "numbers many times faster, unless they are few."
)
_DRAWN = (
    "`{what}` makes an array of all numbers of a range, for every sample, to draw one; "
    "np.random.randint draws it without."
)
_AGAIN = "`{what}` makes the same sample a second time; keep the first."
_KEEP = "{what} is opened again for every {unit}; open it once per worker and keep it on self."

_SETS = ("set", "ds")
_FETCHES = ("__getitem__", "ollat")
"""One of these stands in a file that makes samples or batches of them."""

rule = Rule(
    __name__,
    __doc__,
    code="TL205",
    message="{what} is repeated for every {unit}; do it once in __init__ or offline.",
    severity="warning",
    default=True,
    effect="sample",
    triggers=(b"__getitem__", b"ollat", b"set[", b"ds["),
    equivalence="bitwise",
)


def _makes_samples(module: Module) -> bool:
    """Say whether a file may make samples, or batches of them."""
    return any(word in module.text for word in _FETCHES)


@rule.on(cst.Call, file=_makes_samples)
def check_call(node: cst.Call, module: Module) -> Iterator[Hit]:
    name = module.name(node.func) or f".{method_called(node)}"
    reads, handle, compose = _READS.match(name), _HANDLES.match(name), _COMPOSE.match(name)
    if not (reads or handle or compose or _MODELS.search(name) or _tokenizes_text(node)):
        return
    unit = loader_unit(module, node)
    function = module.function(node)
    if (
        unit in (None, "stream")
        or function is None
        or keyword_argument(module, node, "mmap_mode") is not None
    ):
        return
    what = f"{module.shown(node.func)}(…)"
    if unit == "sample" and _PARSES.match(name) and _is_own_table(module, node, function):
        yield Hit(node, {"what": what}, None, Severity.INFO, _PARSED)
    if _is_cached(module, node, function) or not all(
        _is_same_for_all(module, arg.value, function) for arg in node.args
    ):
        return
    words = {"what": what, "unit": f"{unit}"}
    severity = Severity.INFO if handle or compose else None
    if not _beside_another(module, node):
        yield Hit(node, words, severity=severity, message=_KEEP if handle else None)


def _tokenizes_text(node: cst.Call) -> bool:
    """Say whether a tokenizer is given a text that is written out: ``self.tokenizer("", 16)``."""
    written = bool(node.args) and isinstance(node.args[0].value, cst.SimpleString)
    return written and _TOKENIZER.search(last_name(node.func)) is not None


def _is_own_table(module: Module, node: cst.Call, function: cst.FunctionDef) -> bool:
    """Say whether a call parses the whole of a file that is the sample's own, and all that the
    sample costs."""
    if not node.args or any(keyword_of(arg) in _PARTS for arg in node.args):
        return False
    path = node.args[0].value
    made = sole_definition(module, path) or path
    named = not isinstance(made, cst.Call) or module.called(made) in _PATHS
    return named and not is_fixed(module, path, function) and _alone_in_sample(module, node)


@question(yes="each sample does it, and little beside", no="it is kept, or other work is beside it")
def _alone_in_sample(module: Module, node: cst.Call) -> bool:
    """Say whether what calls for a sample neither keeps what a call gives nor decodes or transforms
    beside it."""
    function = module.function(node)
    if function is None or _is_cached(module, node, function):
        return False
    if any(_BESIDE.search(module.source_of(c.func)) for c in module.within(function, cst.Call)):
        return False
    sites = call_sites(module, function)
    return function.name.value == "__getitem__" or all(_alone_in_sample(module, c) for c in sites)


def _beside_another(module: Module, node: cst.Call) -> bool:
    """Say whether a ``with`` opens another file before, and in the same way: ``with File(a) as x,
    File(b) as y``."""
    block = module.parent(module.parent(node) or node)
    first = block.items[0].item if isinstance(block, cst.With) else node
    return first is not node and isinstance(first, cst.Call) and first.func.deep_equals(node.func)


@rule.call("numpy.random.choice")
def check_drawn(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a number that is drawn out of an array which is made of a range for it."""
    match node.args:
        case [cst.Arg(cst.Call(func, bounds), keyword=None)] if (
            module.name(func) in ("builtins.range", "numpy.arange")
            and not all(isinstance(each.value, cst.Integer) for each in bounds)
            and loader_unit(module, node) == "sample"
        ):
            words = {"what": module.shown(node)}
            yield Hit(node, words, severity=Severity.INFO, message=_DRAWN)


@rule.on(cst.Subscript)
def check_again(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    """Find a sample that is made again for another part of it: ``data[i]["mask"]`` behind
    ``data[i]["image"]``."""
    held = node.value
    match node.slice:
        case [cst.SubscriptElement(cst.Index(cst.Name() | cst.BinaryOperation()))]:
            pass
        case _:
            return
    if module.text.count(f"{module.source_of(held)}[") == 1:
        return
    if not last_name(held).endswith(_SETS) and not _makes_samples(module):
        return
    if not holds_samples(module, held) or dataset_cost(module, held) is False:
        return
    if loader_unit(module, node) != "sample" and not module.loops(node):
        return
    alike = (each for each in module.within(module.scope(node), cst.Subscript))
    if any(_makes_the_same(module, each, node) for each in alike):
        yield Hit(node, {"what": module.shown(node)}, message=_AGAIN)


def _makes_the_same(module: Module, first: cst.CSTNode, again: cst.Subscript) -> bool:
    """Say whether a subscript runs before another one that is written alike, in the same iteration,
    and means the same."""
    suite = module.parent(module.statement(first))
    return (
        module.before(first, again)
        and first.deep_equals(again)
        and suite is not None
        and module.is_within(again, suite)
        and all(
            module.is_label(one) or definitions_of(module, one) == definitions_of(module, two)
            for one, two in zip(
                module.within(first, cst.Name), module.within(again, cst.Name), strict=True
            )
        )
    )


@rule.on(cst.Call, file=_makes_samples)
def check_folder(node: cst.Call, module: Module) -> Iterator[Hit]:
    listed = _listed(module, node)
    function = module.function(node)
    if not listed or function is None or loader_unit(module, node) in (None, "stream"):
        return
    if all(is_fixed(module, part, function) for part in listed) and not _is_cached(
        module, node, function
    ):
        words = {"what": f"{module.shown(node.func)}(…)", "unit": f"{loader_unit(module, node)}"}
        yield Hit(node, words, message=_LISTED)


@rule.on(cst.Subscript, file=_makes_samples)
def check_row(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    frame = node.value
    if not isinstance(frame, cst.Attribute) or frame.attr.value not in ("iloc", "loc"):
        return
    function = module.function(node)
    if function is None or loader_unit(module, node) != "sample":
        return
    if said_somewhere(module, _has_rows):
        return
    works = does_work(module, function)
    if works is True:
        return
    if frame.attr.value == "loc" and not _FRAME.search(module.source_of(frame.value)):
        return
    if all(is_fixed(module, part, function) for part in node.slice) or not _is_first(
        module, node, function
    ):
        return
    severity = None if works is False else Severity.INFO
    words = {"what": f"row access by {module.shown(frame)}[…]", "unit": "sample"}
    yield Hit(node, words, severity=severity)


@rule.on(cst.Subscript, file=_makes_samples)
def check_rows_of(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    """Find rows of a table that are looked for by comparing a column with each sample's key:
    ``self.frame[self.frame["id"] == key]``."""
    table = node.value
    if isinstance(table, cst.Attribute) and table.attr.value == "loc":
        table = table.value
    function = module.function(node)
    match node.slice:
        case [
            cst.SubscriptElement(
                cst.Index(
                    cst.Comparison(
                        cst.Subscript(column) | cst.Attribute(column),
                        [cst.ComparisonTarget(cst.Equal(), key)],
                    )
                )
            ),
            *_,
        ] if (
            function is not None
            and column.deep_equals(table)
            and loader_unit(module, node) == "sample"
            and is_fixed(module, table, function)
            and not is_fixed(module, key, function)
        ):
            severity = Severity.INFO if does_work(module, function) is True else None
            yield Hit(node, {"what": module.shown(node)}, severity=severity, message=_SCANNED)


def _listed(module: Module, node: cst.Call) -> list[cst.BaseExpression]:
    """Return what says which folder a call lists: its path, or of a pattern what stands before the
    first wildcard's component; nothing where that is not known."""
    name, func = module.called(node), node.func
    if not node.args:
        return []
    pattern = node.args[0].value
    if name in _LISTS:
        return [pattern]
    if name in ("glob.glob", "glob.iglob"):
        return _folder(_pieces(module, pattern)) or []
    if isinstance(func, cst.Attribute) and func.attr.value in ("glob", "rglob") and not name:
        found = _folder(_pieces(module, pattern))
        return [] if found is None else [func.value, *found]
    return []


def _pieces(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression | str]:
    """Return what a path is put together from: its texts, and the expressions between them."""
    node = sole_definition(module, node) or node
    match node:
        case cst.SimpleString():
            return [str(node.evaluated_value)]
        case cst.FormattedString(parts=parts):
            return [
                p.value if isinstance(p, cst.FormattedStringText) else p.expression
                for p in parts
                if isinstance(p, (cst.FormattedStringText, cst.FormattedStringExpression))
            ]
        case cst.BinaryOperation(operator=cst.Add(), left=left, right=right):
            return [*_pieces(module, left), *_pieces(module, right)]
        case cst.BinaryOperation(operator=cst.Divide(), left=left, right=right):
            return [*_pieces(module, left), "/", *_pieces(module, right)]
        case cst.Call(args=args) if module.name(node.func) == "os.path.join":
            return [p for arg in args for p in ("/", *_pieces(module, arg.value))][1:]
        case cst.Call(args=[arg]) if module.name(node.func) == "builtins.str":
            return _pieces(module, arg.value)
    return [node]


def _folder(pieces: list[cst.BaseExpression | str]) -> list[cst.BaseExpression] | None:
    """Return the expressions in the folder of a pattern whose last component has the first
    wildcard; None where the pattern is not so, or has no wildcard in sight."""
    folder: list[cst.BaseExpression] = []
    component: list[cst.BaseExpression] = []
    wild = False
    for piece in pieces:
        if not isinstance(piece, str):
            component.append(piece)
            continue
        head, *rest = _WILD.split(piece, maxsplit=1)
        if (wild and "/" in piece) or (rest and "/" in rest[0]):
            return None
        if not wild and "/" in head:
            folder, component = [*folder, *component], []
        wild = wild or bool(rest)
    return folder if wild else None


def _has_rows(text: str) -> bool:
    """Say whether a file has a class with rows of its own, which are no table's of pandas."""
    return "def iloc(" in text


def _is_first(module: Module, node: cst.Subscript, function: cst.FunctionDef) -> bool:
    """Say whether no row is taken earlier in the same function: one finding speaks for all."""
    rows = [
        each
        for each in module.within(function, cst.Subscript)
        if attr_of(each.value) in ("iloc", "loc")
    ]
    return rows[0] is node


def _is_cached(module: Module, node: cst.Call, function: cst.FunctionDef) -> bool:
    """Say whether a decorator or a condition spares later samples the work."""
    if any("cache" in module.source_of(decorator.decorator) for decorator in function.decorators):
        return True
    return any(not is_fixed(module, test, function) for test, _ in conditions_around(module, node))


def _opened(module: Module, file: cst.Name, function: cst.FunctionDef) -> list[cst.Call]:
    """Return the calls whose results ``with`` binds to a name in a function."""
    found = []
    for write in writes_of(module, function, file.value):
        item = next(
            (
                a
                for a in module.ancestors(write)
                if isinstance(a, (cst.WithItem, cst.BaseStatement))
            ),
            None,
        )
        if isinstance(item, cst.WithItem) and isinstance(item.item, cst.Call):
            found.append(item.item)
    return found


def _is_same_for_all(module: Module, data: cst.BaseExpression, function: cst.FunctionDef) -> bool:
    """Say whether an argument is the same for every sample; an open file is where its path is."""
    opened = _opened(module, data, function) if isinstance(data, cst.Name) else []
    if opened:
        parts = [arg.value for call in opened for arg in call.args]
        parts += [call.func.value for call in opened if isinstance(call.func, cst.Attribute)]
        return all(_is_same_for_all(module, part, function) for part in parts)
    if isinstance(data, cst.Call):
        name = module.called(data)
        if name == "builtins.open" or _TRANSFORM.match(name):
            return all(_is_same_for_all(module, arg.value, function) for arg in data.args)
    if isinstance(data, DISPLAYS):
        return all(_is_same_for_all(module, element.value, function) for element in data.elements)
    return is_fixed(module, data, function)
