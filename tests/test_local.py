import gc
import weakref

import lightning as L
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fcl_bench import local
from fcl_bench.config.compose import build, composed
from fcl_bench.errors import ConfigError
from fcl_bench.head import Head, grown
from fcl_bench.local import FabricFit, TrainerFit, batch_sizes, shuffled
from fcl_bench.message import snapshot
from fcl_bench.softmax import masked_targets


class Tensors:
    def __init__(self, *tensors):
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, positions):
        return tuple(tensor[positions] for tensor in self.tensors)


class Loss(L.LightningModule):
    def __init__(self, network=None):
        super().__init__()
        self.network = network or nn.Linear(4, 3)

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        return cross_entropy(self.network(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def data(samples=50, seed=0):
    random = torch.Generator().manual_seed(seed)
    return Tensors(torch.randn(samples, 4, generator=random), torch.randint(0, 3, (samples,), generator=random))


def trained(fit, module=None, samples=50, epochs=3):
    torch.manual_seed(1)
    module = module or Loss()
    torch.manual_seed(2)
    fit(module, data(samples), epochs, 16)
    return module


def plain_loop(samples=50, epochs=3, clip=None):
    """The same training written down without any of our code."""
    torch.manual_seed(1)
    network = nn.Linear(4, 3)
    torch.manual_seed(2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    inputs, labels = data(samples).tensors
    for _ in range(epochs):
        for batch in torch.randperm(samples).split(16):
            optimizer.zero_grad()
            cross_entropy(network(inputs[batch]), labels[batch]).backward()
            if clip:
                nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()
    return network


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_both_ways_give_the_weights_of_a_plain_loop(kind):
    assert torch.equal(trained(kind(accelerator="cpu")).network.weight, plain_loop().weight)


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_gradient_clipping_reaches_the_loop(kind):
    clipped = trained(kind(accelerator="cpu", gradient_clip=0.05)).network.weight
    torch.testing.assert_close(clipped, plain_loop(clip=0.05).weight)
    assert not torch.allclose(clipped, plain_loop().weight)


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_a_method_may_clip_where_the_settings_do_not(kind):
    usual = kind(accelerator="cpu", deterministic=True)
    assert usual.clipping(0.05) == kind(accelerator="cpu", deterministic=True, gradient_clip=0.05)
    assert usual.gradient_clip is None
    assert kind(gradient_clip=2.0).clipping(0.05).gradient_clip == 2.0


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_precision_reaches_the_loop(kind):
    weight = trained(kind(accelerator="cpu", precision="bf16-mixed")).network.weight
    assert weight.dtype == torch.float32
    assert not torch.equal(weight, plain_loop().weight)
    torch.testing.assert_close(weight, plain_loop().weight, atol=0.05, rtol=0.1)


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
@pytest.mark.parametrize("wanted", [True, False])
def test_deterministic_algorithms_last_as_long_as_the_loop(kind, wanted):
    class Witness(Loss):
        def training_step(self, batch, batch_idx):
            seen.append(torch.are_deterministic_algorithms_enabled())
            return super().training_step(batch, batch_idx)

    seen = []
    trained(kind(accelerator="cpu", deterministic=wanted), Witness(), samples=32, epochs=1)
    assert seen == [wanted, wanted]
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(("kind", "name"), [(FabricFit, "Fabric"), (TrainerFit, "Trainer")])
def test_accelerator_and_precision_reach_lightning(kind, name, monkeypatch):
    def spy(**settings):
        given.update(settings)
        return original(**settings | {"accelerator": "cpu"})

    given, original = {}, getattr(L, name)
    monkeypatch.setattr(L, name, spy)
    monkeypatch.setattr("fcl_bench.local._missing_devices", set)
    trained(kind(accelerator="cuda", precision="bf16-mixed"), epochs=1)
    assert (given["accelerator"], given["precision"], given["devices"]) == ("cuda", "bf16-mixed", 1)


@pytest.fixture(scope="module")
def witness():
    """A backend of torch.compile that runs what it is given as it is, and keeps it."""

    def keep(graph, inputs):
        seen.append(graph)
        return graph.forward

    seen = []
    torch._dynamo.register_backend(keep, name="witness")
    return seen


@pytest.fixture
def graphs(witness):
    """What the backend ``witness`` was asked to compile."""
    torch._dynamo.reset()
    witness.clear()
    return witness


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
@pytest.mark.parametrize("backend", ["witness", "aot_eager"])
def test_a_compiled_network_gets_the_weights_of_a_plain_loop(kind, backend, graphs):
    fit, module = kind(accelerator="cpu", compile=backend), Loss()
    start = snapshot(plain_loop(epochs=0))
    for _ in range(2):
        module.network.load_state_dict(start)
        torch.manual_seed(2)
        fit(module, data(), 3, 16)
        torch.testing.assert_close(module.network.weight, plain_loop().weight)
    assert list(snapshot(module)) == ["network.weight", "network.bias"]
    if backend == "witness":  # for batches of 16 and for the last one; the second fit uses what the first compiled
        assert 1 <= len(graphs) <= 2


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_other_settings_reach_a_compiled_network(kind, graphs):
    fit = kind(accelerator="cpu", compile="witness", gradient_clip=0.05, deterministic=True)
    torch.testing.assert_close(trained(fit).network.weight, plain_loop(clip=0.05).weight)
    half = trained(kind(accelerator="cpu", compile="witness", precision="bf16-mixed")).network.weight
    assert not torch.equal(half, plain_loop().weight)
    torch.testing.assert_close(half, plain_loop().weight, atol=0.05, rtol=0.1)
    assert len(graphs) > 1


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_nothing_is_compiled_by_default(kind):
    torch._dynamo.utils.counters.clear()
    trained(kind(accelerator="cpu"))
    assert not torch._dynamo.utils.counters["frames"]


@pytest.mark.parametrize("choice", ["local=fabric", "local=trainer"])
def test_an_unknown_backend_is_answered_with_the_known_ones(choice):
    config = composed("method=joint", choice, "local.compile=inducter")
    for node in (config.local, config.method.fit):
        with pytest.raises(
            ConfigError, match=r"local\.compile to be null or .*\(inductor, aot_eager,.* but got inducter"
        ):
            build(node)


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_a_second_fit_trains_as_much_as_the_first(kind):
    fit, module = kind(accelerator="cpu"), Loss()
    start = snapshot(module)
    results = []
    for _ in range(2):
        module.load_state_dict(start)
        torch.manual_seed(2)
        fit(module, data(), 2, 16)
        results.append(snapshot(module))
    assert torch.equal(results[0]["network.weight"], results[1]["network.weight"])
    assert not torch.equal(results[0]["network.weight"], start["network.weight"])


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_one_fit_serves_several_modules(kind):
    fit = kind(accelerator="cpu")
    one, other = trained(fit), trained(fit)
    assert torch.equal(one.network.weight, other.network.weight)


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_no_data_is_no_training(kind):
    module = Loss()
    before = snapshot(module)
    kind(accelerator="cpu")(module, Tensors(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)), 2, 16)
    assert torch.equal(module.network.weight, before["network.weight"])


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
@pytest.mark.parametrize("samples", [1, 17, 33])  # the last batch of 16 would hold one sample
def test_batchnorm_survives_a_lone_sample(kind, samples):
    module = trained(kind(accelerator="cpu"), Loss(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))), samples)
    assert all(value.isfinite().all() for value in snapshot(module).values())


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_batchnorm_survives_batches_of_one(kind):
    module = Loss(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)))
    before = snapshot(module)
    kind(accelerator="cpu")(module, data(5), 1, 1)
    assert torch.equal(module.network[0].running_mean, before["network.0.running_mean"])
    assert not torch.equal(module.network[1].weight, before["network.1.weight"])


