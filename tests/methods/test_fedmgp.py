"""FedMGP: where prompts act, what is trained, what leaves a client, and how the server fuses it."""

import copy
import math
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from conftest import command, course
from making import BACKBONE, FEATURES, INPUTS, LABELS, learned, make
from timm.layers import Attention
from timm.models import create_model
from timm.models.resnet import BasicBlock, ResNet
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.nn.functional import cosine_similarity, cross_entropy

from fcl_bench import Backbone, ConfigError, Round, Samples, Task, Update
from fcl_bench.backbone import InputSpec
from fcl_bench.config.compose import composed
from fcl_bench.methods.fedmgp import (
    CoarseStage,
    FedMGP,
    FineStage,
    Local,
    OnFeatures,
    OnStages,
    OnTokens,
    PersonalClassifier,
    Pool,
    add_prefix,
)
from fcl_bench.partition import Dirichlet, IidClients
from fcl_bench.temporal import Disjoint, IidTasks

PARTS = {"prompts", "keys", "hidden.weight", "hidden.bias", "head.weight", "head.bias"}
WIDTH = 4
SIDE = 16
IMAGES = InputSpec((3, SIDE, SIDE), torch.float32)


def adam(parameters, lr):
    return torch.optim.Adam(parameters, lr=lr, weight_decay=0.01)


def fedmgp(**settings):
    """Short training of a small head on features; full batches, whose order does not matter."""
    return make(FedMGP, **{"width": WIDTH, "optimizer": adam, "lr": 0.01, "batch_size": 1000} | settings)


def transformer(**settings):
    torch.manual_seed(0)
    network = VisionTransformer(SIDE, 8, num_classes=0, embed_dim=32, depth=2, num_heads=2, **settings)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.1 * torch.randn_like(weight))  # so that nothing is 0 or 1 by chance
    return network.eval().requires_grad_(False)


def resnet():
    torch.manual_seed(0)
    return ResNet(BasicBlock, (1, 1, 1, 1), num_classes=0, channels=(8, 16, 16, 32)).eval().requires_grad_(False)


def images(samples=3):
    return torch.rand(samples, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def attention_by_hand(attention, tokens, keys, values):
    """Softmax attention over the tokens' own keys and values and the given ones, one head at a time."""
    width = attention.qkv.in_features
    query, key, value = (tokens @ part.T for part in attention.qkv.weight.split(width))
    query, key, value = (
        each + bias for each, bias in zip((query, key, value), attention.qkv.bias.split(width), strict=True)
    )
    key, value = torch.cat([keys, key], dim=1), torch.cat([values, value], dim=1)
    size = width // attention.num_heads
    outputs = []
    for head in range(attention.num_heads):
        part = slice(head * size, (head + 1) * size)
        weights = (query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(size)).softmax(dim=2)
        outputs.append(weights @ value[..., part])
    return attention.proj(torch.cat(outputs, dim=2))


def embedded_by_hand(network, inputs):
    patches = network.patch_embed(inputs)
    return torch.cat([network.cls_token.expand(len(inputs), -1, -1), patches], dim=1) + network.pos_embed


def test_a_prefix_is_seen_by_attention_as_further_keys_and_values():
    torch.manual_seed(0)
    attention = Attention(8, num_heads=2, qkv_bias=True).requires_grad_(False)
    tokens, prefix = torch.randn(3, 5, 8), torch.randn(3, 2, 4, 8)
    plain = attention(tokens)
    with ExitStack() as hooks:
        add_prefix(hooks, attention, prefix)
        found = attention(tokens)
    torch.testing.assert_close(found, attention_by_hand(attention, tokens, prefix[:, 0], prefix[:, 1]))
    assert not torch.allclose(found, plain, atol=1e-2)
    assert torch.equal(attention(tokens), plain)


@pytest.mark.parametrize("pooling", ["token", "avg"])
def test_tokens_go_before_the_blocks_and_their_mean_is_read(pooling):
    network = transformer(global_pool=pooling)
    place = OnTokens(network, 5, (1,))
    prompt = torch.rand(1, *place.coarse)
    assert place.coarse == (5, 32)
    tokens = torch.cat([prompt.expand(3, -1, -1), embedded_by_hand(network, images())], dim=1)
    for block in network.blocks:
        tokens = block(tokens)
    expected = network.fc_norm(network.norm(tokens)[:, :5].mean(dim=1))
    torch.testing.assert_close(place(images(), prompt), expected)
    torch.testing.assert_close(place(images()), network(images()))


def test_fine_prompts_are_prefixes_of_each_sample_in_the_chosen_blocks():
    network = transformer()
    place = OnTokens(network, 5, (1,))
    assert place.fine == (1, 2, 5, 32)
    torch.manual_seed(2)
    coarse, fine = torch.rand(1, *place.coarse), torch.rand(3, *place.fine)
    tokens = torch.cat([coarse.expand(3, -1, -1), embedded_by_hand(network, images())], dim=1)
    first, second = network.blocks
    tokens = first(tokens)
    tokens = tokens + attention_by_hand(second.attn, second.norm1(tokens), fine[:, 0, 0], fine[:, 0, 1])
    tokens = tokens + second.mlp(second.norm2(tokens))
    expected = network.norm(tokens)[:, :5].mean(dim=1)
    found = place(images(), coarse, fine)
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, place(images(), coarse), atol=1e-3)


