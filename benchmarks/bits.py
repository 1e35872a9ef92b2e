"""``python -m benchmarks.bits OVERRIDES``: accuracy of ridge regression by the bits of its features.

On a fifth of the training samples, held out by a seeded shuffle; no test sample is read. The overrides name data set,
backbone and data_dir.
"""

import sys

import torch

from benchmarks.harness import make_scenario
from fcl_bench import ClientData, linalg
from fcl_bench.moments import Arithmetic, InFloat64, InWholeNumbers
from fcl_bench.run.scenario import Scenario
from fcl_bench.whole_numbers import Grid

BITS = (17, 16, 14, 12, 10, 8, 7, 6, 5, 4)
GENEROUS = 64.0  # the range where none is known


def main() -> None:
    scenario = make_scenario("method=afcl", *sys.argv[1:])
    known = scenario.backbone.inputs.high
    print(f"float64: {held_out_accuracy(scenario, InFloat64()):.2f} %")
    for bound in [known, GENEROUS] if known else [GENEROUS]:
        for bits in BITS:
            accuracy = held_out_accuracy(scenario, InWholeNumbers(Grid(bits, bound)))
            print(f"{bits:>2} bits, range {bound:g}: {accuracy:.2f} %", flush=True)


def held_out_accuracy(scenario: Scenario, arithmetic: Arithmetic) -> float:
    """In percent."""
    inputs = scenario.train
    labels = torch.from_numpy(scenario.dataset.train.labels)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    taught, held_out = order.split([len(labels) * 4 // 5, len(labels) - len(labels) * 4 // 5])
    samples = ClientData(inputs, taught, labels[taught])
    moments = arithmetic.moments(samples, inputs.shape[1], len(scenario.dataset.classes))
    weights = linalg.ridge(*arithmetic.system(moments), scenario.config.method.gamma)
    best = (inputs[held_out].double() @ weights).argmax(dim=1)
    return 100 * float((best == labels[held_out]).double().mean())


if __name__ == "__main__":
    main()
