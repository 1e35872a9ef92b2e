"""The command line: what it says to bad input, its verbs, and Ctrl-C."""

import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import plugin
import pytest
import started
import torch
from conftest import TINY, Command, Outcome, assert_equal_runs, command, contents
from omegaconf import OmegaConf
from PIL import Image

import fcl_bench
from fcl_bench.__main__ import main
from fcl_bench.backbone import Backbone
from fcl_bench.cli.verbs import VERBS
from fcl_bench.config.compose import build, composed
from fcl_bench.datasets.gaussian import Clouds, gaussian
from fcl_bench.message_classes import declared_classes
from fcl_bench.run.checkpoint import decoded

CONFIGS = Path(__file__).parents[2] / "configs"
A = "method=afcl"
F = "method=finetune"

WRONG = {  # the words after those of a tiny run -> what the one line must say, the closest name first
    "method=fientune": "There is no method 'fientune'; choose from: finetune, ",
    f"{A} dataset=cifar1000": "There is no dataset 'cifar1000'; choose from: cifar100, cifar10, digits, ",
    f"{A} backbone=resnet": "There is no backbone 'resnet'; choose from: resnet18, efficientnet_lite0, none, ",
    f"{A} experiment=afcl_cifar10": "There is no experiment 'afcl_cifar10'; choose from: afcl_cifar100, ",
    f"{A} strem=iid": "There is no setting 'strem'; a run has: stream, backbone, ",
    f"{A} +strem=iid": "There is no setting 'strem'; a run has: stream, backbone, ",
    f"{A} method.gama=1": "There is no setting 'method.gama'; method has: gamma, arithmetic, balance, bits, form, "
    "min_count, name, project.",
    f"{A} +method.gama=1": "There is no setting 'method.gama'; method has: gamma, ",
    f"{F} method.optimizer.momentu=0": "There is no setting 'method.optimizer.momentu'; method.optimizer has: moment",
    f"{A} method.form=statistic": "Expected method.form to be one of statistics, recursive, but got 'statistic'.",
    f"{F} local.accelerator=cud": "Expected local.accelerator to be one of cuda, auto, cpu, gpu, mps, but got 'cud'.",
    f"{A} method.gamma=-1": "Expected method.gamma to be greater than or equal to 0, but got -1.",
    f"{A} method.gamma=nan": "Expected method.gamma to be a finite number, but got nan.",
    f"{A} method.gamma=null": "Expected method.gamma to be a valid number, but got None.",
    f"{A} partition.alpha=0": "Expected partition.alpha to be greater than 0, but got 0.",
    f"{A} partition.alpha=-0.5": "Expected partition.alpha to be greater than 0, but got -0.5.",
    f"{A} partition.clients=241": "Expected partition.clients to be at most 240, the number of training samples, but ",
    f"{A} stream.tasks=7": "Expected stream.tasks to be at most 6, the number of classes of the data, but got 7.",
    f"{A} stream.tasks=[1,2]": "Expected stream.tasks to be a valid integer, but got [1, 2].",
    f"{A} dataset.classes=61": "Expected dataset.train_size and dataset.test_size to be at least dataset.classes=61, ",
    f"{F} method.rounds=abc": "Expected method.rounds to be a valid integer, but got 'abc'.",
    f"{F} method.rounds=1.5": "Expected method.rounds to be a valid integer, but got 1.5.",
    f"{F} method.rounds='5'": "Expected method.rounds to be a valid integer, but got '5'.",
    f"{A} seed=-1": "Expected seed to be greater than or equal to 0, but got -1.",
    f"{A} seed=${{nothing}}": "Interpolation key 'nothing' not found, for seed.",
    f"{A} ~seed": "No seed was given: add seed=VALUE.",
    f"{A} ~method.gamma": "No method.gamma was given: add method.gamma=VALUE.",
    f"{F} ~method.lr": "No method.lr was given: add method.lr=VALUE.",
    f"{A} method.search.gamma.low=1": "Only python -m fcl_bench tune reads method.search.gamma.low: leave it out, ",
    f"{A} resume=maybe": "Expected resume to be a valid boolean, but got 'maybe'.",
    f"{A} resume=no": "Expected resume to be a valid boolean, but got 'no'.",
    f"{A} limit_classes=0": "Expected limit_classes to be greater than 0, but got 0.",
    f"{A} limit_train=0": "Expected limit_train to be greater than 0, but got 0.",
    f"{A} data_dir=null": "Expected data_dir to be a valid string, but got None.",
    f"{A} federation.participation=0": "Expected federation.participation to be greater than 0, but got 0.",
    f"{A} federation.dropout=1": "Expected federation.dropout to be less than 1, but got 1.",
    f"{A} federation=lat": "There is no federation 'lat'; choose from: late, ",
    f"{A} federation=late federation.late=1.5": "Expected federation.late to be less than or equal to 1, but got 1.5.",
    f"{A} privacy=secure_sum federation=late": "Expected no late and no double answers with privacy=secure_sum, ",
    f"{A} backbone.trainable=true": "Expected a frozen backbone for method=afcl, ",
    f"{A} backbone=timm": "No backbone.name was given: add backbone.name=VALUE.",
    f"{A} method._target_=fcl_bench.methods.afcl.A": "Expected _target_ to be module.name of a class or function, but ",
    f"{A} seed": "Cannot read 'seed': expected key=value, ",
    "leaderbord": "Cannot read 'leaderbord': expected key=value, with quotes around special characters, "
    "or first of all one of leaderboard, cache, certify, list, new-method, plot, reproduce, same, show, stream, "
    "tune, unlearn.",
    f"{A} seed=1,2": "Ambiguous value for argument 'seed=1,2': add -m for a sweep over these values, ",
    f"{A} --multirn": "There is no option --multirn: settings are key=value, without dashes; options are --multirun, ",
    "--method=afcl": "There is no option --method: settings are key=value, without dashes; options are --cfg, ",
    "method=null": "Config group override must be a string or a list. Got NoneType.",
    "": "No method was given: add method=NAME, one of ",
    "protocol=frozen_v1 method=finetune method.rounds=3": "protocol=frozen_v1 fixes method.rounds=20, but got 3: "
    "leave this setting alone, or leave the protocol out.",
    "method=finetune +protocol=frozen_v9": "There is no protocol 'frozen_v9'; choose from: frozen_v2, frozen_v1, ",
    "method=finetune method.schedule=cosin": "Expected method.schedule to be one of cosine, constant, step, but got ",
    "method=fedewc method.penalty=-1": "Expected method.penalty to be greater than or equal to 0, but got -1.",
    "method=fedicarl method.memory_size=0": "Expected method.memory_size to be greater than 0, but got 0.",
    "method=fedlwf method.variant=targetrepo": "Expected method.variant to be one of target_repo, corrected, but got ",
    "method=fedncm backbone.trainable=true": "Expected a frozen backbone for method=fedncm, ",
    f"{F} method.optimizer._target_=torch.optim.Adam method.optimizer.momentum=0.9": "There is no setting "
    "'method.optimizer.momentum'; method.optimizer has: amsgrad, betas, ",
    "experiment=table1_cifar100": "experiment=table1_cifar100 is a sweep over method, partition.alpha, seed: "
    "add -m, or give each of them one value.",
    f"{A} experiment=gamma_cifar100 seed=1": "experiment=gamma_cifar100 is a sweep over method.gamma: add -m, ",
    f"{A} --cfg": "Cannot read the options: argument --cfg/-c: expected one argument.",
    f"{A} --cfg nothing": "Cannot read the options: argument --cfg/-c: invalid choice: 'nothing' ",
    f"{A} -x": "There is no option -x: settings are key=value, without dashes; options are --cfg, --help, --multirun, ",
    f"-m {A} hydra.sweeper._target_=some.One": "A sweep tries all combinations, but got hydra.sweeper=some.One: ",
    "method=scaffold method.optimizer.momentum=0.9": "SCAFFOLD needs plain SGD, but method.optimizer has momentum: ",
}