def test_offsets_go_to_the_inputs_of_a_resnet_s_stages():
    network = resnet()
    place = OnStages(Backbone(32, inputs=IMAGES), network)
    assert place.coarse == place.fine == (8 + 16 + 16,)
    torch.manual_seed(2)
    coarse, fine = torch.randn(1, 40), torch.randn(3, 40)
    for prompts, offsets in (((coarse,), coarse.expand(3, -1)), ((coarse, fine), coarse + fine)):
        maps = network.layer1(network.maxpool(network.act1(network.bn1(network.conv1(images())))))
        maps = network.layer2(maps + offsets[:, :8, None, None])
        maps = network.layer3(maps + offsets[:, 8:24, None, None])
        maps = network.layer4(maps + offsets[:, 24:, None, None])
        torch.testing.assert_close(place(images(), *prompts), network.global_pool(maps))
    torch.testing.assert_close(place(images()), network(images()))


def test_offsets_go_to_the_inputs_of_an_efficientnet_s_stages():
    network = create_model("test_efficientnet", num_classes=0).eval().requires_grad_(False)
    place = OnStages(Backbone(256, inputs=IMAGES), network)
    torch.manual_seed(2)
    coarse = torch.randn(1, *place.coarse)
    first, *others = network.blocks
    maps = first(network.bn1(network.conv_stem(images())))
    left = coarse
    for stage in others:
        offset, left = left[:, : maps.shape[1]], left[:, maps.shape[1] :]
        maps = stage(maps + offset[:, :, None, None])
    assert left.numel() == 0
    torch.testing.assert_close(place(images(), coarse), network.global_pool(network.bn2(network.conv_head(maps))))


@pytest.mark.parametrize("make_network", [transformer, resnet])
def test_gradients_reach_prompts_through_frozen_networks(make_network):
    """As central differences say, for the first number of each prompt."""
    network = make_network().double()
    backbone = Backbone(32, inputs=InputSpec((3, SIDE, SIDE), torch.float64))
    place = OnTokens(network, 2, (0, 1)) if make_network is transformer else OnStages(backbone, network)
    prompts = [0.1 * torch.ones(1, *shape, dtype=torch.float64) for shape in (place.coarse, place.fine)]

    def loss(*prompts):
        return place(images(1).double(), *prompts).square().sum()

    loss(*(prompt.requires_grad_() for prompt in prompts)).backward()
    for number, prompt in enumerate(prompts):
        ends = []
        for step in (1e-5, -1e-5):
            moved = [each.detach().clone() for each in prompts]
            moved[number].view(-1)[0] += step
            ends.append(loss(*moved))
        assert prompt.grad.view(-1)[0] == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-4)
    assert all(weight.grad is None for weight in network.parameters())


def small_pool(prompts):
    """Two features, two hidden units that pass on positive features, three classes."""
    pool = Pool(torch.tensor(prompts), 2, 2)
    pool.load_state_dict(
        {
            "prompts": torch.tensor(prompts),
            "keys": torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]][: len(prompts)]),
            "hidden.weight": torch.eye(2),
            "hidden.bias": torch.zeros(2),
            "head.weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]),
            "head.bias": torch.zeros(3),
        }
    )
    return pool


