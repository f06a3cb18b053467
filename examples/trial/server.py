#!/usr/bin/env python3
"""Serves one GGUF model on loopback with llama.cpp's own OpenAI-compatible server.

Prints the base URL on standard output once the model answers, and serves until standard input
ends: whoever started it holds the other end of that pipe, so the server cannot outlive it.
"""

import argparse
import os
import sys
import time
import urllib.error
import urllib.request

# Idle OpenMP threads that spin take the cores away from everything else, the answer included.
# The library reads these when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")


def main() -> None:
    arguments = read_arguments()
    import xllamacpp

    server = xllamacpp.Server(parameters(xllamacpp, arguments))
    wait_until_healthy(server.listening_address)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.buffer.read()
    # The server's threads have no way to be stopped one by one.
    os._exit(0)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="path of the GGUF file")
    parser.add_argument("--alias", default="local", help="the model's name in answers")
    parser.add_argument("--context", type=int, default=8192, help="tokens of prompt and answer")
    parser.add_argument("--threads", type=int, default=usable_cores())
    return parser.parse_args()


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parameters(xllamacpp, arguments: argparse.Namespace):
    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.model_alias = {arguments.alias}
    params.hostnames = ["127.0.0.1"]
    # Any free port; the server tells which.
    params.port = 0
    # No page in a browser may talk to it.
    params.cors_origins = ""
    params.offline = True
    params.ui = False
    params.use_jinja = True
    params.endpoint_metrics = True
    params.n_ctx = arguments.context
    # One slot: every prompt meets the cached prefix of the one before it.
    params.n_parallel = 1
    # No second cache of whole prompts in memory; it would hold up to 8 GiB.
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    return params


def wait_until_healthy(address: str) -> None:
    # A proxy named in the environment must not be asked about this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with opener.open(f"{address}/health", timeout=5):
                return
        except urllib.error.HTTPError as error:
            # 503: the model is still being loaded.
            if error.code != 503:
                raise
        time.sleep(0.1)


if __name__ == "__main__":
    main()
