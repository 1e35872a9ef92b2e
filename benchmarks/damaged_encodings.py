"""Random damage to bytes and to encoded messages, as disks, editors and attackers do it."""

import json
import random
from typing import Any

import torch
from safetensors.torch import load, save

ODD: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 2**70, "", "0", "\ud800", [], {}, [1], [[1, 2]], [[[], 1]], [["a", 1], ["a", 2]]),
    *({"tensor": "0"}, {"tensor": "99"}, {"tensor": 0}, {"tensor": []}, {"dict": 5}, {"dict": [[None, 1]]}),
    *({"dict": [[1, 1], [True, 2]]}, {"tuple": {}}, {"dataclass": 5, "fields": {}}, {"dataclass": "a:b", "fields": []}),
    *({"tensor": "0", "tuple": []}, {"list": []}, {"fields": {}, "dataclass": "a:b"}, float("nan"), float("inf")),
)


def damaged(data: bytes, random: random.Random) -> bytes:
    """Flipped bits, or pieces that are cut off, cut out, doubled, zeroed or foreign."""
    start, stop = sorted(random.choices(range(len(data) + 1), k=2))
    stop = min(stop, start + random.choice([1, 8, 100]))
    noise = random.randbytes(random.choice([1, 8, 100]))
    match random.randrange(7):
        case 0:
            return data[:start]
        case 1:
            return data[:start] + data[stop:]
        case 2:
            return data[:stop] + data[start:]
        case 3:
            return data[:start] + bytes(stop - start) + data[stop:]
        case 4:
            return data[:start] + noise + data[stop:]
        case 5:
            return data + noise
        case _:
            return flipped(data, random)


def flipped(data: bytes, random: random.Random) -> bytes:
    """One bit is another."""
    place = random.randrange(len(data) or 1)
    return data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :] if data else b"x"


def forged(data: bytes, names: list[str], random: random.Random) -> bytes:
    """An encoding that was changed with knowledge of its form; ``names`` are those of classes to be constructed."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    structure = json.loads(header["__metadata__"]["message"])
    match random.randrange(6):
        case 0:
            entry = random.choice(list(header.values()))
            entry[random.choice([*entry, "x"])] = random.choice(ODD)
        case 1:
            structure = {"dataclass": random.choice(names), "fields": _arguments(random)}
        case 2:
            return save(_other_tensors(data, random), metadata=header["__metadata__"])
        case 3:
            return _deep(header, data[8 + size :], random)
        case _:
            structure = _changed(structure, names, random)
    if "message" in header["__metadata__"]:
        header["__metadata__"]["message"] = json.dumps(structure)
    return packed(header, data[8 + size :])


def packed(header: Any, content: bytes) -> bytes:
    """As a safetensors file."""
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content


def _deep(header: dict[str, Any], content: bytes, random: random.Random) -> bytes:
    depth = random.choice([64, 70, 2000, 50_000])
    opening, closing = random.choice([('{"tuple": [', "]}"), ("[", "]"), ('{"dict": [["a", ', "]]}")])
    header["__metadata__"]["message"] = opening * depth + "1" + closing * depth
    return packed(header, content)


def _other_tensors(data: bytes, random: random.Random) -> dict[str, torch.Tensor]:
    """One tensor more, one less, or one under another name."""
    tensors = load(data)
    name = random.choice([*tensors, "7"])
    tensor = tensors.pop(name, torch.ones(2))
    if random.random() < 0.7:
        tensors[random.choice(["0", "1", "7", "-1", "00"])] = tensor
    return tensors


def _changed(structure: Any, names: list[str], random: random.Random) -> Any:
    """Something odd in a random place of it."""
    if random.random() < 0.2 or not isinstance(structure, (dict, list)) or not structure:
        return random.choice(ODD)
    places = list(structure) if isinstance(structure, dict) else list(range(len(structure)))
    place = random.choice(places)
    if place == "dataclass":
        structure[place] = random.choice(names)
    elif isinstance(structure, dict) and random.random() < 0.1:
        structure[random.choice(["x", "tuple", "tensor"])] = structure.pop(place)
    else:
        structure[place] = _changed(structure[place], names, random)
    return structure


def _arguments(random: random.Random) -> dict[str, Any]:
    fields = ["value", "weights", "samples", "columns", "seen", "inputs", "labels"]
    return {name: random.choice(ODD) for name in random.sample(fields, random.randrange(4))}
