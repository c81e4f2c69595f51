"""What a message says to do instead can be done: the line that ends in ``# here`` says so."""

from __future__ import annotations

import textwrap

import pytest

from tests.checking import check

HEAD = """\
import json
import math
import cv2
import numpy as np
import torch
from torch import nn
from flash_attn import flash_attn_varlen_func

net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.MSELoss()


"""
TRAIN = """\
def train(loader, log, penalty):
    kept, total = [], 0.0
    for step, x in enumerate(loader):
        out = net(x.cuda())
        loss = criterion(out, x.cuda())
        {before}
        loss.backward()
        optimizer.step()
        {behind}
    return kept, total
"""
TWO_LOSSES = """\
def gan(net_d, net_g, crit, loader, adam, reg):
    history = []
    for i, (x, y) in enumerate(loader):
        loss = crit(net_d(x.cuda()), y.cuda())
        history.append({"step": i, "real": loss.item()})  # here
        loss.backward()
        adam.step()
        loss = crit(net_d(net_g(x.cuda())), y.cuda())
        loss += reg(net_g)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return history
"""
AFTER = "read it once after the loop"
HOST = "code outside torch uses the number"
SIZE = "because it sets the size of a tensor or a loop"
EVERY = "read it every N steps"
MANY = "read the values of many steps at once"
COPIES = "copy the values of many steps at once"
COPY_AFTER = "copy once after the loop"
TAKES = "code outside torch uses the copy"
CLONE = "keep a clone"
DECIDES = "a Python branch depends on it"
TORCH = "do all of that with torch"
ON_DEVICE = "the step computes on the device with what becomes of the copy"
OLDER = "the tensor was made before the loop"


def in_training(before: str = "pass", behind: str = "pass") -> str:
    return TRAIN.replace("{before}", before).replace("{behind}", behind)


