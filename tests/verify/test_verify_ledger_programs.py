"""Whole programs under the ledger: they run, they see a GPU, and they compute what they compute on
a CPU."""

from __future__ import annotations

import copy
import io
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tests.verify.ledgers import Ledger, virtual_cuda  # noqa: E402
from torchlint.program.inside.ledger import costs  # noqa: E402

Program = Callable[[Any], list[float]]


def fit(
    model: Any, inputs: Any, targets: Any, optimizer: Any, device: Any, steps: int = 3
) -> list[float]:
    model = model.to(device)
    optimizer = optimizer(model.parameters())
    losses = []
    for _ in range(steps):
        loss = functional.mse_loss(model(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.cell = kind(8, 16, 2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(32, 1)

    def forward(self, x: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, [5, 4, 2], batch_first=True)
        out, lengths = nn.utils.rnn.pad_packed_sequence(self.cell(packed)[0], batch_first=True)
        assert lengths.device.type == "cpu"
        return self.last(out[:, 0] + self.cell(x)[0][:, -1])


class Recomputed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.last, self.reentrant = nn.Linear(8, 8), nn.Linear(8, 1), reentrant

    def part(self, x: Any) -> Any:
        return functional.dropout(self.first(x)) + torch.ones(8, device=x.device)

    def forward(self, x: Any) -> Any:
        return self.last(checkpoint(self.part, x.requires_grad_(), use_reentrant=self.reentrant))


def recurrent(device: Any) -> list[float]:
    return [
        loss
        for kind in (nn.LSTM, nn.GRU)
        for loss in fit(
            Recurrent(kind), torch.randn(3, 5, 8), torch.randn(3, 1), torch.optim.Adam, device
        )
    ]


def transformer(device: Any) -> list[float]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    losses = fit(model, torch.randn(4, 5, 16), torch.randn(4, 5, 16), torch.optim.AdamW, device)
    model.eval()
    x = torch.randn(4, 5, 16, device=device)
    with torch.no_grad():
        losses.append(model(x)[0, 0, 0].item())
    with torch.inference_mode():
        losses.append(model(x)[0, 0, 0].item())
    return losses


def embedding(device: Any) -> list[float]:
    words, targets = torch.randint(0, 10, (4, 3)), torch.randn(4, 48)
    dense = nn.Sequential(nn.Embedding(10, 16), nn.Flatten())
    sparse = nn.Sequential(nn.Embedding(10, 16, sparse=True), nn.Flatten())
    losses = fit(dense, words, targets, torch.optim.Adam, device)
    return losses + fit(sparse, words, targets, torch.optim.SparseAdam, device)


def convolution(device: Any) -> list[float]:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(144, 1),
    )
    return fit(
        model,
        torch.randn(4, 3, 8, 8),
        torch.randn(4, 1),
        lambda p: torch.optim.SGD(p, 0.1, 0.9),
        device,
    )


def recomputed(device: Any) -> list[float]:
    return [
        loss
        for reentrant in (True, False)
        for loss in fit(
            Recomputed(reentrant), torch.randn(4, 8), torch.randn(4, 1), torch.optim.SGD, device
        )
    ]


def lbfgs(device: Any) -> list[float]:
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.LBFGS(model.parameters())
    x, y = torch.randn(8, 4, device=device), torch.randn(8, 1, device=device)
    losses = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss.item())
        return loss

    optimizer.step(closure)
    return losses


def two_optimizers(device: Any) -> list[float]:
    one, two = nn.Linear(4, 4).to(device), nn.Linear(4, 1).to(device)
    first, second = torch.optim.Adam(one.parameters()), torch.optim.SGD(two.parameters(), 0.1)
    losses = []
    for _ in range(3):
        loss = two(one(torch.randn(8, 4, device=device))).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_([*one.parameters(), *two.parameters()], 1.0)
        for optimizer in (first, second):
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def averaged(device: Any) -> list[float]:
    model = nn.Linear(4, 1).to(device)
    mean = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        model(torch.ones(2, 4, device=device)).sum().backward()
        optimizer.step()
        mean.update_parameters(model)
    return [mean.module.weight.sum().item()]


def saved(device: Any) -> list[float]:
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4, device=device)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    for place, expected in ((device, device.type), (None, device.type), ("cpu", "cpu")):
        file.seek(0)
        state = torch.load(file, map_location=place, weights_only=True)
        assert state["model"]["weight"].device.type == expected
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    assert copy.deepcopy(model).weight.device == model.weight.device
    optimizer.step()
    return [model.weight.sum().item()]


