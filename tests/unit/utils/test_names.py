"""Names of weft.utils and its neighbours that programs ask for at import: hooks, trees, checkpoints, hub, scalers."""

from __future__ import annotations

import collections
import hashlib
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import nn
from weft.utils import _pytree, checkpoint, pytree
from weft.utils.hooks import BackwardHook, RemovableHandle, unserializable_hook, warn_if_has_hooks


def test_handles_of_hooks_are_of_one_class() -> None:
    model, x = nn.Linear(2, 2), weft.ones(2, requires_grad=True)
    assert isinstance(model.register_forward_hook(lambda *a: None), RemovableHandle)
    assert isinstance(x.register_hook(lambda g: None), RemovableHandle)
    table: dict[int, Any] = collections.OrderedDict()
    marks: dict[int, bool] = {}
    handle = RemovableHandle(table, extra_dict=marks)
    table[handle.id], marks[handle.id] = "hook", True
    with handle:
        assert handle.hooks_dict_ref() is table
    assert not table and not marks


def test_backward_hooks_around_one_call() -> None:
    seen: list[Any] = []
    model = nn.Linear(2, 2)

    def hook(module: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append((module, grad_output[0]))
        return tuple(2 * g for g in grad_input)

    watch = BackwardHook(model, [hook], [lambda module, grads: (3 * grads[0],)])
    x = weft.ones(1, 2, requires_grad=True)
    out = watch.setup_output_hook(model(*watch.setup_input_hook((x,))))
    out.sum().backward()
    assert seen[0][0] is model and seen[0][1].tolist() == [[3, 3]]
    assert weft.allclose(x.grad, 6 * model.weight.sum(0, keepdim=True))


def test_hooks_that_are_not_saved_are_told_of() -> None:
    x = weft.ones(2, requires_grad=True)
    x.register_hook(unserializable_hook(lambda g: None))
    warn_if_has_hooks(x)  # quiet: warnings are errors in this test
    x.register_hook(lambda g: None)
    with pytest.warns(UserWarning, match="will not be serialized"):
        warn_if_has_hooks(x)


class Pair:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


def test_trees_with_pytorchs_keywords() -> None:
    calls = []

    def parts(pair: Pair) -> Any:
        calls.append(pair)
        return (pair.a, pair.b), None

    _pytree.register_pytree_node(
        Pair, parts, lambda children, _: Pair(*children), serialized_type_name="tests.Pair",
        flatten_with_keys_fn=lambda p: None,
    )
    leaves, spec = pytree.tree_flatten({"x": Pair(1, [2, 3]), "y": 4})
    assert leaves == [1, 2, 3, 4] and len(calls) == 1 and spec.num_leaves == 4 and not spec.is_leaf()
    assert spec.unflatten([5, 6, 7, 8])["x"].b == [6, 7] and spec.type is dict
    with pytest.raises(ValueError, match="4 leaves, but 1 were given"):
        pytree.tree_unflatten([1], spec)
    assert _pytree.LeafSpec() is pytree.LEAF and isinstance(pytree.tree_structure(3), _pytree.LeafSpec)
    tree = {"x": (1, [2]), "y": 3.5}
    assert pytree.tree_leaves(tree, is_leaf=lambda t: isinstance(t, tuple)) == [(1, [2]), 3.5]
    assert pytree.tree_map_only(int, lambda n: -n, tree) == {"x": (-1, [-2]), "y": 3.5}
    assert pytree.tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]
    assert pytree.tree_all_only(int, lambda n: n > 0, tree) and not pytree.tree_any_only(float, lambda n: n > 4, tree)
    ways, _ = pytree.tree_flatten_with_path(tree)
    assert [(pytree.keystr(way), leaf) for way, leaf in ways] == [("['x'][0]", 1), ("['x'][1][0]", 2), ("['y']", 3.5)]
    assert pytree.tree_map_with_path(lambda way, n: len(way), tree) == {"x": (2, [3]), "y": 1}
    seen: list[Any] = []
    assert pytree.tree_map_(seen.append, tree) is tree and seen == [1, 2, 3.5]
    values, context = _pytree._dict_flatten({"a": 1, "b": 2})
    assert (values, context) == ([1, 2], ["a", "b"]) and _pytree._dict_unflatten(values, context) == {"a": 1, "b": 2}
    assert _pytree._is_leaf(3) and not _pytree._is_leaf([3])
    assert Pair in _pytree.SUPPORTED_NODES and int not in _pytree.SUPPORTED_NODES
    children, context = _pytree.SUPPORTED_NODES[dict].flatten_fn({"a": 1})
    assert _pytree.SUPPORTED_NODES[dict].unflatten_fn(children, context) == {"a": 1}
    row = collections.namedtuple("row", "a b")(1, 2)
    node = _pytree.SUPPORTED_NODES[collections.namedtuple]
    assert _pytree._get_node_type(row) is collections.namedtuple and node.unflatten_fn(*node.flatten_fn(row)) == row


def test_checkpoints_ask_no_device_for_its_state() -> None:
    devices, states = checkpoint.get_device_states(weft.ones(2), 3)
    assert (devices, states) == ([], [])
    checkpoint.set_device_states(devices, states)
    with pytest.raises(weft.WeftError, match="CPU only"):
        checkpoint.set_device_states([0], [None])
    x = weft.ones(2, requires_grad=True)
    (y, n) = checkpoint.detach_variable((x * 2, 5))
    assert y.is_leaf and y.requires_grad and n == 5
    with pytest.warns(UserWarning, match="None of the inputs"):
        checkpoint.check_backward_validity([weft.ones(2)])