@pytest.mark.parametrize(("words", "message"), WRONG.items(), ids=[words or "nothing" for words in WRONG])
def test_a_wrong_name_or_value_ends_with_one_line_and_nothing_is_written(
    tiny: Command, output_dir: Path, words: str, message: str
) -> None:
    refused = tiny(*words.split())
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"fcl_bench: {message}")
    assert refused.err.endswith(".\n")
    assert refused.err.count("\n") == 1
    assert not output_dir.exists()


def test_a_device_that_is_not_there_is_named_before_anything_is_written(
    tiny: Command, output_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for local in ("fabric", "trainer"):
        refused = tiny("method=finetune", f"local={local}", "local.accelerator=gpu")
        assert refused == Outcome(
            2,
            "",
            "fcl_bench: local.accelerator=gpu needs a device that PyTorch does not find on this machine: "
            "set local.accelerator=auto.\n",
        )
    assert not output_dir.exists()


@pytest.mark.parametrize("rate", [1e10, 1e30])
@pytest.mark.parametrize("method", ["finetune", "fedprox", "fedewc", "fedicarl", "fedlwf", "scaffold", "derpp"])
def test_a_run_that_diverges_ends_with_one_line(tiny: Command, method: str, rate: float) -> None:
    failed = tiny(f"method={method}", f"method.lr={rate:g}", "budget.rounds=2", "budget.epochs=2")
    assert failed.code == 1
    warned, *dropped, ended = failed.err.splitlines()
    assert re.match(r"warning: method\.lr=\S+ may be too large for the scale of these features: ", warned)
    assert all("was dropped: " in line for line in dropped)
    assert ended.startswith("fcl_bench: ")
    assert ended.endswith("the training has diverged: lower method.lr, or set local.gradient_clip=1.")


@pytest.mark.parametrize("words", ["method=fedmgp", "method=finetune local.gradient_clip=1"])
def test_a_run_that_diverges_though_gradients_are_clipped_ends_with_one_line(tiny: Command, words: str) -> None:
    failed = tiny(*words.split(), "method.lr=1e30", "budget.rounds=2", "budget.epochs=2")
    assert failed.code == 1
    *warned, ended = failed.err.splitlines()
    told = ("method.lr=1e+30 may be too large", "has numbers that are not finite.")
    assert all(line.startswith("warning: ") and any(text in line for text in told) for line in warned)
    assert "the training has diverged: lower method.lr" in ended


SINGULAR = ("method=afcl", "method.gamma=0", "dataset.train_size=30", "dataset.features=40")


def test_least_squares_without_enough_data_takes_the_minimum_norm_solution_and_says_so(tiny: Command) -> None:
    done = tiny(*SINGULAR)
    assert done.code == 0
    assert "warning: With gamma=0 the Gram matrix of all data so far is singular: taking the minimum-norm" in done.err
    data = gaussian("gaussian", Path(), 6, 30, 60, 40, separation=4.0, data_seed=0)
    train, test = (half.read(np.arange(len(half.labels))).double().numpy() for half in (data.train, data.test))
    order = np.load(done.folder / "stream.npz")["order"]  # all 30 samples are dealt by the end
    step = 64 / (2**16 - 1)  # of the grid for features of unknown range
    rounded = np.rint(train / step) * step
    expected = np.linalg.lstsq(rounded, (data.train.labels[:, None] == order).astype(float), rcond=None)[0]
    method = build(composed(*TINY, *SINGULAR).method, Backbone(40))
    saved = (done.folder / "checkpoint" / "checkpoint.safetensors").read_bytes()
    weights = method.classifier(decoded(saved, declared_classes(type(method))).progress.state).weights
    np.testing.assert_allclose(weights, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(done.predictions[-1], order[(test @ expected).argmax(axis=1)])


def test_the_recursive_form_cannot_do_without_regulariser_and_says_what_to_do(tiny: Command) -> None:
    failed = tiny(*SINGULAR, "method.form=recursive")
    assert failed.code == 1
    message = r"fcl_bench: .*client \d \(\d+ samples, 40 features\) is singular: raise method.gamma, or set .*\n"
    assert re.fullmatch(message, failed.err)


def make_missing(folder: Path) -> None:
    pass


def make_truncated(folder: Path) -> None:
    (folder / "cifar100.zip").write_bytes(b"PK\x03\x04" + bytes(100))


def make_wrong_checksum(folder: Path) -> None:
    with tarfile.open(folder / "cifar-100-python.tar.gz", "w:gz") as archive:
        archive.add(__file__, "cifar-100-python/train")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_missing, "Found none of .* in DIR, and downloads are off .*"),
        (make_truncated, r"Cannot open DIR/cifar100.zip \(.*\); if it is damaged or incomplete, replace it by .*"),
        (make_wrong_checksum, "DIR/cifar-100-python.tar.gz has a wrong checksum .* Delete it, then run again .*"),
    ],
)
def test_bad_data_files_end_with_one_line(tiny: Command, tmp_path: Path, make: Callable, message: str) -> None:
    make(tmp_path)
    words = ("method=afcl", "dataset=cifar100", "dataset.download=false", f"data_dir={tmp_path}")
    failed = command(*words, f"output_dir={tmp_path}/runs")
    assert failed.code == 1
    assert re.fullmatch(f"fcl_bench: {message.replace('DIR', str(tmp_path))}\n", failed.err)
    assert not (tmp_path / "runs").exists()