def default_device(device: Any) -> list[float]:
    torch.set_default_device(device)
    try:
        model, x = nn.Linear(3, 3), torch.tensor([1.0, 2.0, 3.0])
        assert {model.weight.device.type, x.device.type, torch.arange(3).device.type} == {
            device.type
        }
        return [model(x).sum().item()]
    finally:
        torch.set_default_device(None)


def functions(device: Any) -> list[float]:
    model, x = nn.Linear(3, 1).to(device), torch.randn(5, 3, device=device)

    def value(weights: Any, row: Any) -> Any:
        assert row.device.type == device.type
        return torch.func.functional_call(model, weights, (row[None],)).sum()

    gradient = torch.func.vmap(torch.func.grad(value), (None, 0))(
        dict(model.named_parameters()), x
    )["weight"]
    assert gradient.device.type == device.type
    drawn = torch.distributions.Normal(
        torch.zeros(2, device=device), torch.ones(2, device=device)
    ).sample()
    assert drawn.device.type == device.type
    return [gradient.sum().item(), drawn.sum().item(), torch.einsum("ij,kj->ik", x, x).sum().item()]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * torch.full((3,), 2.0, device=x.device)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        assert x.device == grads[0].device
        return grads[0] * torch.full((3,), 2.0, device=x.device)


def own_backward(device: Any) -> list[float]:
    seen = []
    x = torch.randn(3, device=device, requires_grad=True)
    x.register_hook(lambda gradient: seen.append(gradient.device.type))
    Doubled.apply(x).sum().backward()
    assert seen == [device.type]
    return [x.grad.sum().item()]


def parallel(device: Any) -> list[float]:
    model = nn.DataParallel(nn.Linear(4, 1)).to(device)
    return [model(torch.ones(2, 4, device=device)).sum().item()]


def losses_of_sequences(device: Any) -> list[float]:
    scores = torch.randn(5, 2, 4, device=device).log_softmax(2)
    labels = torch.ones(2, 3, dtype=torch.long, device=device)
    return [functional.ctc_loss(scores, labels, torch.tensor([5, 5]), torch.tensor([3, 3])).item()]


PROGRAMS: tuple[Program, ...] = (
    recurrent,
    transformer,
    embedding,
    convolution,
    recomputed,
    lbfgs,
    two_optimizers,
    averaged,
    saved,
    default_device,
    functions,
    own_backward,
    parallel,
    losses_of_sequences,
)


def both(program: Program, folder: Path) -> tuple[list[float], list[float], dict[str, Any]]:
    torch.manual_seed(0)
    plain = program(torch.device("cpu"))
    with virtual_cuda(str(folder)) as ledger:
        torch.manual_seed(0)
        virtual = program(torch.device("cuda"))
    return plain, virtual, ledger.summary(0)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program_computes_the_same(program: Program) -> None:
    plain, virtual, summary = both(program, Path(__file__).parent)
    assert virtual == plain
    assert summary["unavailable"] == ""
    assert [line for line in summary["lines"] if line["kind"] == "mismatch"] == []
    assert {line["file"] for line in summary["lines"]} == {Path(__file__).name}


OPTIMIZERS = {
    "fused": lambda p: torch.optim.AdamW(p, fused=True),
    "foreach": lambda p: torch.optim.AdamW(p, foreach=True),
    "tensor rate": lambda p: torch.optim.Adam(p, torch.tensor(1e-3)),
    "fused sgd": lambda p: torch.optim.SGD(p, 0.1, fused=True),
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "adamax": torch.optim.Adamax,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_reads_nothing_back(name: str) -> None:
    def program(device: Any) -> list[float]:
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
        return fit(model, torch.randn(4, 8), torch.randn(4, 1), OPTIMIZERS[name], device)

    plain, virtual, summary = both(program, Path(__file__).parent)
    assert virtual == plain
    assert (summary["d2h_bytes"], summary["staged"]) == (3 * 4, 0)


def test_capturable_optimizer_runs_as_on_a_gpu(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)):
        losses = fit(
            nn.Linear(8, 1),
            torch.randn(4, 8),
            torch.randn(4, 1),
            lambda p: torch.optim.Adam(p, capturable=True),
            torch.device("cuda"),
        )
    assert losses == sorted(losses, reverse=True)


