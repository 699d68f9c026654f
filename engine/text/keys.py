"""Keyed hashes of strings: the only source of randomness in the project.

A choice takes the strings with the smallest keyed hashes: it depends on strings and seed, not on order, batch or shard.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ..basics.errors import LARGEST, check_number

# The constants of splitmix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators", fig. 14).
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


def checked_seed(seed: int) -> int:
    """The same seed. InputError below 0, which NumPy refuses, and above 63 bits, which run.json refuses."""
    check_number("--seed", seed, 0, LARGEST)
    return seed


def string_keys(strings: Sequence[str], key: str) -> NDArray[np.uint64]:
    """Hash each string under a key, the same on every machine: uint64 [n]."""
    secret = blake2b(key.encode()).digest()
    digests = b"".join(blake2b(string.encode(), digest_size=8, key=secret).digest() for string in strings)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def combine(*keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash tuples of keys, in order: uint64, of the broadcast shape. Two that differ in one key never collide."""
    combined = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        for key in keys:
            combined = (combined + _INCREMENT) ^ key  # then the finaliser, a bijection on 64 bits
            combined = (combined ^ (combined >> np.uint64(30))) * _MULTIPLIER_1
            combined = (combined ^ (combined >> np.uint64(27))) * _MULTIPLIER_2
            combined ^= combined >> np.uint64(31)
    return combined
