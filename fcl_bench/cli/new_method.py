"""A new method as three files that work as they are written: class, configuration and test."""

import keyword
import re
import tomllib
from pathlib import Path

from fcl_bench.config.catalogue import catalogue
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.files import write_atomically, writing_to

VALUES = {"null", "true", "false", "nan", "inf"}  # what Hydra does not read as a name

METHOD = '''"""CLASS: federated averaging, to begin with.

Paper: none yet.

Followed: per round the global model goes down, clients train it on their data, and the mean of their models comes back.
Deviates: nowhere yet.
"""

from collections.abc import Iterator
from typing import Unpack

from torch import nn

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    CrossEntropy,
    FederatedAveraging,
    Round,
    StateDict,
    Task,
    Training,
    Update,
)


class CLASS:
    """The state is the global model."""

    exemplar_free = True
    resumes_within_tasks = True

    def __init__(self, backbone: Backbone, **training: Unpack[Training]):
        self.averaging = FederatedAveraging(backbone, training, CrossEntropy)

    def init(self) -> StateDict:
        """The backbone's own weights and a head without rows."""
        return self.averaging.start

    def learn(self, state: StateDict, task: Task, clients: Clients) -> Iterator[StateDict]:
        """At the server: the mean of what clients train, round after round."""
        yield from self.averaging.learn(state, task, clients, self.train)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: a few epochs on its own data. The reply is checked: see docs/replies.md for other types."""
        return self.averaging.train(client.data, received)

    def classifier(self, state: StateDict) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state)
'''

YAML = """# CLASS: federated averaging, to begin with
defaults: [/training@_here_]
_target_: fcl_bench.methods.NAME.CLASS
name: NAME
"""

TEST = """from types import SimpleNamespace

from fcl_bench import Backbone, Task, Update, check_method, configured

METHOD = configured("method=NAME")


def test_the_contract():
    check_method(METHOD)


def test_every_round_takes_the_mean():
    def replies(train, received):  # two clients, of 1 and 3 samples, that add 0 and 4 to every weight
        return [Update({key: value + 4 * n for key, value in received.weights.items()}, 1 + 2 * n) for n in (0, 1)]

    method = METHOD(Backbone(features=3))
    task = Task(index=0, registrations=(), known=(), new=(0, 1), seen=2)
    states = list(method.learn(method.init(), task, SimpleNamespace(map=replies)))
    assert [state["head.bias"].tolist() for state in states[:2]] == [[3, 3], [6, 6]]
"""


def new_method(name: str, root: Path) -> list[Path]:
    """Write the three files of a new method into a checkout; all of them or none, and never over another file."""
    _check_name(name)
    _check_root(root)
    files = {
        root / f"methods/{name}.py": METHOD,
        root / f"configs/method/{name}.yaml": YAML,
        root / f"tests/methods/test_{name}.py": TEST,
    }
    for path in (*files, *(root / "tests").rglob(f"test_{name}.py")):  # pytest wants each name once
        if path.exists():
            raise ConfigError(f"The name '{name}' is taken: {path} exists; choose another.")
    try:
        for path, text in files.items():
            with writing_to(path.parent, "--root"):
                filled = text.replace("CLASS", class_name(name)).replace("NAME", name)
                write_atomically(path, filled.encode())
    except BaseException:
        for path in files:
            path.unlink(missing_ok=True)
        raise
    return list(files)


def class_name(name: str) -> str:
    """The name of the class in a file.

    >>> class_name("my_method_2")
    'MyMethod2'
    """
    return "".join(word.capitalize() for word in name.split("_"))


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name) or name in VALUES:
        raise ConfigError(
            f"Expected a name in snake_case that Python and Hydra can read, such as my_method, but got '{name}'."
        )
    if name in catalogue()["method"]:
        raise ConfigError(f"The name '{name}' is taken, see python -m fcl_bench list; choose another.")
    if re.search(rf"\b{class_name(name)}\b", METHOD):
        raise ConfigError(f"The name '{name}' is taken: its class {class_name(name)} has a namesake; choose another.")


def _check_root(root: Path) -> None:
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text())["project"]["name"]
    except (OSError, ValueError, KeyError):
        project = None
    if project != "fcl-bench":
        raise UserError(
            f"There is no checkout of fcl-bench in {root}: clone the repository and install it by pip install -e, or "
            "add the method in a package of your own with an entry point, see docs/adding-a-method.md."
        )
