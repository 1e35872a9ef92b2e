"""FedProx: Finetune without its term, and what the term pulls at."""

from functools import partial

import torch
from making import INPUTS, LABELS, first_network, learned, make, sgd
from torch.nn.functional import cross_entropy

from fcl_bench.message import encode
from fcl_bench.methods.fedprox import FedProx
from fcl_bench.methods.finetune import Finetune
from fcl_bench.partition import IidClients
from fcl_bench.temporal import Disjoint


def test_without_its_term_it_is_finetune_to_the_bit():
    plain = learned(make(Finetune)).states[-1]
    zero = learned(make(FedProx, mu=0.0)).states[-1]
    some = learned(make(FedProx, mu=1.0)).states[-1]
    assert encode(plain) == encode(zero)
    assert encode(plain) != encode(some)


def test_it_pulls_towards_the_model_of_the_round():
    """One full-batch step from the received weights has no pull yet; the second has mu (w - w_global)."""
    mu, lr, decay = 0.7, 0.1, 0.01
    optimizer = partial(sgd, momentum=0, weight_decay=decay)
    method = make(FedProx, mu=mu, lr=lr, optimizer=optimizer, rounds=1, epochs=2, batch_size=1000)
    done = learned(method, IidClients(1), Disjoint(1))
    head = first_network(6).head
    start = head.weight.detach().clone()
    labels = torch.from_numpy(done.stream.number[LABELS])
    for _ in range(2):
        weight, bias = torch.autograd.grad(cross_entropy(head(INPUTS), labels), (head.weight, head.bias))
        with torch.no_grad():
            head.weight -= lr * (weight + decay * head.weight + mu * (head.weight - start))
            head.bias -= lr * (bias + decay * head.bias + mu * head.bias)
    torch.testing.assert_close(done.states[-1]["head.weight"], head.weight.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(done.states[-1]["head.bias"], head.bias.detach(), rtol=1e-5, atol=1e-6)
