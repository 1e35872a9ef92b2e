"""Finetune by ``local=quick``, through ``clients.map``, against plain PyTorch taking the textbook's steps, on one core.

The reference computes all logits, masks those outside the softmax, and steps by autograd and ``torch.optim.SGD``. It has
its samples in memory, and puts them in order once per epoch. What clients receive and send costs it two copies.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.finetune import FEATURES
from benchmarks.harness import learn_one_task, make_scenario
from benchmarks.measure import Row, best
from benchmarks.plain import ready_batches
from fcl_bench.config.compose import build
from fcl_bench.learning import Progress, beginning
from fcl_bench.message import StateDict, snapshot
from fcl_bench.run.scenario import Scenario

REPEATS = 5
CLASSES = 100
SCOPE = 54  # classes in the softmax, as in the last of ten tasks of frozen_v1
ROUNDS = 20  # of a task, as in frozen_v1: what is computed once per task is shared by them
METHOD = ("method=finetune", f"method.rounds={ROUNDS}", "method.epochs=5", "method.batch_size=128", "local=quick")
