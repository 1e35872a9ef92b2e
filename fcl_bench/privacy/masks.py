"""Masks of pairs of clients: keys are agreed on and stretched by the library ``cryptography``.

Two clients agree on a key by X25519 and HKDF-SHA256. AES-128 in counter mode, as strong as X25519, stretches it to as
many numbers as a reply has. A key serves for one exchange, so the counter may begin at zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from torch import Tensor

from fcl_bench.message import tensors_in

KEY_BYTES = 16
PURPOSE = b"fcl_bench: mask of two clients in a secure sum"
AT_ONCE = 2**15  # numbers: they and a mask stay in a core's cache
ZEROS = memoryview(bytes(8 * AT_ONCE))


def new_key() -> Tensor:
    """A private key, (32,) bytes."""
    return _as_tensor(X25519PrivateKey.generate().private_bytes_raw())


def public_part(private: Tensor) -> Tensor:
    """The public key that belongs to a private one."""
    return _as_tensor(_private(private).public_key().public_bytes_raw())


def shared_key(private: Tensor, public: Tensor) -> Tensor:
    """What one has in common with the other; the same for both, and known to nobody else."""
    secret = _private(private).exchange(X25519PublicKey.from_public_bytes(_as_bytes(public)))
    derivation = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=PURPOSE)
    return _as_tensor(derivation.derive(secret))


def add_masks(message: Any, masks: Sequence[tuple[Tensor, int]]) -> None:
    """Add the mask of each key in place, or subtract it where the sign is -1.

    All tensors of the message have 32 bits or all have 64; sums are modulo 2^32 or 2^64.
    """
    streams = [(_stream(key), np.add if sign > 0 else np.subtract) for key, sign in masks]
    for _, leaf in tensors_in(message):
        numbers = leaf.view(-1).numpy()
        mask = np.empty(min(AT_ONCE, len(numbers)), dtype=numbers.dtype.newbyteorder("<"))
        for start in range(0, len(numbers), AT_ONCE):
            part = numbers[start : start + AT_ONCE]
            for stream, operation in streams:
                stream.update_into(ZEROS[: part.nbytes], mask.data.cast("B"))
                operation(part, mask[: len(part)], out=part)


def _stream(key: Tensor) -> CipherContext:
    return Cipher(AES(_as_bytes(key)), CTR(bytes(16))).encryptor()


def _private(key: Tensor) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(_as_bytes(key))


def _as_bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
