"""``torchlint check --waits``, and what other reports say of waits under a contract."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tomli

Cli = Any
CONTRACT = """\
[no-waits]
functions = ["step"]
allow = [{ at = "train.py:step", line = "print(loss.item())", owner = "eve", reason = "a log" }]
"""
STEP = """\
import torch

model = torch.nn.Linear(8, 3).cuda()


def step(x):
    loss = model(x).sum()
    print(loss.item())
    kept = loss.cpu()  # torchlint: allow-wait[ada] the scheduler needs it
"""
TABLE = """\
2 waits listed
place          owner  reason
train.py:8:11  eve    a log
train.py:9:12  ada    the scheduler needs it
"""
WITH_COSTS = """\
2 waits listed
place          owner  reason                  cost
train.py:8:11  eve    a log                   2 ms, 20.0% of the time
train.py:9:12  ada    the scheduler needs it  predicted: 1 in each step
"""
PROFILE = {
    "schema_version": 1,
    "window": {},
    "figures": {},
    "findings": [],
    "waits": {
        "span_ns": 10_000_000,
        "places": [
            {"file": "train.py", "line": 8, "waited_ns": 2_000_000},
            {"file": None, "line": None, "waited_ns": 5},
            {"file": "other.py", "line": 9, "waited_ns": 7},
        ],
    },
    "predicted": {"lines": [{"file": "train.py", "line": 9, "waits": 1.0}]},
}


@pytest.fixture
def contract(ours: Cli) -> Cli:
    ours.write("torchlint.toml", CONTRACT)
    ours.write("train.py", STEP)
    return ours


def test_the_list_is_a_table(contract: Cli) -> None:
    for _ in range(2):  # the second time from the cache
        done = contract("check", "--waits", code=0)
        assert (done.stdout, done.stderr) == (TABLE, "")


def test_what_is_not_listed_and_what_is_gone_is_told(contract: Cli) -> None:
    contract.write(
        "train.py", f"{STEP.replace('print(loss.item())', 'loss.item()')}    return float(loss)\n"
    )
    shown = contract("check", "--waits", code=1).stdout.splitlines()
    assert shown[0] == "1 wait listed"
    assert shown[3].startswith(
        "gone: train.py:1:1: the wait in `step` that eve answers for is gone"
    )
    assert shown[4].startswith("not listed: train.py:8:5: `loss.item()` waits for the device")
    assert shown[5].startswith("not listed: train.py:10:12: `float(loss)` waits for the device")
    assert contract("check", "--waits", "--exit-zero", code=0).stdout.splitlines() == shown


def test_of_a_slice_the_number_that_is_read_is_named(contract: Cli) -> None:
    loop = "def step(data, picks):\n    return [data[i : i + 8] for i in torch.tensor(picks)]\n"
    contract.write("train.py", f"import torch\n\n\n{loop}")
    said = contract("check", "--waits", code=1).stdout
    assert "`data[i : i + 8]` may wait for the device in `step`" in said
    assert "which must not wait: Python reads `i` on the host;" in said


def test_other_findings_and_comments_are_no_part_of_it(contract: Cli) -> None:
    contract.write("train.py", f"{STEP}    x.dim()  # torchlint: ignore[TL101] no reason\n")
    assert contract("check", "--waits", code=0).stdout == TABLE
    assert "unused suppression" in contract("check", code=1).stdout


def test_it_says_what_each_wait_costs_where_a_profile_is_given(contract: Cli) -> None:
    contract.write("profile.json", json.dumps(PROFILE))
    assert contract("check", "--waits", "--profile", "profile.json", code=0).stdout == WITH_COSTS


@pytest.mark.parametrize("waits", [{"places": [{}]}, 3, {"places": [{"file": 1, "line": "x"}]}])
def test_a_damaged_profile_is_refused(contract: Cli, waits: object) -> None:
    contract.write("profile.json", json.dumps({**PROFILE, "waits": waits}))
    done = contract("check", "--waits", "--profile", "profile.json", code=2)
    assert "--profile profile.json: is a damaged report of torchlint profile" in done.stderr


def test_the_list_as_json(contract: Cli) -> None:
    contract.write("train.py", f"{STEP}    return float(loss)\n")
    contract.write("profile.json", json.dumps(PROFILE))
    arguments = (
        "--waits",
        "--output-format",
        "json",
        "--profile",
        "profile.json",
        "-o",
        "out.json",
    )
    contract("check", *arguments, code=1)
    found = json.loads((contract.cwd / "out.json").read_text(encoding="utf-8"))
    assert [(each["line"], each["state"], each.get("owner")) for each in found] == [
        (8, "listed", "eve"),
        (9, "listed", "ada"),
        (10, "not listed", None),
    ]
    assert found[0]["cost"] == {"waited_ns": 2_000_000, "share": 0.2, "predicted_per_step": 0.0}
    assert found[0]["reason"] == "a log"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--output-format", "sarif"), "--waits prints a table, or --output-format json"),
        (("--output-format", "json:a.json"), "--waits prints a table, or --output-format json"),
        (("--fix",), "--waits and --fix cannot be used together"),
        (("--statistics",), "--waits and --statistics cannot be used together"),
        (("--add-ignore",), "cannot be used together"),
    ],
)
def test_what_makes_no_sense_with_it_is_refused(
    contract: Cli, arguments: tuple[str, ...], message: str
) -> None:
    assert message in contract("check", "--waits", *arguments, code=2).stderr


def test_a_wait_that_is_not_listed_is_an_error_in_sarif(contract: Cli) -> None:
    contract.write("train.py", f"{STEP}    return float(loss)\n")
    text = contract(
        "check", "--select", "TL115", "--output-format", "sarif", "--report-suppressed", code=1
    ).stdout
    results = json.loads(text)["runs"][0]["results"]
    assert [(each["level"], each["suppressions"]) for each in results] == [
        ("error", []),
        ("error", [{"kind": "inSource", "justification": "eve: a log"}]),
        ("error", [{"kind": "inSource", "justification": "ada: the scheduler needs it"}]),
    ]


def test_why_a_listed_wait_is_silent_is_explained(contract: Cli) -> None:
    for row, words in (
        (8, "because the configuration lists the wait, and eve answers for it: a log"),
        (9, "because the comment `# torchlint: allow-wait[ada] the scheduler needs it` on line 9"),
    ):
        shown = " ".join(contract("check", "--explain", f"train.py:{row}", code=0).stdout.split())
        assert f"TL115 wait-under-contract: found, but suppressed {words}" in shown


def test_an_error_of_the_configuration_names_file_and_key(contract: Cli) -> None:
    contract.write("torchlint.toml", CONTRACT.replace(', owner = "eve"', ""))
    done = contract("check", code=2)
    assert "torchlint.toml:1: no-waits allow, entry 1: lacks owner" in done.stderr


def test_what_cannot_be_read_is_named(contract: Cli) -> None:
    contract.write("bad.py", "def (\n")
    done = contract("check", "--waits", ".", "none.py", code=1)
    assert "bad.py:1:5: invalid-syntax" in done.stderr
    assert "none.py:1:1: unreadable" in done.stderr
    assert contract("check", "--waits", "--silent", "bad.py", code=1).stderr == ""


def test_the_settings_are_shown(contract: Cli) -> None:
    contract.write(
        "b.toml", CONTRACT + '[per-file-ignores]\n"x/*" = ["TL1"]\n[severity]\nTL1="info"'
    )
    shown = contract("check", "--show-settings", "--config", "b.toml", code=0).stdout
    assert '\nno-waits.functions = ["step"]\nno-waits.files = []\n' in shown
    assert '\nno-waits.allow = [{ at = "train.py:step", line = ' in shown
    assert '\nper-file-ignores."x/*" = ["TL1"]\n' in shown
    read = tomli.loads(shown)
    assert read["no-waits"]["allow"] == tomli.loads(CONTRACT)["no-waits"]["allow"]
    assert (read["severity"], read["target-torch"]) == ({"TL1": "info"}, "2.4")