WATCHED = """\
def watch(camera):
    for frame in camera:
        flag = net(torch.from_numpy(frame).cuda())
        {}
"""
DRAWS = """\
def draw(frame, score):
    cv2.putText(frame, f"{score:.2f}", (1, 1), 0, 1.0, (1, 1, 1))


"""
ENDLESS = """\
def steps(loader):
    while True:
        loss = criterion(net(next(loader).cuda()), torch.zeros(4).cuda())
        loss.backward()
        optimizer.step()
        {}
"""
FORWARD = """\
class Block(nn.Module):
    def forward(self, x, mask):
        x = net(x.cuda())
        lengths = (x * mask.cuda()).sum(-1)
        {}
"""
PROTOTYPES = """\
class Loss(nn.Module):
    def forward(self, x, target):
        x = net(x.cuda())
        x = x.to("cpu")  # here
        places = {}
        return (x - places).pow(2).sum()
"""
COLLECTS = """\
@torch.no_grad()
def scores_of(x):
    out = net(x.cuda())
    return out.cpu().numpy()  # here


def evaluate(loader):
    net.eval()
    rows = []
    for x in loader:
        {}
    return np.vstack(rows)
"""
STATS = """\
def stats_of(out, mask):
    stats = {"max": out.max().item()}  # here
    if mask is not None:
        stats["k"] = torch.ones(1)
    return stats


def train(loader, mask):
    text = ""
    for x in loader:
        out = net(x.cuda())
        criterion(out, x.cuda()).backward()
        optimizer.step()
        stats = stats_of(out, mask)
        {test}
            text += "k"
    return text
"""
BOTH = "use that on the device too"
AT_ONCE = "for all iterations at once"
COPY_FIRST = "the result goes to the host in any case"
WEIGHS = """\
def weight_of(out, y):
    return 5 / np.abs(np.array(out) - np.array(y)).mean()


def train(loader):
    weights = []
    for x in loader:
        out = net(x.cuda())
        loss = criterion(out, x.cuda())
        {}
        loss.backward()
        optimizer.step()
    return weights
"""
SCALES = """\
def scaled(value, rows):
    return rows * value


"""
SEARCH = """\
class Leaf:
    def __init__(self):
        self.worth, self.visits = 0.0, 1


def value_of(state):
    return net(state.cuda()){read}


def choose(leaves):
    return max(leaves, key=lambda leaf: leaf.worth / leaf.visits)


def search(loader, leaves):
    for x in loader:
        leaf = choose(leaves)
        value = value_of(x)
        {kept}
        criterion(net(x.cuda()), x.cuda()).backward()
        optimizer.step()
"""
SAID = {
    # The elements of a tensor that a loop iterates over, by which a list of the host is asked.
    "words of a comprehension": (
        "TL101",
        OLDER,
        in_training(
            "names = list('abcd')\n        kept += [names[i] for i in out.argmax(1)]  # here"
        ),
    ),
    "words of a loop": (
        "TL101",
        OLDER,
        in_training(
            "names = list('abcd')\n        for i in out.argmax(1):\n            "
            "kept.append(names[i])  # here"
        ),
    ),
    "a word of each step": (
        "TL101",
        AFTER,
        in_training(
            "names = list('abcd')\n        i = out.argmax()\n        kept += names[i]  # here"
        ),
    ),
    # What `math` makes of a tensor torch makes of it too.
    "a gain by math": (
        "TL101",
        "torch.exp computes it",
        in_training("gain = math.exp(out.mean() / 10)  # here", "kept.append(penalty(gain))"),
    ),
    "a root by math": (
        "TL101",
        "torch.sqrt computes it",
        in_training(behind="log(math.sqrt(loss))  # here"),
    ),
    "a logarithm in a forward pass": (
        "TL101",
        "torch.log computes it",
        FORWARD.format("return math.log(lengths.sum())  # here"),
    ),
    "what torch has under another name": (
        "TL101",
        AFTER,
        in_training(behind="log(math.fabs(loss))  # here"),
    ),
    "math of a number that was read": (
        "TL101",
        AFTER,
        in_training(behind="log(math.sqrt(loss.item()))  # here"),
    ),
    "what the step computes with is torch's too": (
        "TL101",
        TORCH,
        in_training("loss = loss * math.exp(out.mean())  # here"),
    ),
    # Of two tensors that meet on the host, both have to be on the device.
    "scattered by an index of the host": (
        "TL102",
        BOTH,
        in_training(
            "zeros = torch.zeros(out.size())  # here",
            "kept.append(zeros.scatter_(1, out.argmax(1, True).cpu(), 1).cuda())",
        ),
    ),
    "filled where the host says": (
        "TL102",
        BOTH,
        in_training(
            "ones = torch.ones(out.size()).masked_fill_((out > 0).cpu(), 0).cuda()  # here"
        ),
    ),
    "scattered by an index of the device": (
        "TL102",
        "pass device=",
        in_training("zeros = torch.zeros(out.size()).scatter_(1, kept[0], 1).cuda()  # here"),
    ),
    "chosen and read": (
        "TL107",
        COPY_FIRST,
        in_training("for row in out:\n            kept += row[row > 0].tolist()  # here"),
    ),
    "chosen and copied": (
        "TL107",
        COPY_FIRST,
        in_training(
            "for row in out:\n            kept.append(row[row > 0].detach().cpu())  # here"
        ),
    ),
    "chosen, cut and copied": (
        "TL107",
        COPY_FIRST,
        in_training("kept += [out[out[:, 0] == i][:, :1].cpu() for i in range(8)]  # here"),
    ),
    "told apart by images in a list": (
        "TL107",
        AT_ONCE,
        in_training(
            "rows = [out[out[:, 0] == i] for i in range(8)]  # here\n        penalty(rows)"
        ),
    ),
    "told apart by images in a list, of some columns": (
        "TL107",
        AT_ONCE,
        in_training("rows = [out[out[:, 0] == i, :1] for i in y]  # here\n        kept += rows"),
    ),
    "one list, joined": (
        "TL107",
        "torch.where, a product",
        in_training(
            "rows = [out[out[:, 0] == i] for i in y]  # here\n        penalty(torch.cat(rows))"
        ),
    ),
    "what is added up in a list": (
        "TL107",
        "torch.where, a product",
        in_training(
            "sums = [out[out[:, 0] == i].sum() for i in range(8)]  # here\n        penalty(sums)"
        ),
    ),
    "chosen, cut and added up": (
        "TL107",
        "torch.where, a product",
        in_training("for row in out:\n            penalty(row[row > 0][:3])  # here"),
    ),
    "chosen and added up": (
        "TL107",
        "torch.where, a product",
        in_training("for row in out:\n            penalty(row[row > 0])  # here"),
    ),
    # What the step itself computes with cannot be read later.
    "a loss scaled by itself": (
        "TL101",
        TORCH,
        in_training("loss = loss / (1 + loss.item())  # here"),
    ),
    "a loss scaled by a norm": (
        "TL101",
        TORCH,
        in_training("scale = 1 / (1 + out.norm().item())  # here\n        loss = scale * loss"),
    ),
    "scaled by a function": (
        "TL101",
        TORCH,
        SCALES + in_training("loss = scaled(out.std().item(), loss)  # here"),
    ),
    "added to the loss": ("TL101", TORCH, in_training("loss += loss * out.std().item()  # here")),
    "what it is a key for": (
        "TL101",
        AFTER,
        in_training("loss = loss * torch.tensor(STATE.rows[out.argmax().item()]).cuda()  # here"),
    ),
    "what it scales is a number": (
        "TL101",
        AFTER,
        SCALES + in_training(behind="total = scaled(out.std().item(), total)  # here"),
    ),
    "what it scales is on the host": (
        "TL101",
        AFTER,
        in_training(behind="kept.append(torch.ones(2) * out.std().item())  # here"),
    ),
    "NumPy weighs the loss": (
        "TL113",
        ON_DEVICE,
        WEIGHS.format("loss = weight_of(out.detach().cpu(), x) * loss  # here"),
    ),
    "NumPy weighs the loss under a name": (
        "TL113",
        ON_DEVICE,
        WEIGHS.format(
            "weight = weight_of(out.detach().cpu(), x)  # here\n        loss = loss / (1 + weight)"
        ),
    ),
    "NumPy weighs what is added to the loss": (
        "TL113",
        ON_DEVICE,
        WEIGHS.format("loss += out.mean() * weight_of(out.detach().cpu(), x)  # here"),
    ),
    "weights that are kept": (
        "TL113",
        COPY_AFTER,
        WEIGHS.format("weights.append(weight_of(out.detach().cpu(), x))  # here"),
    ),
    # A number with a name of its own inside of a test.
    "a test names it": (
        "TL101",
        DECIDES,
        in_training("if (value := loss.item()) > 3:  # here\n            kept.append(value)"),
    ),
    "a test that names it picks a number": (
        "TL101",
        DECIDES,
        in_training("rows = 2 if 1 < (hits := int((out > 0).sum())) else 3  # here"),
    ),
    "a later test asks the name": (
        "TL101",
        DECIDES,
        in_training(
            "kept.append((value := loss.item()))  # here\n        if value > 3:\n"
            "            optimizer.zero_grad()"
        ),
    ),
    "named, and only kept": (
        "TL101",
        AFTER,
        in_training("kept.append((value := loss.item()))  # here"),
    ),
    # Elements of what is older than a loop are copied before it.
    "a table of elements": (
        "TL101",
        OLDER,
        FORWARD.format(
            "rows = []\n        for at in range(8):\n            rows.append(int(lengths[at]))"
            "  # here\n        return x, rows"
        ),
    ),
    "elements of two positions": (
        "TL101",
        OLDER,
        FORWARD.format(
            "rows = []\n        for at in range(8):\n            for other in range(3):\n"
            "                rows.append((at, float(x[at, other])))  # here\n        return x, rows"
        ),
    ),
    "elements under keys": (
        "TL101",
        OLDER,
        FORWARD.format(
            "rows = dict()\n        for at in range(8):\n            rows[at] = lengths[at].item()"
            "  # here\n        return x, rows"
        ),
    ),
    "an element of what an iteration makes": (
        "TL101",
        AFTER,
        FORWARD.format(
            "rows = []\n        for at in range(8):\n            x = net(x)\n"
            "            rows.append(float(x[at].sum()))  # here\n        return x, rows"
        ),
    ),
    "elements that objects keep": (
        "TL101",
        OLDER,
        SEARCH.replace("{read}", "").replace(
            "{kept}",
            "for at in range(4):\n            leaves[at].worth += value[at].item()  # here",
        ),
    ),
    # An object that the next iteration asks keeps the number.
    "two values of a tree": (
        "TL101",
        HOST,
        SEARCH.replace(
            "return net(state.cuda()){read}",
            "out = net(state.cuda())\n    STATE.row = out.tolist()\n"
            "    return out.max().item()  # here",
        ).replace("{kept}", "leaf.worth += value"),
    ),
    # What the host draws, saves or sends in the same iteration cannot be read later.
    "drawn on the frame": (
        "TL101",
        HOST,
        DRAWS
        + WATCHED.format("draw(frame, flag[0].item())  # here\n        save(flag.min().item())"),
    ),
    "drawn by a library": (
        "TL101",
        HOST,
        WATCHED.format('cv2.putText(frame, f"{flag[0].item():.2f}", flag.tolist())  # here'),
    ),
    "saved beside the picture": (
        "TL101",
        HOST,
        WATCHED.format("cv2.imwrite(str(float(flag.max())), flag.cpu().numpy())  # here"),
    ),
    "kept for later": (
        "TL101",
        AFTER,
        WATCHED.replace("def watch(camera)", "def watch(camera, scores)").format(
            "scores += flag[0].item()  # here"
        ),
    ),
    "drawn every hundred steps": (
        "TL101",
        AFTER,
        in_training(
            behind='row = {"loss": loss.item()}  # here\n        kept.append(row)\n'
            "        if step % 100 == 0:\n            cv2.putText(out, json.dumps(row), (1, 1))"
        ),
    ),
    # What is put into a list is taken by nothing in that step.
    "collected by the caller": ("TL113", COPY_AFTER, COLLECTS.format("rows.append(scores_of(x))")),
    "collected under a name": (
        "TL113",
        COPY_AFTER,
        COLLECTS.format("row = scores_of(x)\n        rows.append(row)"),
    ),
    "worked on by the caller": (
        "TL113",
        TAKES,
        COLLECTS.format("rows.append(np.sort(scores_of(x)))"),
    ),
    # The longest length is a size, whatever takes it.
    "longest length for a kernel": (
        "TL101",
        SIZE,
        FORWARD.format(
            "max_seqlen_in_batch = lengths.max().item()  # here\n"
            "        return flash_attn_varlen_func(x, max_seqlen_q=max_seqlen_in_batch)"
        ),
    ),
    "longest length that is handed back": (
        "TL101",
        SIZE,
        FORWARD.format("max_len = int(lengths.max())  # here\n        return x, max_len"),
    ),
    "longest sequence": (
        "TL101",
        SIZE,
        FORWARD.format(
            "src_max_seq_len = lengths.max().item()  # here\n        return src_max_seq_len"
        ),
    ),
    "no length": (
        "TL101",
        MANY,
        FORWARD.format(
            "max_lengthening = lengths.max().item()  # here\n        return max_lengthening"
        ),
    ),
    # There is no line after an endless loop.
    "handed out by a generator": (
        "TL101",
        EVERY,
        ENDLESS.format('yield {"loss": loss.item()}  # here'),
    ),
    "handed out by a generator over batches": (
        "TL101",
        EVERY,
        in_training(behind="total = loss.item()  # here\n        yield total"),
    ),
    "without a way out": ("TL101", EVERY, ENDLESS.format("STATE.value = loss.item()  # here")),
    "with a way out": (
        "TL101",
        AFTER,
        ENDLESS.format(
            "STATE.value = loss.item()  # here\n        if STATE.done:\n            break"
        ),
    ),
    "no loop in sight": (
        "TL101",
        MANY,
        FORWARD.format("self.spread = x.std().item()  # here\n        return x"),
    ),
    # A tensor that a later line changes is kept as a clone.
    "a penalty is added": (
        "TL101",
        CLONE,
        in_training("STATE.values = loss.item()  # here\n        loss += penalty(net)"),
    ),
    "scaled in place": (
        "TL101",
        CLONE,
        in_training("STATE.values = float(loss)  # here\n        loss.div_(4)"),
    ),
    "another tensor of the name is changed": ("TL101", "keep it on the device", TWO_LOSSES),
    "a penalty is added to what is logged now and then": (
        "TL105",
        CLONE,
        in_training(
            "alone = loss.item()  # here\n        loss += penalty(net)",
            "if step % 50 == 0:\n            log.info(alone)",
        ),
    ),
    "a penalty that makes another tensor": (
        "TL105",
        "read it where it is logged",
        in_training(
            "alone = loss.item()  # here\n        loss = loss + penalty(net)",
            "if step % 50 == 0:\n            log.info(alone)",
        ),
    ),
    "changed before it is read": (
        "TL101",
        AFTER,
        in_training("loss += penalty(net)\n        STATE.values = loss.item()  # here"),
    ),
    "summed up": (
        "TL101",
        AFTER,
        in_training("total += loss.item()  # here\n        loss += penalty(net)"),
    ),
    # What is asked for its length is no size that the values of a copy set.
    "a length of a copy": ("TL113", COPIES, PROTOTYPES.format("torch.arange(len(x))")),
    "a shape of a copy": ("TL113", COPIES, PROTOTYPES.format("torch.arange(x.shape[0])")),
    "a size of a copy": ("TL113", COPIES, PROTOTYPES.format("torch.zeros(x.size(0), 4)")),
    "a value of a copy": ("TL113", SIZE, PROTOTYPES.format("torch.arange(int(x[0, 0]))")),
    # A key or the table itself is asked for, and no value.
    "a key is asked for": ("TL101", MANY, STATS.replace("{test}", 'if "k" in stats:')),
    "no key is asked for": ("TL101", MANY, STATS.replace("{test}", 'if "k" not in stats:')),
    "the table is asked for": ("TL101", MANY, STATS.replace("{test}", "if stats:")),
    "a key of an attribute": (
        "TL101",
        AFTER,
        in_training(
            behind='STATE.row = loss.item()  # here\n        if "k" in STATE.row:\n'
            "            kept.append(1)"
        ),
    ),
    "the number is asked for": (
        "TL101",
        DECIDES,
        in_training(
            behind="value = loss.item()  # here\n        if value in (1.0, 2.0):\n"
            "            kept.append(1)"
        ),
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_the_remedy_is_possible(name: str) -> None:
    code, phrase, program = SAID[name]
    source = HEAD + program
    row = next(at for at, line in enumerate(source.split("\n"), 1) if line.endswith("# here"))
    found = check(source, codes=frozenset({"TL101", "TL102", "TL105", "TL107", "TL113"})).findings
    said = {each.code: each.message for each in found if each.start.row == row}
    assert phrase in said.get(code, ""), textwrap.indent(source, "    ")


@pytest.mark.parametrize(
    ("behind", "severity"),
    [
        ("total += loss.item()\n        {}", "info"),
        ("{}\n        kept.append(loss.item())", "info"),
        ("total += float(loss)\n        log.debug(step)\n        {}", "info"),
        ("total += loss.item()\n        if step % 50 == 0:\n            {}", "warning"),
        ("total += loss.item()\n        net(x.cuda())\n        {}", "warning"),
    ],
)
def test_a_read_beside_memory_that_is_given_back_waits_for_no_more(
    behind: str, severity: str
) -> None:
    source = HEAD + in_training(behind=behind.format("torch.cuda.empty_cache()"))
    found = check(source, codes=frozenset({"TL101"})).findings
    assert [each.severity.value for each in found] == [severity]


@pytest.mark.parametrize(
    "kept",
    ["leaf.worth += value", "leaf.worth = value", "leaf.worth = leaf.worth * 0.9 + value"],
)
def test_one_number_that_the_next_iteration_asks_an_object_for_is_left(kept: str) -> None:
    source = HEAD + SEARCH.replace("{read}", ".max().item()").replace("{kept}", kept)
    assert not check(source, codes=frozenset({"TL101"})).findings
    for other in (
        kept.replace("leaf.worth", "leaf.total"),  # nobody asks for it
        kept.replace("leaf.", "self."),  # the sum of a class
    ):
        assert check(source.replace(kept, other), codes=frozenset({"TL101"})).findings, other


@pytest.mark.parametrize(
    "line",
    [
        "draw(frame, flag[0].item())",
        'cv2.putText(frame, f"{flag[0].item():.2f}", (1, 1))',
        "cv2.imwrite(str(float(flag.max())), frame)",
    ],
)
def test_one_number_that_the_host_needs_is_left(line: str) -> None:
    """It is one copy already."""
    source = HEAD + DRAWS + WATCHED.format(line)
    assert not check(source, codes=frozenset({"TL101"})).findings
    another = source.replace(line, f"{line}\n        save(flag.min().item())")
    assert check(another, codes=frozenset({"TL101"})).findings
