"""What libraries, options and texts give is on the host; what only looks like it stays unknown."""

from __future__ import annotations

import pytest

from tests.semantic.test_values import value_of

HEAD = """
import argparse
import itertools
import json
import math
import os
import random
import cv2
import torch.distributed as dist
from lib.config import cfg
from tqdm import trange


def options():
    return argparse.ArgumentParser().parse_args()


"""


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("json.load(file)['rows'][0]", "plain"),
        ("os.environ['RANK']", "plain"),
        ("cv2.imread(path)[0] / 255", "plain"),
        ("options().epochs", "plain"),
        ("options().device", "device"),
        ("vars(options())['lr']", "plain"),
        ("opt.freq", "plain"),
        ("self.args.freq * 2", "plain"),
        ("cfg.TRAIN.RATE", "plain"),
        ("cfg.TRAIN.RATE < 0", "bool"),
        ("cfg['device']", "device"),
        ("3 % opt.freq == 0", "bool"),
        ("random.random() < opt.p", "bool"),
        ("math.inf", "number"),
        ("dist.get_rank()", "number"),
        ("torch.cuda.device_count()", "number"),
        ("next(itertools.count())", "number"),
        ("next(iter(trange(9)))", "number"),
        ("iter(trange(9)).next()", "number"),
        ("iter(trange(9)).send()", "?"),
        ("open(path).read()", "plain"),
        ("type(thing).__name__", "str"),
        ("thing.find('Conv')", "plain"),
        ("any(thing)", "bool"),
        ("type(thing) == path", "bool"),
        ("thing.keys() == path", "?"),
        ("max(3, opt.least)", "plain"),
    ],
)
def test_the_host_keeps_it(expression: str, kind: str) -> None:
    found = value_of(f"{HEAD}def f(self, opt, file, path, thing):\n    probe({expression})\n")
    assert found.kind == kind


@pytest.mark.parametrize(
    "expression",
    [
        "thing.freq",
        "thing.freq < 0",
        "thing.find(other)",
        "thing['lr']",
        "args[0]",
        "opt.weigh(thing)",
        "opt.freq == thing",
        "random.choice(thing)",
        "copy.copy(thing)",
        "torch.load('x')['epoch']",
    ],
)
def test_what_may_be_a_tensor_stays_unknown(expression: str) -> None:
    found = value_of(f"{HEAD}def f(opt, thing, other, *args):\n    probe({expression})\n")
    assert found.kind == "?"


def test_a_tensor_and_an_option_give_a_tensor() -> None:
    found = value_of(f"{HEAD}def f(opt):\n    probe(torch.zeros(3).cuda() * opt.scale > 0)\n")
    assert (found.kind, found.device) == ("tensor", "cuda")


def test_what_the_function_puts_into_its_options_is_what_it_put_there() -> None:
    found = value_of("def f(args):\n    args.scale = torch.ones(3).cuda()\n    probe(args.scale)\n")
    assert (found.kind, found.device) == ("tensor", "cuda")


def test_a_file_that_is_mapped_lies_on_the_cpu() -> None:
    found = value_of("def f(path):\n    probe(torch.from_file(path, size=9)[2])\n")
    assert (found.kind, found.device) == ("tensor", "cpu")


def test_options_that_know_their_device_are_no_tensor() -> None:
    assert value_of("def f(opt):\n    x = opt.device\n    probe(opt)\n").kind == "optimizer"