def test_an_unreadable_image_is_named(tmp_path: Path) -> None:
    for name in ("ape", "bee"):
        for number in range(5):
            (tmp_path / "images" / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(tmp_path / "images" / name / f"{number}.png")
    (tmp_path / "images" / "bee" / "3.png").write_bytes(b"not a picture")
    words = ("method=afcl", "dataset=image_folder", "backbone=none", "stream.tasks=2", "partition.clients=2")
    folders = (f"data_dir={tmp_path}", f"output_dir={tmp_path}/runs", f"cache_dir={tmp_path}/cache")
    failed = command(*words, *folders)
    assert failed.code == 1
    assert re.fullmatch(r"fcl_bench: Cannot read the image bee/3.png of \S+ \(.*\); replace it .*\n", failed.err)


def test_features_that_are_not_finite_are_named_by_sample(
    tiny: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Clouds.read

    def damaged(self: Clouds, indices: np.ndarray) -> torch.Tensor:
        features = read(self, indices)
        features[indices == 17, 3] = torch.nan
        return features

    monkeypatch.setattr(Clouds, "read", damaged)
    failed = tiny("method=afcl", f"cache_dir={tmp_path}/cache")
    assert failed.code == 1
    assert re.fullmatch(r"fcl_bench: The features of train sample 17 of gaussian are not finite .*\n", failed.err)


def test_an_output_folder_that_cannot_be_written_is_named(tiny: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = tiny("method=afcl", f"output_dir={tmp_path}/file")
    assert failed.code == 1
    assert re.fullmatch(
        rf"fcl_bench: Cannot write to {tmp_path}/file/\S+: Not a directory; .*set output_dir=.*\n", failed.err
    )


def test_list_names_every_choice_and_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys; from fcl_bench.__main__ import main; main(['list']); print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    *lines, modules = told.stdout.splitlines()
    listed: dict[str, dict[str, str]] = {}
    for line in lines:
        if line.startswith("  "):
            name, _, description = line.strip().partition(" ")
            listed[group][name] = description.strip()  # noqa: F821 (the heading comes first)
        else:
            group = line
            listed[group] = {}
    for path in CONFIGS.glob("*/*.yaml"):
        assert len(listed[path.parent.name].pop(path.stem)) > 15
    assert not any(listed.values())
    assert not {"torch", "hydra", "numpy", "lightning"} & set(modules.split())


@pytest.mark.parametrize("word", ["list", "--help"])
def test_a_reader_that_leaves_early_is_no_error(word: str) -> None:
    command = subprocess.Popen([sys.executable, "-m", "fcl_bench", word], stdout=-1, stderr=-1)
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    with command.stderr:
        assert command.stderr.read() == b""
    assert command.wait() == 1


def test_help_names_groups_and_examples() -> None:
    told = command("--help")
    assert told.code == 0
    for group in CONFIGS.iterdir():
        assert not group.is_dir() or f"\n{group.name}: " in told.out or not any(group.glob("*.yaml"))
    assert len(re.findall(r"^  python -m fcl_bench .*method=", told.out, re.MULTILINE)) == 3
    assert "\nseed: 1\n" in told.out
    assert "rounds: ${budget.rounds}" not in told.out
    of_a_method = command("method=finetune", "--help", "seed=2").out
    assert "\n  rounds: ${budget.rounds}\n" in of_a_method
    assert "\nseed: 2\n" in of_a_method


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((CONFIGS.parent / "pyproject.toml").read_text())["project"]
    assert command("--version") == Outcome(0, f"fcl_bench {project['version']}\n", "")


def test_options_may_stand_before_between_and_after_settings(tiny: Command, output_dir: Path) -> None:
    words = ["method=afcl", "seed=2"]
    shown = [tiny(*words[:place], "--cfg", "job", *words[place:]) for place in range(3)]
    assert shown[0] == shown[1] == shown[2]
    settings = OmegaConf.create(shown[0].out)
    assert (settings.seed, settings.method.gamma, settings.output_dir) == (2, 1.0, str(output_dir))
    assert settings == composed(*TINY, *words, f"output_dir={output_dir}", f"cache_dir={settings.cache_dir}")
    resolved = tiny("method=finetune", "--resolve", "--cfg=job").out
    assert "  rounds: 20\n" in resolved
    assert "${" not in resolved
    assert list(OmegaConf.create(tiny("method=afcl", "-c", "hydra").out)) == ["hydra"]
    assert not output_dir.exists()


def test_what_belongs_to_the_process_is_left_as_it_was(tiny: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mine", "--option"])
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    show = warnings.showwarning
    for words in (["--version"], ["-m", "method=afcl", "seed=-1"]):
        main([*words, *TINY])
        assert sys.argv == ["mine", "--option"]
        assert "HYDRA_FULL_ERROR" not in os.environ
        assert warnings.showwarning is show


def test_a_folder_that_hides_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fcl_bench, "__file__", None)  # as of a namespace package
    assert command("--version") == Outcome(
        1,
        "",
        f"fcl_bench: Python takes the folder {tmp_path}/fcl_bench for the package fcl_bench: run this in another "
        "folder, such as that one, or write fcl-bench instead of python -m fcl_bench.\n",
    )


def test_a_clone_of_the_same_name_in_the_working_directory_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "fcl_bench").symlink_to(CONFIGS.parent)
    told = subprocess.run([sys.executable, "-m", "fcl_bench", "list"], cwd=tmp_path, capture_output=True, text=True)
    installed_as_files = "site-packages" in str(fcl_bench.__file__)  # they come before a folder without __init__.py
    assert (told.returncode, told.stderr.count("\n")) == ((0, 0) if installed_as_files else (1, 1))


def test_a_terminal_that_lacks_a_character_shows_another(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setitem(VERBS, "list", lambda words: print("50 ± 1"))
    assert main(["list"]) == 0
    assert terminal.buffer.getvalue() == b"50 +/- 1\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_have_help_and_refuse_what_they_do_not_know(verb: str) -> None:
    assert f"usage: python -m fcl_bench {verb}" in command(verb, "--help").out
    assert command(verb, "--nonsense").code == 2
    assert re.search(rf"^Also: .*\b{verb}\b", command("--help").out, re.MULTILINE)


BROKEN = {
    "broken": "# A method\n_target_: a.B\nscale: [1\n",
    "latin": "# Die größte\n_target_: a.B\n".encode("latin-1"),
}


def test_a_broken_file_is_named_and_the_other_choices_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plugin.install(tmp_path, monkeypatch, **BROKEN) / "configs" / "method"
    of_broken = f"{folder}/broken.yaml is not valid YAML in line 4: expected ',' or ']', but got '<stream end>'."
    of_latin = f"{folder}/latin.yaml is not UTF-8 in line 1: save it in that encoding."
    told = command("list")
    assert (told.code, told.err) == (0, "")
    for name, line in {"broken": of_broken, "latin": of_latin, "nearest_mean": "Nearest mean, of a third "}.items():
        assert f"\n  {name:<22} {line}" in told.out
    assert "\n  finetune " in told.out
    assert command("show", "nearest_mean").code == 0
    for words in (["show", "broken"], ["method=broken"], ["-m", "method=latin"], ["method=latin", "--help"]):
        assert command(*words) == Outcome(2, "", f"fcl_bench: {of_broken} {of_latin}\n")


def test_a_package_that_cannot_be_imported_is_named_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plugin.install(tmp_path, monkeypatch)
    (folder / "__init__.py").write_text("1 / 0")
    told = command("list")
    assert (told.code, "nearest_mean" in told.out) == (0, False)
    reason = "it cannot be imported (ZeroDivisionError('division by zero'))"
    assert told.err == f"warning: The configuration in third_party.configs is left out: {reason}.\n"


def test_stream_prints_a_table_and_saves_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = command("stream", *TINY)
    assert told.code == 0, told.err
    rows = [line.split() for line in told.out.splitlines()]
    totals = [int(row[2]) for row in rows if row[1:2] == ["all"]]
    shares = [int(row[1]) for row in rows if len(row) > 4 and row[0] in ("0", "1", "2") and row[1] != "all"]
    assert (len(totals), sum(totals), len(shares), sum(shares)) == (3, 240, 9, 240)
    with Image.open(tmp_path / "stream.png") as picture:
        assert min(picture.size) > 300
    assert command("stream", *TINY, "--out", "other.gif").code == 2
    assert command("stream", *TINY, "stream.tasks=9").code == 2
    assert os.listdir() == ["stream.png"]


def test_cache_lists_and_clears(tiny: Command, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert tiny("method=afcl", f"cache_dir={cache}").code == 0
    listed = command("cache", "--cache-dir", str(cache))
    assert len(re.findall(r"^ +0\.0 MB  complete +0\.0 days  gaussian-(?:test|train)-none-\w+$", listed.out, re.M)) == 2
    cleared = command("cache", "clear", "--only", "test", "--cache-dir", str(cache))
    assert (cleared.code, cleared.out.count("gaussian-test"), cleared.out.count("train")) == (0, 1, 0)
    assert [path.name[:14] for path in cache.iterdir() if (path / "data.bin").exists()] == ["gaussian-train"]
    assert command("cache", "clear", "--cache-dir", str(cache)).out.endswith(f"MB cleared from {cache}\n")
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_ctrl_c_keeps_finished_tasks_and_the_same_command_goes_on(
    tiny: Command, tmp_path: Path, output_dir: Path, cache_dir: Path
) -> None:
    words = ("method=finetune", "method.rounds=50", "method.epochs=1")
    whole = tiny(*words, f"output_dir={output_dir}-whole")
    arguments = [*TINY, "output_dir=runs", f"cache_dir={cache_dir}", *words]
    os.mkfifo(tmp_path / "out")
    process = started.start(tmp_path, os.environ, tmp_path / "out", tmp_path / "err", "fcl_bench", arguments)
    assert process.pid is not None
    with open(tmp_path / "out") as lines:
        assert any("task  1 of 3" in line for line in lines)  # waits for it
        os.kill(process.pid, signal.SIGSTOP)  # it must not end before Ctrl-C
        second = tiny(*words)
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGCONT)
        out = lines.read()
    process.join(60)
    assert (process.exitcode, "task  3 of 3" in out) == (130, False)
    err = (tmp_path / "err").read_text()
    assert err == "fcl_bench: Interrupted. Finished tasks are kept: the same command goes on from there.\n"
    assert second.code == 1
    assert re.fullmatch(r"fcl_bench: Another process is at work on this run, in \S+: wait for it.\n", second.err)

    (folder,) = (path.parent for path in output_dir.rglob("result.json"))
    stopped = Outcome(1, f"record: {folder}", "")
    finished = len(stopped.predictions)
    assert (stopped.result["status"], finished) in (("interrupted", 1), ("interrupted", 2))
    np.testing.assert_array_equal(stopped.predictions, whole.predictions[:finished])
    assert stopped.result["curves"]["average_accuracy"] == whole.result["curves"]["average_accuracy"][:finished]
    assert not [name for name in contents(folder) if re.search(r"(^|/)\.(?!lock$)", name)]

    resumed = tiny(*words)
    assert f"resumed   after task {finished} of 3" in resumed.out
    assert_equal_runs(resumed, whole)
