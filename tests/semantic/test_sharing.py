"""What one operation takes lives on one device, and is known to from there on."""

from __future__ import annotations

import textwrap

import pytest

from tests.semantic.test_values import value_of
from torchlint.semantic.values.value import ACCEL, CPU, CUDA

THERE = "there = torch.ones(4, 4).cuda()\n    "


@pytest.mark.parametrize(
    "meeting",
    [
        "F.cross_entropy(there, it)",
        "nn.CrossEntropyLoss()(there, it)",
        "torch.cat([there, it], 1)",
        "torch.stack((it, there))",
        "there @ it",
        "torch.bmm(it, there)",
        "there.matmul(it)",
        "torch.einsum('ij,jk', there, it)",
        "if there.sum() > 0:\n        F.mse_loss(there, it)\n    else:\n        raise ValueError",
    ],
)
def test_what_met_a_device_tensor_lives_there(meeting: str) -> None:
    assert value_of(f"def f(it):\n    {THERE}{meeting}\n    probe(it)").device == CUDA


@pytest.mark.parametrize(
    "apart",
    [
        "there + it",  # one number on the CPU may be added
        "there.eq(it)",
        "there[it]",  # an index is copied
        "torch.cat([there, there], it)",
        "F.cross_entropy(there.cpu(), it)",
        "probably(there, it)",
        "if odd:\n        F.cross_entropy(there, it)",
        "torch.einsum(it, there, there)",
        "F.cross_entropy(there, it)\n    it = other()",
    ],
)
def test_what_need_not_live_there_is_not_said_to(apart: str) -> None:
    assert value_of(f"def f(it, odd, other):\n    {THERE}{apart}\n    probe(it)").device is None


@pytest.mark.parametrize("meeting", ["out == kind", "out.eq(kind)", "torch.sub(out, kind)"])
def test_labels_of_a_batch_are_no_single_number(meeting: str) -> None:
    source = f"""
        def f(net, test_iter):
            for pic, kind in test_iter:
                out = net(torch.ones(2, 4, device="cuda"))
                {meeting}
                probe(kind)
        """
    assert value_of(textwrap.dedent(source)).device in (CUDA, ACCEL)


def test_what_is_known_to_be_on_the_host_stays_there() -> None:
    assert (
        value_of(f"{THERE.strip()}\nit = torch.ones(4)\nF.mse_loss(there, it)\nprobe(it)").device
        == CPU
    )


MODEL = """
class Net(nn.Module):
    def forward(self, x):
        return self.fc({})

def f(net: Net, device):
    net.to(device)
    x = torch.stack(frames())
    y = net(x)
    probe(x)
"""


def test_the_inputs_of_a_model_live_where_it_does() -> None:
    assert value_of(MODEL.format("x")).device == ACCEL


def test_a_model_that_moves_its_inputs_says_nothing_of_them() -> None:
    assert value_of(MODEL.format("x.to(self.device)")).device is None


def test_a_wrapper_that_scatters_says_nothing_of_them() -> None:
    assert value_of(MODEL.format("x") + "\nnet = nn.DataParallel(Net())").device is None


GIVEN = """
class Layer(nn.Module):
    def forward(self, given):
        boxes = given[0]
        {}
"""


def test_what_a_module_is_given_together_lives_with_it() -> None:
    assert value_of(GIVEN.format("probe(boxes.unsqueeze(0))")).device == ACCEL
    assert value_of(GIVEN.format("probe(torch.zeros(3).type_as(boxes))")).device == ACCEL


def test_of_a_part_that_is_not_used_as_a_tensor_nothing_is_said() -> None:
    assert value_of(GIVEN.format("probe(boxes)")).kind == "?"


def test_a_device_is_the_programs_own_where_it_is_built_from_a_number() -> None:
    picked = "d = torch.device('cuda:{}'.format(n)) if gpu else torch.device('cpu')\n"
    assert value_of(picked + "probe(torch.zeros(3).to(d))").device == ACCEL
