"""``python -m fcl_bench show METHOD``: every method of ``configs/method/``, whichever there are."""

import ast
import re
from pathlib import Path

import plugin
import pytest
from conftest import ROOT, command

from fcl_bench.cli.show import comments
from fcl_bench.config.compose import composed, parameters
from fcl_bench.method import FACTS

METHODS = sorted(path.stem for path in (ROOT / "configs" / "method").glob("*.yaml"))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_shows_its_card_all_hyper_parameters_and_facts(name: str) -> None:
    shown = command("show", name)
    assert (shown.code, shown.err) == (0, "")
    node = composed(f"method={name}").method
    module, _, target = node["_target_"].rpartition(".")
    source = ROOT / "methods" / f"{module.rpartition('.')[2]}.py"
    assert (ast.get_docstring(ast.parse(source.read_text())) or "no card") in shown.out
    listed = dict(re.findall(r"^  method\.(\S+) +(\S+)", shown.out, re.MULTILINE))
    accepted = [key for key, _ in parameters(getattr(__import__(module, fromlist=[target]), target))]
    assert set(accepted[1:]) <= set(listed)  # the first is the backbone
    plain = {key: value for key, value in node.items() if type(value) in (int, float) and key in accepted}
    assert {key: float(listed[key]) for key in plain} == plain
    for comment in comments(f"method/{name}").values():
        assert comment in shown.out
    assert re.findall(r"^  (\w+) +(?:yes|no) +\w", shown.out, re.MULTILINE) == list(FACTS)


def test_values_comments_and_choices_stand_behind_a_name() -> None:
    lines = command("show", "finetune").out.splitlines()
    rows = [re.split(r" {2,}", line.strip()) for line in lines if line.startswith("  method.")]
    assert rows == [
        ["method.fit", "fcl_bench.local.FabricFit", "= ${local}"],
        ["method.optimizer", "torch.optim.SGD"],
        ["method.optimizer.momentum", "0.9"],
        ["method.optimizer.weight_decay", "0.0005"],
        ["method.rounds", "20", "= ${budget.rounds}", "per task"],
        ["method.epochs", "5", "= ${budget.epochs}", "per round"],
        ["method.batch_size", "128", "= ${oc.select:budget.batch_size,128}"],
        [
            *("method.lr", "0.003", "= ${oc.select:budget.lr,${oc.select:dataset.lr,0.01}}"),
            "0.01, unless budget or data set suggest another one",
        ],
        ["method.lr_end", "0.0", "of the cosine"],
        ["method.schedule", "constant", "constant | cosine | step, over the rounds of a task"],
        [
            *("method.ce_scope", "task"),
            "task | seen | local: softmax over the classes of the task | seen so far | local (the client's own)",
        ],
        [
            *("method.logit_adjustment", "0.0"),
            "1: logits are shifted by the log of the client's class frequencies while it trains; 0: not",
        ],
        [
            *("method.aggregation", "mean"),
            "mean | median | trimmed_mean | krum | multi_krum: of clients' models; all but mean resist liars",
        ],
        ["method.liars", "1", "clients assumed to lie, for trimmed_mean, krum and multi_krum"],
    ]


def test_settings_may_follow_and_change_what_is_shown() -> None:
    shown = command("show", "joint", "method.head=sgd", "method.lr=0.5", "local.gradient_clip=3").out
    assert re.search(r"^  method\.lr +0\.5 +0\.01, unless", shown, re.MULTILINE)
    assert re.search(r"^  method\.fit\.gradient_clip +3 +", shown, re.MULTILINE)
    assert re.search(r"^  exact +no ", shown, re.MULTILINE)
    assert re.search(r"^  exact +yes ", command("show", "joint").out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fientune"], "There is no method 'fientune'; choose from: finetune, "),
        (["method=afcl"], "There is no method 'method=afcl'; choose from: "),
        (["afcl", "method.gama=1"], "There is no setting 'method.gama'; method has: gamma, "),
        (["afcl", "method.form=a"], "Expected method.form to be one of recursive, statistics, but got 'a'."),
    ],
)
def test_a_wrong_name_ends_with_one_line(words: list[str], message: str) -> None:
    refused = command("show", *words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert refused.err.startswith(f"fcl_bench: {message}")


THIRD_PARTY = '''"""Guess: scores by chance.

Paper: none.
"""

from typing import Literal


class Guess:
    exemplar_free = True

    def __init__(self, backbone, scale: float, kind: Literal["even", "odd"] = "even", quiet: bool = True):
        pass
'''


def test_the_methods_of_installed_packages_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str | bytes] = {
        "__init__.py": THIRD_PARTY,
        "configs/__init__.py": "",
        "configs/method/guess.yaml": "# Guess, by chance\n_target_: guessing.Guess\nscale: 1.5  # of all\n",
    }
    plugin.install_package(tmp_path, monkeypatch, "guessing", files)
    shown = command("show", "guess", "method.scale=2.5")
    assert shown.err == ""
    assert shown.out == (
        "guess: guessing.Guess\n\nGuess: scores by chance.\n\nPaper: none.\n\nHyper-parameters\n"
        "  method.scale  2.5   of all\n  method.kind   even  even | odd\n  method.quiet  true\n\nFacts\n"
        "  exact                  no   does not depend on how data are spread over clients\n"
        "  exemplar_free          yes  stores no samples; what uploads reveal is another question\n"
        "  needs_frozen_backbone  no   refuses to train end to end\n"
        "  oracle                 no   sees what a federation must not show\n"
        "  sees_future_classes    no   has samples of classes that no client has declared\n"
    )