def test_hub_reads_what_was_downloaded_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.utils import model_zoo

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    state, url = nn.Linear(2, 3).state_dict(), "https://example.org/nets/net.weft?x=1"
    with pytest.raises(FileNotFoundError, match=r"example\.org.*net\.weft"):
        model_zoo.load_url(url)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    weft.save(state, folder / "net.weft")
    found = model_zoo.load_url(url)
    assert all(weft.equal(found[key], value) for key, value in state.items())
    digest = hashlib.sha256((folder / "net.weft").read_bytes()).hexdigest()[:8]
    for name in (f"net-{digest}.weft", "net-00000000.weft"):
        (folder / name).write_bytes((folder / "net.weft").read_bytes())
    assert weft.hub.load_state_dict_from_url(f"https://example.org/net-{digest}.weft", check_hash=True)
    with pytest.raises(ValueError, match="invalid hash"):
        weft.hub.load_state_dict_from_url("https://example.org/net-00000000.weft", check_hash=True)
    with model_zoo.tqdm(range(3), disable=True) as bar:
        assert list(bar) == [0, 1, 2]
    with pytest.raises(NotImplementedError, match="downloads nothing"):
        weft.hub.load("someone/something", "net")


def test_the_profilers_names() -> None:
    from weft.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule

    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [plan(i).name for i in range(6)] == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert ProfilerAction.NONE.value == 0 and ProfilerActivity.CPU.name == "CPU"

    @record_function("double")
    def double(x: Any) -> Any:
        with record_function("inner"):
            return 2 * x

    assert double(3) == 6
    x = weft.ones(2)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        double(x)
    names = [e.name for e in prof.events()]
    assert names == ["double", "inner", "aten::mul"]


def test_a_scaler_skips_steps_that_are_not_finite_and_finds_its_scale() -> None:
    weight = nn.Parameter(weft.ones(2))
    opt, scaler = weft.optim.SGD([weight], lr=0.5), weft.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    with pytest.raises(RuntimeError, match="nothing has been scaled"):
        scaler.step(opt)
    scales, losses = [], [1.0, float("inf"), 1.0, 1.0, 1.0]
    for factor in losses:
        opt.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.unscale_(opt)
        with pytest.raises(RuntimeError, match="already been called"):
            scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [8, 4, 4, 8, 8] and weight.tolist() == [1 - 4 * 0.5] * 2
    other = weft.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8 and other.state_dict() == scaler.state_dict()
    with pytest.warns(UserWarning, match="CUDA is not available"):
        off = weft.GradScaler()
    assert not off.is_enabled() and off.scale(weight) is weight and off.state_dict() == {} and off.get_scale() == 1


def _double_into(index: int, folder: str) -> None:
    Path(folder, str(index)).write_text(str((weft.ones(2) * index).sum().item()), encoding="utf-8")


def _fail(index: int) -> None:
    raise KeyError(f"process {index}")


def test_spawned_processes_run_and_their_errors_come_back(tmp_path: Path) -> None:
    import weft.multiprocessing as mp

    mp.spawn(_double_into, (str(tmp_path),), nprocs=2)
    assert [float((tmp_path / str(i)).read_text()) for i in range(2)] == [0, 2]
    with pytest.raises(mp.ProcessRaisedException, match="process 0"):
        mp.spawn(_fail, nprocs=1)
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(ValueError, match="file_system"):
        mp.set_sharing_strategy("file_descriptor")


def test_a_function_mode_under_pytorchs_name() -> None:
    from weft.overrides import TorchFunctionMode, get_ignored_functions, has_torch_function_unary

    class Count(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            return func(*args, **(kwargs or {}))

    x = weft.ones(2)
    with Count() as mode:
        assert weft.add(x, x).tolist() == [2, 2] and has_torch_function_unary(x)
    assert mode.calls == 1 and not has_torch_function_unary(x)
    assert weft.is_tensor in get_ignored_functions() and weft.add not in get_ignored_functions()


def test_types_of_gpus_and_libraries_cannot_be_made() -> None:
    for kind in (weft.cuda.Stream, weft.cuda.CUDAGraph, weft.cuda.Event, weft.Stream):
        assert isinstance(kind, type)
        with pytest.raises(weft.WeftError, match="CPU only"):
            kind()
    with pytest.raises(OSError, match="binary"):
        weft.ops.load_library("libsomething.so")
    with pytest.raises(weft.WeftError, match=r"weft\.load"):
        weft.PyTorchFileReader("x")
    assert not isinstance(3, weft.SymInt) and not weft.__future__.get_swap_module_params_on_conversion()
    sizes: list[bool] = []
    weft.compile(lambda t: (sizes.append(isinstance(t.shape[0], weft.SymInt)), t + 1)[1])(weft.ones(3))
    assert sizes == [True]


def test_loaders_under_pytorchs_file_names() -> None:
    from weft.utils.data import DataLoader
    from weft.utils.data.dataloader import DataLoader as Same
    from weft.utils.data.dataloader import default_collate

    assert Same is DataLoader and default_collate([1, 2]).tolist() == [1, 2]