def test_the_loss_of_the_first_stage_by_hand():
    """One sample (3, 4) of class 1, prompt (-4, 0): features (-1, 4), hidden (0, 4), logits 0 and 4 of classes 0, 1."""
    stage = CoarseStage(OnFeatures(2), small_pool([[-4.0, 0.0]]), adam, torch.tensor([0, 1]), pull=0.1)
    loss = stage.training_step((torch.tensor([[3.0, 4.0]]), torch.tensor([1])), 0)
    cosine = 3 / 5  # of the frozen feature (3, 4) and the key (1, 0)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-4)) - 0.1 * cosine)


def test_the_loss_of_the_second_stage_by_hand():
    """The same sample under the prompt (-4, 0) and the prompt (2, -1) of class 1: features (1, 3)."""
    pool = small_pool([[9.0, 9.0], [2.0, -1.0], [7.0, 7.0]])
    stage = FineStage(torch.tensor([[-4.0, 0.0]]), OnFeatures(2), pool, adam, torch.tensor([0, 1]), 0.1)
    loss = stage.training_step((torch.tensor([[3.0, 4.0]]), torch.tensor([1])), 0)
    cosine = 4 / math.sqrt(17)  # of the prompted feature (-1, 4) and the key of class 1, (0, 1)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2)) - 0.1 * cosine)
    loss.backward()
    assert pool.prompts.grad[1].abs().sum() > 0
    assert not pool.prompts.grad[[0, 2]].any()
    assert not pool.head.weight.grad[2].any()  # outside of the softmax


class Alone:
    """The only client of a task."""

    def __init__(self, inputs, labels):
        self.data = Samples(inputs, labels)
        self.memory = {}


