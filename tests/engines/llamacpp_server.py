"""llamacpp_server.py PORT MODEL.gguf: llama.cpp's own HTTP server, from xllamacpp's wheel.

16 slots of 1,024 tokens, two threads, loopback only. Ends when its standard input closes, so that it never
outlives the tests that started it. Runs in the engines' environment.
"""

import os
import sys

import xllamacpp

CONTEXT_TOKENS = 1024
SLOTS = 16


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[2]
    params.model_alias = {"known"}
    params.hostnames = ["127.0.0.1"]
    params.port = int(sys.argv[1])
    params.n_ctx = CONTEXT_TOKENS * SLOTS
    params.n_parallel = SLOTS
    params.n_threads_http = SLOTS + 4
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.endpoint_metrics = True
    params.use_jinja = True
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # the server's destructor would wait for every open keep-alive connection


if __name__ == "__main__":
    main()
