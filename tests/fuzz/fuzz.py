"""Feed decoders broken input for a bounded time.

A target is a decoder, inputs to begin with, and one invariant that every input must keep: the
target's ``check`` raises when it is broken.  Inputs are made from the seeds by small changes, all
of them drawn from one ``random.Random``, so that a seed number repeats a run.  What breaks an
invariant is written to ``corpus/<target>/`` and from then on is tried by every run first, and by
the ordinary test suite.

Targets are found in the files ``target_*.py`` beside this one: each has a list ``TARGETS``.

    python tests/fuzz/fuzz.py --seconds 60 [--target NAME] [--seed 1]
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
INPUT_SIZE_MAX = 64 * 1024


class Target(NamedTuple):
    """A decoder under fire."""

    name: str
    invariant: str
    check: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes] = ()


class Finding(AssertionError):
    """An input broke an invariant; the text says how to see it again."""


def targets() -> list[Target]:
    """All targets of all ``target_*.py``, sorted by name."""
    found: list[Target] = []
    for path in sorted(HERE.glob("target_*.py")):
        spec = importlib.util.spec_from_file_location(f"fuzz_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found += [Target(*target) for target in module.TARGETS]
    assert len({target.name for target in found}) == len(found), "two targets of one name"
    return sorted(found, key=lambda target: target.name)


def corpus(target: Target) -> list[bytes]:
    """The inputs that once broke this target."""
    folder = CORPUS / target.name
    return [path.read_bytes() for path in sorted(folder.glob("*"))] if folder.is_dir() else []


def replay(target: Target) -> int:
    """Try the kept inputs and the unchanged seeds; how many there were."""
    inputs = corpus(target) + list(target.seeds())
    for data in inputs:
        target.check(data)
    return len(inputs)


def fuzz(
    target: Target,
    *,
    seconds: float,
    seed: int,
    rounds_max: int = sys.maxsize,
    keep: Path | None = CORPUS,
) -> int:
    """Run a target until the time is over; how many inputs it was given."""
    rng = random.Random(f"{target.name} {seed}")
    seeds = corpus(target) + list(target.seeds())
    assert seeds, f"{target.name} has no seeds"
    end = time.monotonic() + seconds
    rounds = 0
    while rounds < rounds_max and time.monotonic() < end:
        data = mutate(rng, seeds, target.words)
        rounds += 1
        try:
            target.check(data)
        except Exception as error:
            place = _keep(target, data, keep)
            raise Finding(
                f"{target.name}: {type(error).__name__}: {error}; the invariant is: "
                f"{target.invariant}; input {place}, seed {seed}, round {rounds}"
            ) from error
    return rounds


def _keep(target: Target, data: bytes, folder: Path | None) -> str:
    if folder is None:
        return data.hex()
    path = folder / target.name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def mutate(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One input near one of the seeds."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5, 9))):
        rng.choice(_CHANGES)(rng, data, seeds, words)
    return bytes(data[:INPUT_SIZE_MAX])


def _place(rng: random.Random, data: bytearray) -> int:
    # Formats have their sizes in front: half of the changes go there.
    reach = len(data) if rng.random() < 0.5 else min(len(data), 32)
    return rng.randrange(reach) if reach else 0


def _flip(rng: random.Random, data: bytearray, *_: object) -> None:
    if data:
        data[_place(rng, data)] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, data: bytearray, *_: object) -> None:
    if data:
        data[_place(rng, data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _number(rng: random.Random, data: bytearray, *_: object) -> None:
    size = rng.choice((2, 4, 8))
    edge = rng.choice((0, 1, -1, 1 << (8 * size - 1), (1 << (8 * size - 1)) - 1, len(data)))
    value = (edge + rng.randrange(-2, 3)) % (1 << (8 * size))
    place = _place(rng, data)
    data[place : place + size] = value.to_bytes(size, rng.choice(("big", "little")))


def _cut(rng: random.Random, data: bytearray, *_: object) -> None:
    del data[_place(rng, data) :]


def _remove(rng: random.Random, data: bytearray, *_: object) -> None:
    place = _place(rng, data)
    del data[place : place + rng.randrange(1, 17)]


def _repeat(rng: random.Random, data: bytearray, *_: object) -> None:
    place = _place(rng, data)
    piece = data[place : place + rng.randrange(1, 33)]
    data[place:place] = piece * rng.choice((1, 1, 2, 40))


def _insert(rng: random.Random, data: bytearray, *_: object) -> None:
    place = _place(rng, data)
    data[place:place] = rng.randbytes(rng.randrange(1, 9))


def _word(
    rng: random.Random, data: bytearray, _seeds: Sequence[bytes], words: Sequence[bytes]
) -> None:
    if words:
        place = _place(rng, data)
        word = rng.choice(words)
        data[place : place + rng.choice((0, len(word)))] = word


def _splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes], *_: object) -> None:
    other = rng.choice(seeds)
    start = rng.randrange(len(other)) if other else 0
    place = _place(rng, data)
    data[place:] = other[start:]


_CHANGES = (_flip, _flip, _set, _number, _cut, _remove, _repeat, _insert, _word, _word, _splice)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one target or all of them, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each target")
    parser.add_argument("--target", help="one of them; all otherwise")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    chosen = [t for t in targets() if options.target in (None, t.name)]
    if not chosen:
        parser.error(f"no target {options.target}")
    failures = 0
    for target in chosen:
        try:
            replay(target)
            rounds = fuzz(target, seconds=options.seconds, seed=options.seed)
            print(f"{target.name}: {rounds} inputs, nothing found")
        except Finding as finding:
            failures += 1
            print(f"{target.name}: FOUND {finding}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parent)]
    sys.exit(main())