def by_hand(parameters, loss, steps):
    """Adam with clipped gradients, in plain PyTorch."""
    optimizer = adam(parameters, lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()


def head_by_hand(weights, features):
    return (features @ weights["hidden.weight"].T + weights["hidden.bias"]).relu() @ weights["head.weight"].T + weights[
        "head.bias"
    ]


def test_a_client_trains_as_a_plain_loop_does():
    method = fedmgp(epochs=3, gradient_clip=0.5)
    inputs, labels = INPUTS, torch.from_numpy(LABELS) % 3
    start = {**method.init(), "head.weight": torch.randn(4, WIDTH), "head.bias": torch.randn(4)}
    own = {**start, "prompts": torch.zeros(4, FEATURES), "keys": torch.randn(4, FEATURES)}
    client = Alone(inputs, labels)
    client.memory["local"] = Local(own, torch.tensor([3]), torch.tensor([3]))
    update = method.train(client, Round(start, None, 0.01))

    coarse = {name: value.clone().requires_grad_() for name, value in start.items()}

    def first():
        logits = head_by_hand(coarse, inputs + coarse["prompts"])[:, :3]
        return cross_entropy(logits, labels) - 0.1 * cosine_similarity(inputs, coarse["keys"]).mean()

    by_hand(list(coarse.values()), first, steps=3)
    fine = {name: value.clone().requires_grad_() for name, value in own.items()}
    prompted = (inputs + coarse["prompts"]).detach()

    def second():
        logits = head_by_hand(fine, prompted + fine["prompts"][labels])[:, :3]
        return cross_entropy(logits, labels) - 0.1 * cosine_similarity(prompted, fine["keys"][labels]).mean()

    by_hand(list(fine.values()), second, steps=3)
    kept = client.memory["local"]
    for found, expected in ((update.weights, coarse), (kept.weights, fine)):
        assert set(found) == PARTS
        for name in PARTS:
            torch.testing.assert_close(found[name], expected[name].detach(), rtol=1e-4, atol=1e-5)
    assert (update.samples, kept.held.tolist(), kept.latest.tolist()) == (120, [0, 1, 2, 3], [0, 1, 2])


def test_only_the_global_prompt_its_key_and_the_global_head_leave_a_client():
    replies = []

    class Listening(FedMGP):
        def train(self, client, received):
            update = super().train(client, received)
            replies.append((update, len(received.weights["head.bias"])))
            return update

    done = learned(make(Listening, width=WIDTH, rounds=1, optimizer=adam, lr=0.01, ce_scope="seen"))
    assert len(replies) == 3 * 3
    for update, classes in replies:
        assert set(vars(update)) == {"weights", "samples"}
        assert {name: tuple(value.shape) for name, value in update.weights.items()} == {
            "prompts": (1, FEATURES),
            "keys": (1, FEATURES),
            "hidden.weight": (WIDTH, FEATURES),
            "hidden.bias": (WIDTH,),
            "head.weight": (classes, WIDTH),
            "head.bias": (classes,),
        }
    for memory in done.memories[-1].values():
        held = memory["local"].held
        own = memory["local"].weights["prompts"].abs().sum(dim=1)
        never = torch.ones(len(own), dtype=torch.bool).index_fill(0, held, False)
        assert (own[held] > 0).all()
        assert not own[never].any()  # an offset begins at 0, and stays there without samples of its class


@pytest.mark.parametrize(("scope", "columns"), [("local", 0), ("task", 3), ("seen", 3)])
def test_traffic_by_hand(scope, columns):
    """Numbers of 4 bytes in tensors; 8 for a count, a learning rate and each class in a softmax for all."""
    method = fedmgp(rounds=2, ce_scope=scope)
    done = course(method, INPUTS, LABELS, Disjoint(2), IidClients(3))
    for exchange, classes in zip(done.exchanges, (3, 3, 6, 6), strict=True):
        numbers = 2 * FEATURES + WIDTH * (FEATURES + 1) + classes * (WIDTH + 1)
        shown = classes if scope == "seen" else columns
        assert exchange.uplink_bytes == 3 * (4 * numbers + 8)
        assert exchange.downlink_bytes == 3 * (4 * numbers + 8 + 8 * shown)


def test_the_head_grows_and_old_rows_stay():
    method = fedmgp(rounds=1)
    weights = method.init() | {"head.weight": torch.ones(2, WIDTH), "head.bias": torch.ones(2)}
    sent = []

    class Nobody:
        def map(self, function, message):
            sent.append(message)
            return iter(())

    (state,) = method.learn(weights, Task(1, (), (), (2,), 3), Nobody())
    assert state["head.weight"].shape == (3, WIDTH)
    assert torch.equal(state["head.weight"][:2], torch.ones(2, WIDTH))
    assert method.classifier(state)(INPUTS).shape == (120, 3)
    assert sent[0].columns is None


def test_averaging_weighs_clients_by_samples():
    method = fedmgp()
    updates = [Update({"prompts": torch.tensor([[value]])}, samples) for value, samples in ((0.0, 1), (4.0, 3))]
    assert method.fused(updates, {}, Task(0, (), (), (), 0))["prompts"].item() == 3


def public_task(samples=60):
    public = Samples(INPUTS[:samples], torch.from_numpy(LABELS[:samples]))
    return Task(0, (), (), tuple(range(6)), 6, public=public)


def two_updates(method):
    """Clients of 1 and of 3 samples, with different prompts and heads."""
    torch.manual_seed(0)
    start = {**method.init(), "head.weight": torch.zeros(6, WIDTH), "head.bias": torch.zeros(6)}
    return start, [
        Update({name: value + torch.randn_like(value) for name, value in start.items()}, samples) for samples in (1, 3)
    ]


def test_distilling_brings_the_prompt_nearer_to_all_clients_features_and_the_head_to_the_labels():
    method = fedmgp(fusion="distill", epochs=20)
    task = public_task()
    start, updates = two_updates(method)
    mean = fedmgp().fused(updates, start, task)
    fused = method.fused(updates, start, task)

    def prompt_error(weights):  # on features, the error of each sample is that of the offsets
        return sum((weights["prompts"] - update.weights["prompts"]).square().sum() * 60 for update in updates)

    def head_error(weights):
        features = task.public.inputs + weights["prompts"]
        return cross_entropy(head_by_hand(weights, features), task.public.labels)

    middle = {"prompts": sum(update.weights["prompts"] for update in updates) / 2}  # the best there is
    assert prompt_error(middle) <= prompt_error(fused) < prompt_error(mean)
    assert head_error(fused) < 0.9 * head_error(mean)
    assert torch.equal(fused["keys"], mean["keys"])


def test_clients_without_samples_do_not_take_part_in_a_fusion():
    method = fedmgp(fusion="distill", epochs=1)
    start, updates = two_updates(method)
    absent = Update({name: torch.full_like(value, torch.nan) for name, value in start.items()}, 0)
    fused = []
    for some in ([absent, *updates], updates):
        torch.manual_seed(1)
        fused.append(method.fused(iter(some), start, public_task()))
    torch.testing.assert_close(*fused)
    assert method.fused([absent], start, public_task()) is start


def test_a_course_with_distillation_uses_public_samples():
    first = {}
    for fusion in ("avg", "distill"):
        torch.manual_seed(0)
        method = fedmgp(fusion=fusion, rounds=1)
        first[fusion] = course(method, INPUTS, LABELS, IidTasks(2, reserved=4), IidClients(3)).states[0]
    assert torch.equal(first["avg"]["keys"], first["distill"]["keys"])
    assert not torch.equal(first["avg"]["head.weight"], first["distill"]["head.weight"])


def personal(held, allowed, classes=4):
    """Prompts that make a feature point to their own class: keys and classes as in ``small_pool``."""
    pool = small_pool([[9.0, 0.0], [0.0, 9.0], [0.0, 0.0]])
    coarse = torch.tensor([[1.0, 0.0]])
    return PersonalClassifier(OnFeatures(2), coarse, pool, torch.tensor(held), torch.tensor(allowed), classes)


def test_the_nearest_key_of_a_held_class_chooses_the_prompt():
    """The query (2, 8) is nearest to the key (0, 1) of class 1, then to (3, 4) of class 2."""
    inputs = torch.tensor([[1.0, 8.0]])
    assert personal([0, 1, 2], [0, 1, 2]).chosen(inputs + 1).tolist() == [1]
    for held, features in (([0, 1, 2], (2, 17)), ([0, 2], (2, 8)), ([0], (11, 8))):
        scores = personal(held, [0, 1, 2])(inputs)
        first, second = features
        assert scores[0, :3].tolist() == [first, second, 5 * (first + second)]
        assert scores[0, 3] == torch.finfo(torch.float32).min


def test_a_mask_leaves_some_classes_out():
    scores = personal([0, 1, 2], [1])(torch.tensor([[1.0, 8.0]]))
    assert scores.argmax(dim=1).tolist() == [1]
    assert scores.isfinite().all()


@pytest.mark.parametrize(("mask", "allowed"), [(False, [0, 2]), (True, [2])])
def test_the_masks_of_personal_classifiers(mask, allowed):
    method = make(FedMGP, Backbone(2), width=2, task_mask=mask)
    state = dict(small_pool([[1.0, 0.0]]).state_dict())
    own = dict(small_pool([[9.0, 0.0], [0.0, 9.0], [0.0, 0.0]]).state_dict())
    memory = {"local": Local(own, torch.tensor([0, 2]), torch.tensor([2]))}
    scores = method.personal_classifier(state, memory)(torch.tensor([[1.0, 8.0]]))
    expected = personal([0, 2], allowed, classes=3)(torch.tensor([[1.0, 8.0]]))
    assert torch.equal(scores, expected)
    assert (scores > torch.finfo(torch.float32).min)[0].nonzero().flatten().tolist() == allowed


def test_a_client_that_never_trained_has_the_global_model():
    method = make(FedMGP, Backbone(2), width=2)
    state = dict(small_pool([[-4.0, 0.0]]).state_dict())
    for classifier in (method.personal_classifier(state, {}), method.classifier(state)):
        assert classifier(torch.tensor([[3.0, 4.0]])).tolist() == [[0, 4, 20]]


def test_personal_classifiers_know_their_own_classes_better_than_the_global_model():
    method = fedmgp(rounds=3, epochs=5, batch_size=8, width=32)
    done = learned(method, Dirichlet(3, alpha=0.1), IidTasks(1))
    numbers = torch.from_numpy(done.stream.number[LABELS])
    right = {"personal": [], "global": []}
    for client, memory in done.memories[-1].items():
        own = torch.from_numpy(done.stream.indices(0, client))
        for name, classifier in (
            ("personal", method.personal_classifier(done.states[-1], memory)),
            ("global", method.classifier(done.states[-1])),
        ):
            right[name].append((classifier(INPUTS[own]).argmax(dim=1) == numbers[own]).float().mean())
    assert np.mean(right["personal"]) > np.mean(right["global"])


STAND_IN = Backbone(1, inputs=InputSpec((3, 1, 1), torch.uint8))


@pytest.mark.parametrize(
    ("backbone", "settings", "message"),
    [
        (BACKBONE, {"place": "tokens"}, r"hold images for method\.place=tokens, but they hold features: set backbone"),
        (BACKBONE, {"place": "stages"}, r"hold images for method\.place=stages, but they hold features: set backbone"),
        (STAND_IN, {"place": "features"}, r"hold features for method\.place=features, but they hold images: set"),
        (
            Backbone(32, build=resnet, inputs=IMAGES),
            {"place": "tokens"},
            r"Expected a vision transformer of timm for method\.place=tokens, .*: set backbone\.name to one",
        ),
        (
            Backbone(32, build=transformer, inputs=IMAGES),
            {"place": "tokens", "blocks": (1, 2)},
            r"Expected method\.blocks to be among 0 to 1, .* but got \[1, 2\]: leave the others out",
        ),
        (
            Backbone(32, build=transformer, inputs=IMAGES),
            {"place": "stages"},
            r"Expected a convolutional backbone with stages for method\.place=stages, .*: set backbone=resnet18",
        ),
        (
            Backbone(3 * SIDE**2, build=nn.Flatten, inputs=IMAGES),
            {"place": "stages"},
            r"Expected a convolutional backbone with stages for method\.place=stages, .*: set backbone=resnet18",
        ),
        (
            BACKBONE,
            {"optimizer": lambda parameters, lr: torch.optim.Adam(parameters, lr, weight_decay=-1)},
            r"Expected method\.optimizer to be one that torch accepts, but: Invalid weight_decay",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_what_does_not_go_together_is_refused(backbone, settings, message):
    with pytest.raises(ConfigError, match=message):
        make(FedMGP, backbone, **settings)


@pytest.mark.parametrize("place", ["stages", "tokens"])
def test_a_stand_in_for_a_network_is_not_judged(place):
    assert isinstance(make(FedMGP, STAND_IN, place=place), FedMGP)


SMALL = ("limit_train=40", "limit_test=20", "stream.tasks=2", "partition.clients=2")
NETWORK = ("backbone=timm", "backbone.weights=none")
SHORT = ("method=fedmgp", "method.rounds=1", "method.epochs=1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("backbone.trainable=true",),
            "Expected a frozen backbone for method=fedmgp, which does not train it, but got backbone.trainable=true: "
            "set backbone.trainable=false.",
        ),
        (
            ("backbone.clients_hold=images",),
            "Expected clients to hold features for method.place=features, but they hold images: "
            "set backbone.clients_hold=features, or method.place to tokens or stages.",
        ),
        (
            ("method.fusion=distill",),
            "Expected public samples for method=fedmgp, which needs them with these settings, "
            "but the stream reserves none: set stream.reserved=20.",
        ),
    ],
)
def test_a_run_is_refused_before_anything_is_written(tmp_path, words, message):
    refused = command(*SHORT, *SMALL, f"output_dir={tmp_path / 'runs'}", *words)
    assert (refused.code, refused.err) == (2, f"fcl_bench: {message}\n")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("place", "network"),
    [
        ("stages", ("backbone.name=test_efficientnet", "backbone.input_size=32")),
        ("tokens", ("backbone.name=test_vit",)),
    ],
)
def test_a_run_on_images_with_a_frozen_network(tmp_path, place, network):
    done = command(
        *SHORT,
        *SMALL,
        *NETWORK,
        *network,
        "backbone.clients_hold=images",
        f"method.place={place}",
        f"output_dir={tmp_path / 'runs'}",
        f"cache_dir={tmp_path / 'cache'}",
    )
    assert done.code == 0, done.err
    assert done.result["track"] == "frozen"
    assert done.result["facts"]["needs_frozen_backbone"]
    assert 0 <= done.result["metrics"]["personal_accuracy"] <= 100


def test_its_budget_is_its_own_under_a_protocol_too():
    config = composed("protocol=frozen_v1", "method=fedmgp")
    assert (config.method.rounds, config.method.epochs) == (5, 5)
    with pytest.raises(ConfigError, match=r"protocol=frozen_v1 fixes method\.rounds=5, but got 20"):
        composed("protocol=frozen_v1", "method=fedmgp", "method.rounds=20")


def test_training_does_not_reach_a_classifier_that_was_made_before():
    method = fedmgp(rounds=1)
    done = learned(method)
    classifier = method.classifier(done.states[0])
    before = classifier(INPUTS)
    learned(method)
    assert torch.equal(classifier(INPUTS), before)
    assert torch.equal(copy.deepcopy(classifier)(INPUTS), before)