def test_grad_scaler_waits_once_a_step_for_found_inf(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        model = nn.Linear(4, 1).to("cuda")
        optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
        for _ in range(3):
            x = torch.randn(8, 4, device="cuda")
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            ledger.mark_step()
        assert scaler.get_scale() == 65536.0
    summary = ledger.summary(1)
    assert (summary["syncs"], summary["d2h_bytes"], summary["h2d_bytes"]) == (1.0, 4.0, 0.0)
    assert summary["notes"] == ["autocast: arithmetic and sizes stay in the tensors' own dtype"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pinned", [False, True])
def test_loader_pins_only_when_asked(tmp_path: Path, workers: int, pinned: bool) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        data = torch.utils.data.TensorDataset(torch.randn(8, 4))
        for (x,) in torch.utils.data.DataLoader(data, 4, num_workers=workers, pin_memory=pinned):
            assert x.is_pinned() == pinned
            assert x.to("cuda", non_blocking=True).is_cuda
    summary = ledger.summary(0)
    assert (summary["syncs"], summary["h2d_bytes"], summary["staged"]) == (
        0,
        128,
        0 if pinned else 2,
    )


class Reads(torch.utils.data.Dataset):  # type: ignore[misc,type-arg]
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        torch.cuda.synchronize()
        return torch.ones(2)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_workers_are_not_counted_here(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        assert len(list(torch.utils.data.DataLoader(Reads(), 2, num_workers=1))) == 2
    assert ledger.summary(0)["syncs"] == 0


def test_threads_are_followed(tmp_path: Path) -> None:
    found = []
    with virtual_cuda(str(tmp_path)) as ledger:
        x = torch.ones(3, device="cuda")
        thread = threading.Thread(
            target=lambda: found.append((x + torch.ones(3).to(x.device)).is_cuda)
        )
        thread.start()
        thread.join()
    assert found == [True]
    assert ledger.summary(0)["h2d_bytes"] == 12


def test_names_of_torch_cuda(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        cuda = torch.cuda
        assert (cuda.device_count(), cuda.current_device(), cuda.get_device_capability()) == (
            1,
            0,
            (8, 0),
        )
        assert cuda.get_device_properties(0).total_memory == cuda.mem_get_info()[1]
        assert cuda.is_bf16_supported()
        assert (cuda.memory_allocated(), cuda.max_memory_reserved()) == (0, 0)
        cuda.set_device(0)
        cuda.manual_seed_all(1)
        cuda.set_rng_state(cuda.get_rng_state())
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        cuda.nvtx.range_push("x")
        cuda.nvtx.range_pop()
        stream = cuda.Stream()
        with cuda.stream(stream), cuda.device(0):
            assert cuda.current_stream() is stream
        assert cuda.current_stream() is not stream
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record()
        end.record()
        assert start.elapsed_time(end) >= 0
        generator = torch.Generator(device="cuda").manual_seed(1)
        assert generator.device.type == "cuda"
        assert isinstance(generator, torch.Generator)
        assert torch.randn(2, device="cuda", generator=generator).is_cuda
        assert cuda.FloatTensor([1.0, 2.0]).is_cuda
        assert torch.ones(1).type("torch.cuda.HalfTensor").dtype is torch.float16
        assert torch.backends.cudnn.is_available()
    assert ledger.summary(0)["unavailable"] == ""


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*set_default_tensor_type"
)
def test_old_names_of_amp_and_default_types(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)):
        scaler = torch.cuda.amp.GradScaler()
        with torch.cuda.amp.autocast():
            loss = scaler.scale(torch.ones((), device="cuda"))
        assert loss.is_cuda
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        try:
            assert torch.ones(3).is_cuda
        finally:
            torch.set_default_tensor_type("torch.FloatTensor")
        assert not torch.ones(3).is_cuda


class Marked(torch.Tensor):  # type: ignore[name-defined,misc]
    """A subclass without behaviour of its own."""


def test_unusual_tensors_move_too(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        assert torch.zeros(2, device=torch.device("cuda", 0)).is_cuda
        assert nn.LazyLinear(3).to("cuda")(torch.ones(2, 4, device="cuda")).is_cuda
        marked = torch.ones(3).as_subclass(Marked).to("cuda")
        assert (type(marked), type(marked.cpu()), marked.is_cuda) == (Marked, Marked, True)
        assert torch.empty(2, device="meta").device.type == "meta"
        assert torch.ones(2, device="cuda").to("meta").device.type == "meta"
        assert torch.nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.is_cuda
        ledger.mark_step()
        sparse = torch.eye(3).to_sparse().to("cuda")
        assert (sparse.device.type, sparse.to_dense().device.type, sparse.cpu().device.type) == (
            "cuda",
            "cuda",
            "cpu",
        )
        ledger.mark_step()
    assert ledger.summary(1)["h2d_bytes"] == 3 * 4 + 2 * 3 * 8
    assert ledger.summary(1)["syncs"] == 4


def test_results_of_inference_mode_stay_on_the_device(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)), torch.inference_mode():
        x = torch.ones(4, 4, device="cuda")
        assert x.t().contiguous().is_cuda
        assert x[:, ::2].reshape(-1).is_cuda
        assert functional.linear(x, x).to(torch.float64).is_cuda
        assert not x.cpu().is_cuda


def test_device_numbers_given_to_a_factory_do_not_move_its_result(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)):
        n = torch.tensor(3, device="cuda")
        assert not torch.arange(n).is_cuda
        assert not torch.full((2,), n).is_cuda
        assert torch.arange(n, device="cuda").is_cuda
        assert torch.normal(torch.zeros(3, device="cuda"), 1.0).is_cuda
        assert not torch.normal(0.0, 1.0, (3,)).is_cuda


def test_stopping_in_the_middle_of_a_torch_function(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.start()
    x = torch.ones(3, device="cuda", requires_grad=True)
    x.register_hook(lambda gradient: ledger.stop())
    torch.autograd.grad((x * 2).sum(), x)
    try:
        assert not x.is_cuda
        with pytest.raises((RuntimeError, AssertionError)):
            torch.ones(3, device="cuda")
    finally:
        torch._C._pop_torch_function_stack()
        while torch._C._len_torch_dispatch_stack():
            torch._C._pop_torch_dispatch_stack(None)
    assert ledger.summary(0)["unavailable"] == ""


@pytest.mark.slow
def test_compiled_programs_run_eagerly_and_say_so(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.compile(nn.Linear(4, 1).to("cuda"))
        assert model(torch.ones(2, 4, device="cuda")).is_cuda
    summary = ledger.summary(0)
    assert summary["notes"] == ["torch.compile: counted in eager mode"]
    assert summary["h2d_bytes"] == 20


@pytest.mark.slow
def test_attention_that_takes_functions_stays_on_the_device(tmp_path: Path) -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    causal = lambda batch, head, query, key: query >= key  # noqa: E731

    def attended(device: str, *, learns: bool) -> tuple[Any, Any]:
        torch.manual_seed(0)
        x = torch.randn(1, 2, 128, 16).to(device).requires_grad_(learns)
        mask = flex.create_block_mask(causal, None, None, 128, 128, device=device)
        given = flex.flex_attention(x, x, x, block_mask=mask)
        if learns:  # which torch refuses on the host
            given.sum().backward()
        return given.detach(), x.grad

    with warnings.catch_warnings(), virtual_cuda(str(tmp_path)) as ledger:
        warnings.simplefilter("ignore")  # that it is not compiled
        given, gradient = attended("cuda", learns=True)
        assert given.is_cuda
        assert gradient.is_cuda
    assert ledger.summary(0)["unavailable"] == ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(given, attended("cpu", learns=False)[0])


def test_scripted_functions_run_eagerly(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        double = torch.jit.script(lambda x: x.to("cuda") * 2)
        assert double(torch.ones(3)).is_cuda
    assert ledger.summary(0)["h2d_bytes"] == 12


def test_an_error_of_the_ledger_makes_the_counts_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(costs, "_flat", lambda *row: broken)
    with virtual_cuda(str(tmp_path)) as ledger:
        assert len(torch.ones(3, device="cuda").nonzero()) == 3
    summary = ledger.summary(0)
    assert "planted" in summary["unavailable"]
    assert summary["syncs"] is None


@pytest.mark.parametrize(
    "lacking",
    [
        lambda: torch.cuda.memory.caching_allocator_alloc(16),
        lambda: torch.cuda.get_device_properties(0).no_such_thing,
        lambda: torch.cuda.Stream().no_such_thing,
    ],
)
def test_what_has_no_stand_in_makes_the_counts_unavailable(
    tmp_path: Path, lacking: Callable[[], Any]
) -> None:
    if torch.version.cuda is not None:
        pytest.skip("a CUDA build has the function")
    with pytest.raises(AttributeError), virtual_cuda(str(tmp_path)) as ledger:
        lacking()
    assert ledger.summary(0)["unavailable"].startswith("AttributeError: ")
    assert ledger.summary(0)["syncs"] is None


def test_start_and_stop_without_a_block(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.start()
    torch.ones((), device="cuda").item()
    ledger.mark_step()
    ledger.stop()
    torch.ones(()).item()
    assert ledger.summary(0) == {
        "basis": "virtual-cuda",
        "unavailable": "",
        "notes": [],
        "steps": 1,
        "syncs": 1.0,
        "h2d_bytes": 0.0,
        "d2h_bytes": 4.0,
        "staged": 0.0,
        "lines": [
            {
                "kind": "d2h",
                "file": "<library>",
                "line": 0,
                "count": 1,
                "bytes": 4,
                "what": "item()",
            },
            {
                "kind": "sync",
                "file": "<library>",
                "line": 0,
                "count": 1,
                "bytes": 0,
                "what": "item()",
            },
        ],
        "used": True,
    }
