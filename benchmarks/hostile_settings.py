"""The ``config.yaml`` of a run folder: damaged, or YAML that unfolds, digs deep or asks for objects."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

from benchmarks.mutations import mutated
from fcl_bench.config.compose import composed
from fcl_bench.config.run_id import result_relevant
from fcl_bench.config.saved import saved_settings
from fcl_bench.errors import UserError
from fcl_bench.run.folder import RunFolder

EVIL = "/tmp/fcl_bench_evil.txt"


def prepare(sound: Path) -> Callable[[np.random.Generator, Path], str]:
    """The folder of a run on small data."""
    config = composed("method=afcl", "dataset=gaussian")
    before = OmegaConf.to_container(config, resolve=True)
    text = OmegaConf.to_yaml(config, resolve=True).encode()

    def case(rng: np.random.Generator, place: Path) -> str:
        config.output_dir = str(place)
        run = RunFolder(config)
        run.folder.mkdir(parents=True)
        path = run.folder / "config.yaml"
        path.write_bytes(CRAFTED[int(rng.integers(len(CRAFTED)))](text, rng))
        end = _end(run, path, before)
        if Path(EVIL).exists():
            Path(EVIL).unlink()
            return "write outside"
        return end

    return case


def _end(run: RunFolder, path: Path, before: object) -> str:
    try:
        run.refuse_another_run("any")
    except UserError:
        return "refused"
    after = OmegaConf.to_container(saved_settings(path))
    return "same" if _relevant(after) == _relevant(before) else "silent change"


def _relevant(settings: object) -> object:
    """What can change a result; here places and names of classes are left out, as in a run id."""
    assert isinstance(settings, dict)
    ignored = ("output_dir", "cache_dir", "resume", "logger", "transport", "budget")
    return result_relevant({key: value for key, value in settings.items() if key not in ignored})


def _unfolding(text: bytes, rng: np.random.Generator) -> bytes:
    """Few lines that stand for ten times as much each."""
    lines = ["a0: &a0 [x, x]"]
    lines += [
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, int(rng.integers(3, 40)))
    ]
    return text + "\n".join(lines).encode()


def _references(text: bytes, rng: np.random.Generator) -> bytes:
    lines = [f"r{level}: ${{r{level - 1}}}${{r{level - 1}}}" for level in range(1, 40)]
    return text + "\n".join(["r0: xx", *lines]).encode()


def _deep(text: bytes, rng: np.random.Generator) -> bytes:
    depth = int(rng.integers(30, 100_000))
    return text + b"deep: " + (b"[" if rng.integers(2) else b"{a: ") * depth


def _objects(text: bytes, rng: np.random.Generator) -> bytes:
    tags = (
        f"!!python/object/apply:os.system ['touch {EVIL}']",
        f"!!python/object/apply:builtins.open ['{EVIL}', w]",
        f"!!python/object/apply:pathlib.Path ['{EVIL}']",
        "!!python/name:os.system",
        "!!python/module:antigravity",
        "!!binary aGVsbG8=",
        "!!set {a, b}",
        "!own {a: 1}",
    )
    return text + f"object: {tags[int(rng.integers(len(tags)))]}\n".encode()


def _no_mapping(text: bytes, rng: np.random.Generator) -> bytes:
    documents = (b"", b"[]", b"- 1\n- 2", b"7", b"null", b"text", b"a: 1\n---\nb: 2", b"\xff\xfe", b"\0", b"? [a]\n: 1")
    return documents[int(rng.integers(len(documents)))]


CRAFTED = (*[mutated] * 6, _unfolding, _references, _deep, _objects, _no_mapping)
