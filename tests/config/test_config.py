"""The configuration files, the checks on them, and who may name whom."""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import plugin
import pytest
from conftest import TINY, Command, command
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from fcl_bench.config.compose import HINTS, SEARCH, build, check, composed, parameters
from fcl_bench.config.load import load
from fcl_bench.config.protocol import published_seeds
from fcl_bench.config.run_id import run_id
from fcl_bench.errors import ConfigError

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*/*.yaml"))
NEEDED = {  # what a choice cannot do without
    "backbone=timm": ["backbone.name=resnet18"],
    "settings=tuned": ["protocol=frozen_v2"],
}
TUNED = (  # need a method that was tuned
    "protocol=frozen_v2",
    "settings=tuned",
    "experiment=frozen_v2_cifar100",
    "experiment=frozen_v2_exemplars_cifar100",
)


def choice(path: Path) -> str:
    return f"{path.parent.name}={path.stem}"


@pytest.mark.parametrize("path", CONFIGS, ids=choice)
def test_every_choice_composes_and_passes_the_check(path: Path) -> None:
    named = path.parent.name == "method" or "override /method" in path.read_text()
    any_method = "method=fedncm" if choice(path) in TUNED else "method=finetune"  # takes any backbone
    method = [] if named else [any_method]
    config = composed(*method, choice(path), *NEEDED.get(choice(path), []))
    written = OmegaConf.load(path)
    if path.parent.name == "protocol":
        assert config.protocol == written.protocol == path.stem
    elif path.parent.name == "experiment":
        for group in ("stream", "partition"):
            assert dict(written.get(group, {})).items() <= dict(config[group]).items()
    elif path.parent.name == "settings":
        assert config.settings.name == written.name == path.stem
    elif path.parent.name == "budget":
        assert config.budget == written
        assert (config.method.rounds, config.method.epochs) == (written.rounds, written.epochs)
    else:
        assert config[path.parent.name]["_target_"] == written["_target_"]


@pytest.mark.parametrize("path", CONFIGS, ids=choice)
def test_every_choice_is_described_and_its_settings_exist_in_what_it_names(path: Path) -> None:
    first = next(line for line in path.read_text().splitlines() if "@package" not in line)
    assert re.fullmatch(r"# \S.{15,}", first)
    for node in targets(OmegaConf.to_container(OmegaConf.load(path))):
        module, _, name = node["_target_"].rpartition(".")
        accepted = dict(parameters(getattr(import_module(module), name)))
        others = {"dataset": HINTS, "method": ("name", SEARCH)}.get(path.parent.name, ())
        assert {key for key in node if not key.startswith("_")} - {"defaults", *others} <= set(accepted)


def targets(node: Any) -> list[dict[str, Any]]:
    """All nodes that name a class or function, from the outside in."""
    if not isinstance(node, dict):
        return []
    return [node] * ("_target_" in node) + [inner for child in node.values() for inner in targets(child)]


@pytest.mark.parametrize("path", sorted((ROOT / "fcl_bench").rglob("*.py")), ids=lambda path: path.stem)
def test_the_harness_imports_neither_methods_nor_data_sets(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    assert not [name for name in imported if re.match(r"(fcl_bench\.)?(methods|datasets)\b", name)]


def test_a_path_reaches_the_target_as_a_path_and_a_whole_number_as_a_float() -> None:
    config = composed("method=afcl", "stream.manifest=some/folder", "partition.alpha=1")
    assert build(config.stream).manifest == Path("some/folder")
    assert isinstance(build(config.partition).alpha, float)


BASE = ("method=finetune", *TINY)
SAME_RESULT = (
    "output_dir=elsewhere",
    "data_dir=elsewhere",
    "cache_dir=elsewhere",
    "logger=none",
    "logger=wandb",
    "transport=wire",
    "resume=false",
    "local.accelerator=cpu",
    "partition.alpha=0.10",
    "dataset.separation=4",
    "federation=ideal",
    "federation.lost=0",
)
OTHER_RESULT = (
    "seed=2",
    "method=afcl",
    "method.lr=0.02",
    "method.optimizer.momentum=0.8",
    "local.gradient_clip=1",
    "local.compile=eager",
    "stream=iid",
    "stream.tasks=2",
    "partition=iid",
    "partition.alpha=0.2",
    "federation.dropout=0.5",
    "federation=faulty",
    "federation=late",
    "federation=churn",
    "limit_classes=3",
    "limit_train=100",
    "limit_test=50",
    "dataset.data_seed=1",
    "backbone.trainable=true",
    "+backbone.stem=cifar",
    "+backbone.norm=gn",
    "+backbone.width=16",
    "+backbone.augment=resized_crop_flip",
)


def test_a_value_in_place_of_a_group_is_refused() -> None:
    config = composed("method=afcl")
    config.federation = 3
    with pytest.raises(ConfigError, match="Expected federation to be a group of settings, but got 3"):
        check(config)


@pytest.fixture(scope="module")
def base_id() -> str:
    return run_id(composed(*BASE))


@pytest.mark.parametrize("override", SAME_RESULT)
def test_run_id_leaves_out_what_cannot_change_the_result(override: str, base_id: str) -> None:
    assert run_id(composed(*BASE, override)) == base_id


def test_run_id_names_the_seed_and_differs_where_the_result_may() -> None:
    ids = [run_id(composed(*BASE, override)) for override in ("seed=1", *OTHER_RESULT)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"seed[12]-[0-9a-f]{8}", name) for name in ids)
    assert ids[1].startswith("seed2-")


def test_run_id_survives_the_saved_configuration() -> None:
    config = composed(*BASE, "local.accelerator=cpu", "method.lr=1e-5")
    assert run_id(OmegaConf.create(OmegaConf.to_yaml(config, resolve=True))) == run_id(config)


def test_a_caller_s_own_hydra_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("answer: 42\n")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert composed("method=afcl").seed == 1
        assert compose("mine").answer == 42
    assert not GlobalHydra.instance().is_initialized()


ADAM = "method.optimizer._target_=torch.optim.Adam"


def test_another_optimizer_does_not_inherit_settings_that_it_does_not_have() -> None:
    assert composed("method=finetune", ADAM).method.optimizer == {
        "_target_": "torch.optim.Adam",
        "_partial_": True,
        "weight_decay": 0.0005,
    }
    assert composed("method=finetune", ADAM, "method.optimizer.weight_decay=0").method.optimizer.weight_decay == 0
    assert composed("method=finetune", "method.optimizer._target_=torch.optim.RMSprop").method.optimizer.momentum == 0.9
    with pytest.raises(
        ConfigError, match=r"There is no setting 'method\.optimizer\.momentum'; method\.optimizer has: "
    ):
        composed("method=finetune", ADAM, "method.optimizer.momentum=0.9")


def test_composed_refuses_what_the_command_line_refuses() -> None:
    settings = "gamma, arithmetic, balance, bits, form, min_count, name, project"
    with pytest.raises(ConfigError, match=rf"There is no setting 'method\.gama'; method has: {settings}\."):
        composed("method=afcl", "method.gama=1")


def test_an_installed_package_adds_a_method_by_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Command
) -> None:
    plugin.install(tmp_path, monkeypatch)
    assert "nearest_mean           Nearest mean, of a third party" in command("list").out
    done = tiny("method=nearest_mean", "method.scale=2")
    assert done.code == 0, done.err
    assert (done.result["method"], done.result["facts"]["exact"]) == ("nearest_mean", True)
    assert done.result["metrics"]["whole_accuracy"] > 60
    wrong = tiny("method=nearest_mean", "method.scale=-2")
    assert (wrong.code, wrong.err) == (2, "fcl_bench: Expected method.scale to be greater than 0, but got -2.\n")
    assert re.search(r"one of .*\bnearest_mean\b", command().err)
    assert re.search(r"^method: .*\bnearest_mean\b", command("--help").out, re.MULTILINE)


def test_a_run_that_follows_a_protocol_says_so(tiny: Command) -> None:
    assert tiny("method=afcl").result["protocol"] is None
    config = composed("protocol=frozen_v1", "method=finetune")
    assert (config.method.rounds, config.method.epochs, config.backbone.input_size) == (20, 5, 128)
    for override in ("backbone.input_size=64", "backbone=resnet18", "budget.rounds=100", "method.epochs=1"):
        with pytest.raises(ConfigError, match=r"protocol=frozen_v1 fixes \S+=\S+, but got "):
            composed("protocol=frozen_v1", "method=finetune", override)
    for path in (path for path in CONFIGS if path.parent.name == "method"):
        composed("protocol=frozen_v1", choice(path), "dataset=cifar100", "stream.tasks=10", "seed=3")


PAPER = {"afcl", "finetune", "fedlwf", "target", "fedewc", "fedicarl", "fedmgp", "fedcbc"}  # of its Table 1
FROZEN_ONLY = {"afcl", "joint", "fedmgp", "fedcbc"}


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "experiment").glob("table1_*.yaml")), ids=choice)
def test_the_paper_s_table_sweeps_over_its_methods_and_over_no_name_that_does_not_exist(path: Path) -> None:
    methods = swept(path.stem)["method"].split(",")
    end_to_end = path.stem.endswith("_end_to_end")
    wanted = PAPER | {"joint", "joint_sgd"}  # both oracles
    assert (wanted - FROZEN_ONLY if end_to_end else wanted) <= set(methods)
    assert set(methods) <= {file.stem for file in CONFIGS if file.parent.name == "method"}
    assert len(set(methods)) == len(methods)


def test_the_paper_s_table_is_a_sweep(tiny: Command) -> None:
    """With tiny data in place of the real ones; the sweep's other axes are shortened to one value each."""
    data = ("dataset.classes=4", "dataset.train_size=40", "dataset.test_size=8", "partition.clients=2")
    few = (*data, "budget.rounds=1", "budget.epochs=1", "stream.tasks=2", "partition.alpha=0.5", "seed=1")
    done = tiny("-m", "experiment=table1_cifar100", "budget=two_cores", "dataset=gaussian", "backbone=none", *few)
    assert done.code == 0, done.err
    records = [line for line in done.out.splitlines() if line.startswith("record: ")]
    methods = [re.search(r"/si_blurry/(\w+)/", line)[1] for line in records]
    assert ",".join(methods) == swept("table1_cifar100")["method"]


@pytest.mark.parametrize("name", ["cifar100", "tiny_imagenet", "imagenet_r"])
def test_the_paper_s_budgets(name: str) -> None:
    for track in ("", "_end_to_end"):
        config = composed(f"experiment=table1_{name}{track}", "method=fedlwf")
        assert (config.method.rounds, config.method.epochs, config.partition.clients) == (100, 5, 5)
        assert config.backbone.trainable == bool(track)
        optimizer = config.method.optimizer
        assert (config.method.lr, optimizer.momentum, optimizer.weight_decay) == (0.01, 0.9, 0.0005)
    assert rounds_and_epochs(f"experiment=table1_{name}", "method=fedmgp") == (5, 5)
    assert rounds_and_epochs(f"experiment=table1_{name}", "method=fedcbc") == (50, 300)
    assert rounds_and_epochs(f"experiment=table1_{name}", "method=fedcbc", "budget=published") == (5, 300)


def rounds_and_epochs(*words: str) -> tuple[int, int]:
    method = composed(*words).method
    return method.rounds, method.epochs


GAMMAS = {"method.gamma": "0,0.001,0.01,0.1,1,10,100,1000", "seed": "1,2,3"}


@pytest.mark.parametrize(("name", "alpha"), [("cifar100", 0.1), ("tiny_imagenet", 0.1), ("imagenet_r", 0.5)])
def test_the_paper_s_other_tables_are_sweeps(name: str, alpha: float) -> None:
    table = swept(f"table1_{name}")
    assert (table["stream.tasks"], table["seed"]) == ("5,10", "1,2,3")
    ten = table | {"stream.tasks": "10", "partition.alpha": str(alpha)}
    for sweep in ("stability", "figure2", "figure3"):
        assert swept(f"{sweep}_{name}") == ten
    assert swept(f"runtime_{name}") == ten | {"seed": "1"}
    for sweep in ("stability", "figure2", "figure3", "runtime"):
        end_to_end = swept(f"{sweep}_{name}_end_to_end")
        assert end_to_end == swept(f"{sweep}_{name}") | {"method": swept(f"table1_{name}_end_to_end")["method"]}
    assert swept(f"gamma_{name}") == GAMMAS
    assert composed(f"experiment=gamma_{name}").method["_target_"].endswith("AFCL")


def swept(experiment: str) -> dict[str, Any]:
    """The axes of a sweep."""
    return dict(load(["method=afcl", f"experiment={experiment}"]).hydra.sweeper.params)


def test_the_second_protocol_s_table_is_a_sweep_of_all_methods_over_its_seeds() -> None:
    axes = swept("frozen_v2_cifar100")
    assert set(axes["method"].split(",")) == {path.stem for path in CONFIGS if path.parent.name == "method"}
    assert [int(seed) for seed in axes["seed"].split(",")] == published_seeds("frozen_v2")
    assert {key: set(axes[key].split(",")) for key in ("stream.tasks", "partition.alpha")} == {
        "stream.tasks": {"5", "10"},
        "partition.alpha": {"0.1", "0.2"},
    }
    config = composed("experiment=frozen_v2_cifar100", "method=fedncm")
    paper = composed("experiment=table1_cifar100", "method=fedncm")
    assert {**config.stream, "tasks": 10} == {**paper.stream, "tasks": 10}
    assert config.partition == paper.partition
