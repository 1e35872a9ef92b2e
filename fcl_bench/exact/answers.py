"""An exact answer in full: statistics, weights and test predictions, in an order that no stream decides."""

from typing import Any

import torch

from fcl_bench.client_data import ClientData
from fcl_bench.evidence import parts
from fcl_bench.message import StateDict
from fcl_bench.run.evaluate import predict
from fcl_bench.run.scenario import Scenario

Answer = dict[str, StateDict]  # the tensors of each part: "statistics", "weights", "predictions"


def answer_of(method: Any, state: Any, scenario: Scenario) -> Answer:
    """What the method knows and says after the last task of a stream."""
    classifier = method.classifier(state)
    order = scenario.stream.order
    predictions = predict(classifier, scenario.test.tensor, order, scenario.stream.tasks[-1])
    found = parts(method.evidence(state), classifier, order)
    return {**found, "predictions": {"predictions": torch.from_numpy(predictions)}}


def joint_answer(method: Any, scenario: Scenario) -> Answer:
    """What one place that holds all samples of the stream would know and say: no clients, no tasks."""
    stream = scenario.stream
    state = method.joint(samples_of(scenario, stream.samples), len(stream.order))
    return answer_of(method, state, scenario)


def samples_of(scenario: Scenario, indices: Any) -> ClientData:
    """Training samples with their class numbers in the stream."""
    stream = scenario.stream
    numbers = torch.from_numpy(stream.number[scenario.dataset.train.labels[indices]])
    return ClientData(scenario.train, torch.from_numpy(indices), numbers)