class Noise(Loss):
    """Draws random numbers in its step, as dropout or replay do."""

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        return super().training_step((inputs + 0.1 * torch.randn_like(inputs), labels), batch_idx)


def drawn_batches():
    for size in (8, 3, 12):
        yield torch.randn(size, 4), torch.randint(0, 3, (size,))


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
@pytest.mark.parametrize("batches", [list, iter], ids=["list", "on the fly"])
def test_any_batches_can_be_trained_on_one_step_for_each(kind, batches):
    """Random numbers are drawn in the order of a plain loop: a batch, then its step."""
    torch.manual_seed(1)
    module, plain = Noise(), Noise()
    plain.load_state_dict(module.state_dict())
    torch.manual_seed(2)
    kind(accelerator="cpu").over(module, batches(drawn_batches()))
    torch.manual_seed(2)
    optimizer = plain.configure_optimizers()
    for batch in batches(drawn_batches()):
        optimizer.zero_grad()
        plain.training_step(batch, 0).backward()
        optimizer.step()
    assert torch.equal(module.network.weight, plain.network.weight)


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_random_steps_of_several_epochs_come_in_the_order_of_a_plain_loop(kind):
    torch.manual_seed(1)
    module, plain = Noise(), Noise()
    plain.load_state_dict(module.state_dict())
    inputs, labels = data().tensors
    torch.manual_seed(2)
    kind(accelerator="cpu")(module, data(), 3, 16)
    torch.manual_seed(2)
    optimizer = plain.configure_optimizers()
    for _ in range(3):
        for positions in torch.randperm(50).split(16):
            optimizer.zero_grad()
            plain.training_step((inputs[positions], labels[positions]), 0).backward()
            optimizer.step()
    assert torch.equal(module.network.weight, plain.network.weight)


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_no_batches_are_no_training(kind):
    module = Loss()
    before = snapshot(module)
    kind(accelerator="cpu").over(module, [])
    assert torch.equal(module.network.weight, before["network.weight"])


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_a_fit_names_its_device(kind):
    assert kind(accelerator="cpu").device == torch.device("cpu")


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
@pytest.mark.parametrize("accelerator", ["gpu", "cuda", "mps"])
def test_an_accelerator_that_is_not_there_is_refused_at_once(kind, accelerator, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    complaint = rf"local\.accelerator={accelerator} needs a device that PyTorch does not find"
    with pytest.raises(ConfigError, match=complaint):
        kind(accelerator=accelerator)


@pytest.mark.parametrize("gathered", [1, 1000, 1 << 20])
def test_an_epoch_visits_every_sample_once_and_no_batch_has_one(gathered, monkeypatch):
    """Whatever is taken from the data at once: a batch, several, all."""
    monkeypatch.setattr(local, "GATHERED", gathered)
    for samples in range(2, 70):
        numbers = torch.arange(samples)
        torch.manual_seed(samples)
        batches = list(shuffled(Tensors(numbers, 2 * numbers), 1, 16))
        torch.manual_seed(samples)
        assert torch.equal(torch.cat([batch for batch, _ in batches]), torch.randperm(samples))
        assert all(torch.equal(second, 2 * first) for first, second in batches)
        sizes = [len(batch) for batch, _ in batches]
        assert sizes == batch_sizes(samples, 16)
        assert min(sizes) > 1
        assert max(sizes) <= 17


def test_no_more_is_taken_from_the_data_at_once_than_is_allowed(monkeypatch):
    class Watched(Tensors):
        def __getitem__(self, positions):
            taken.append(len(positions))
            return super().__getitem__(positions)

    monkeypatch.setattr(local, "GATHERED", 16 * 100)
    taken = []
    list(shuffled(Watched(torch.zeros(100, 2), torch.zeros(100, dtype=torch.int64)), 2, 8))  # 16 bytes per sample
    assert max(taken) == 96
    assert taken[1:] == [96, 4] * 2


def test_threads_are_given_back():
    before = torch.get_num_threads()
    trained(FabricFit(accelerator="cpu"))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_a_fit_does_not_keep_modules_alive(kind):
    fit = kind(accelerator="cpu")
    ghosts = []
    for _ in range(3):
        module = Loss()
        fit(module, data(), 1, 16)
        ghosts.append(weakref.ref(module))
    del module
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None, None]


