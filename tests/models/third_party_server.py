"""A server that we did not write: llama.cpp's own, with the embedded model, on a free port.

Arguments: the weights, and the key that it wants, if any. Prints its address when it is ready; ends with its input.
"""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.api_keys = sys.argv[2:]
params.n_ctx = 2048
params.n_parallel = 2
params.n_batch = params.n_ubatch = 64
params.cache_ram_mib = 0
params.warmup = False
params.verbosity = -1
params.sampling.temp = 0.0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
sys.stdout.write(f"{server.listening_address}\n")
sys.stdout.flush()
sys.stdin.read()
