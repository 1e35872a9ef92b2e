"""The other half of :mod:`benchmarks.plain`: methods that keep samples, and whose softmax goes over all classes."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss, normalize, pad

from benchmarks.plain import Second, fit


def fedicarl(second: Second) -> tuple[Tensor, ...]:
    """Ends with the exemplars and the class means of their features."""
    head = second.head()
    teacher = second.teacher()
    old = second.memory["exemplars"]

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        logits = head(inputs)
        return cross_entropy(logits, labels) + second.distilled(logits, teacher, inputs)

    inputs = torch.cat([second.inputs, old.inputs])
    labels = torch.cat([second.labels, old.labels])
    fit(second, head, loss, inputs, labels, exchange=1)

    share = (second.settings.memory_size or 300) // second.classes
    features = normalize(inputs.double())
    chosen = []
    for label in range(second.classes):
        positions = (labels == label).nonzero().flatten()
        chosen.append(positions[:share] if label < second.known else positions[herded(features[positions], share)])
    exemplars = torch.cat(chosen)
    means = torch.stack([features[positions].sum(dim=0) for positions in chosen])
    return head.weight, head.bias, inputs[exemplars], labels[exemplars], normalize(means).T


def herded(features: Tensor, number: int) -> Tensor:
    """The rows that bring the mean of those chosen so far nearest to the mean of all, one after the other."""
    goal = features.mean(dim=0)
    total = torch.zeros_like(goal)
    lengths = (features**2).sum(dim=1)
    chosen = list[int]()
    for count in range(1, number + 1):
        gain = 2 * features @ (count * goal - total) - lengths
        gain[chosen] = -torch.inf
        chosen.append(int(gain.argmax()))
        total += features[chosen[-1]]
    return torch.tensor(chosen)


def fedavg_er(second: Second) -> tuple[Tensor, ...]:
    """Ends with the buffer."""
    head = second.head()
    buffer = second.memory["buffer"]
    settings = second.settings

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        drawn = torch.randint(len(buffer), (len(labels),))
        old = cross_entropy(head(buffer["inputs"][drawn]), buffer["labels"][drawn])
        return (cross_entropy(head(inputs), labels) + old) / 2

    fit(second, head, loss, second.inputs, second.labels, exchange=0)
    second.draw(1)
    inputs = buffer["inputs"].clone()
    labels = buffer["labels"].clone()
    for slot, position in replaced(settings.memory_size, buffer.seen, len(second.labels)):
        inputs[slot] = second.inputs[position]
        labels[slot] = second.labels[position]
    return head.weight, head.bias, inputs, labels


def derpp(second: Second) -> tuple[Tensor, ...]:
    """Ends with the buffer and the logits in it."""
    head = second.head()
    buffer = second.memory["buffer"]
    settings = second.settings

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        first, other = torch.randint(len(buffer), (2, len(labels)))
        dark = mse_loss(head(buffer["inputs"][first])[:, : second.known], buffer["logits"][first])
        labelled = cross_entropy(head(buffer["inputs"][other]), buffer["labels"][other])
        return cross_entropy(head(inputs), labels) + settings.beta * labelled + settings.alpha * dark

    fit(second, head, loss, second.inputs, second.labels, exchange=0)
    second.draw(1)
    with torch.no_grad():
        now = head(second.inputs)
    inputs = buffer["inputs"].clone()
    labels = buffer["labels"].clone()
    known = buffer["known"].clone()
    logits = pad(buffer["logits"], (0, second.classes - second.known))
    for slot, position in replaced(settings.memory_size, buffer.seen, len(second.labels)):
        inputs[slot] = second.inputs[position]
        labels[slot] = second.labels[position]
        logits[slot] = now[position]
        known[slot] = second.classes
    return head.weight, head.bias, inputs, labels, logits, known


def replaced(size: int, seen: int, arriving: int) -> list[tuple[int, int]]:
    """Slots of a full reservoir, and the arriving samples that they get in turn."""
    draws = torch.rand(arriving, dtype=torch.float64).tolist()
    slots = [int(draw * (seen + before + 1)) for before, draw in enumerate(draws)]
    return [(slot, position) for position, slot in enumerate(slots) if slot < size]