@pytest.mark.parametrize("kind", [FabricFit, TrainerFit])
def test_two_modules_can_take_turns_under_one_fit(kind):
    fit = kind(accelerator="cpu")
    torch.manual_seed(1)
    one, other = Loss(), Loss(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)))
    alone = Loss()
    alone.load_state_dict(one.state_dict())
    for turn in range(3):
        for module in (one, other):
            torch.manual_seed(turn)
            fit(module, data(), 1, 16)
        torch.manual_seed(turn)
        kind(accelerator="cpu")(alone, data(), 1, 16)
    assert torch.equal(one.network.weight, alone.network.weight)


def test_a_head_takes_the_size_of_its_weights_and_keeps_old_rows_to_the_bit():
    torch.manual_seed(0)
    head = nn.ModuleDict({"head": Head(4)})
    first = grown(snapshot(head), 3)
    second = grown(first, 5)
    head.load_state_dict(second)
    assert head["head"](torch.zeros(2, 4)).shape == (2, 5)
    assert torch.equal(second["head.weight"][:3], first["head.weight"])
    assert torch.equal(second["head.bias"], torch.zeros(5))
    assert second["head.weight"].abs().max() <= (3 / 4) ** 0.5  # Kaiming-uniform, gain 1
    assert grown(second, 5) is second
    head.load_state_dict(first)
    assert head["head"].out_features == 3


def test_a_softmax_over_some_columns_leaves_the_others_without_gradient():
    logits = torch.randn(4, 6, requires_grad=True)
    labels, columns = torch.tensor([1, 4, 1, 5]), torch.tensor([1, 4, 5])
    loss = cross_entropy(*masked_targets(logits, labels, columns))
    by_hand = -torch.stack([logits[i, y] - logits[i, columns].exp().sum().log() for i, y in enumerate(labels)]).mean()
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-6)
    loss.backward()
    assert torch.equal(logits.grad[:, [0, 2, 3]], torch.zeros(4, 3))
    assert (logits.grad[:, columns] != 0).all()
