"""Stand-in CUDA libraries: `python cuda.py FOLDER` compiles them; then start a program with LD_LIBRARY_PATH=FOLDER.

They answer like a machine with two Hopper-class devices and compute nothing: allocations are main memory, copies are
copies, kernels do not run. ONNX Runtime's own CUDA provider loads on them, and decides which nodes it takes and by
which attention kernel. What it computes is nonsense, what it decides is real. Exit status 3, with the reason, where
they cannot be built.
"""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

COMMON = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define DEVICES 2
static __thread int device;

/* Of a process that sets STAND_IN_MOST, an allocation of more bytes fails as in a full memory. */
static long fresh(void **place, size_t bytes) {
  const char *most = getenv("STAND_IN_MOST");
  if (most && bytes > strtoul(most, 0, 10)) return 2;
  *place = aligned_alloc(256, (bytes + 511) / 256 * 256);
  return *place ? 0 : 2;
}
static long handle(void **place) { *place = calloc(1, 512); return 0; }

/* The head of the runtime's cudaDeviceProp, as its documentation lists it for CUDA 13; the rest stays zero. */
struct properties {
  char name[256], uuid[16], luid[8]; unsigned luid_mask;
  size_t memory, shared; int registers, warp; size_t pitch; int threads, block[3], grid[3]; size_t constant;
  int major, minor; size_t alignment[2]; int multiprocessors; char more[208];
  int l2, persisting_l2, threads_per_multiprocessor, caching[2]; size_t shared_per_multiprocessor;
  int registers_per_multiprocessor, managed[9]; size_t shared_opt_in;
};
"""

HANDLES = {
    *("cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaEventCreate", "cudaEventCreateWithFlags"),
    *("cudaMemPoolCreate", "__cudaGetKernel", "cublasCreate_v2", "cublasLtCreate"),
    *("cublasLtMatmulDescCreate", "cublasLtMatrixLayoutCreate", "cublasLtMatmulPreferenceCreate"),
    *("cublasLtMatrixTransformDescCreate", "cudnnCreate"),
}

NUMBERS = {
    "cudaGetDeviceCount": "DEVICES",
    "cudaDriverGetVersion": "13000",
    "cudaRuntimeGetVersion": "13000",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": "2",
    "cuDeviceGetCount": "DEVICES",
    "cuDriverGetVersion": "13000",
}

BODIES = {  # of one or several functions
    "cudaGetDevice": "(int *out) { *out = device; return 0; }",
    "cudaSetDevice": "(int wanted) { device = wanted; return 0; }",
    "cudaGetDeviceProperties": """(struct properties *out) {
  memset(out, 0, sizeof *out);
  struct properties hopper = {.name = "stand-in", .memory = 140ul << 30, .shared = 49152, .registers = 65536,
    .warp = 32, .pitch = 1 << 30, .threads = 1024, .block = {1024, 1024, 64}, .grid = {1 << 30, 65535, 65535},
    .constant = 65536, .major = 9, .multiprocessors = 132, .l2 = 60 << 20, .threads_per_multiprocessor = 2048,
    .shared_per_multiprocessor = 233472, .registers_per_multiprocessor = 65536, .shared_opt_in = 232448};
  memcpy(out, &hopper, sizeof hopper);
  return 0;
}""",
    # Attributes by their numbers: multiprocessors, compute capability, shared memory a block may opt in to.
    "cudaDeviceGetAttribute": """(int *out, int which) {
  *out = which == 16 ? 132 : which == 75 ? 9 : which == 76 ? 0 : which == 97 ? 232448 : which == 8 ? 49152 : 1;
  return 0;
}""",
    "cudaMemGetInfo": "(size_t *left, size_t *all) { *left = *all = 140ul << 30; return 0; }",
    "cuDeviceTotalMem_v2": "(size_t *out) { *out = 140ul << 30; return 0; }",
    "cudaMalloc cudaMallocHost cudaHostAlloc": "(void **out, size_t n) { return fresh(out, n); }",
    "cudaFree cudaFreeHost": "(void *p) { free(p); return 0; }",
    "cudaMemcpy cudaMemcpyAsync": "(void *to, void *from, size_t n) { memmove(to, from, n); return 0; }",
    "cudaMemset cudaMemsetAsync": "(void *to, int value, size_t n) { memset(to, value, n); return 0; }",
    "cudaStreamIsCapturing": "(void *stream, int *out) { *out = 0; return 0; }",
    "cudaEventElapsedTime": "(float *out) { *out = 1; return 0; }",
    "cudaFuncGetAttributes": "(void *out) { memset(out, 0, 64); ((int *)out)[6] = 1024; return 0; }",
    "cudaPointerGetAttributes": "(void *out) { memset(out, 0, 32); return 0; }",
    "cudaMemPoolGetAttribute": "(void *pool, int which, uint64_t *out) { *out = 0; return 0; }",
    "cudaGetErrorName cudaGetErrorString": '(void) { return (long)"stand-in error"; }',
    "__cudaRegisterFatBinary": "(void) { void *p; handle(&p); return (long)p; }",
    "__cudaPopCallConfiguration": """(void *grid, void *block, size_t *shared) {
  memset(grid, 0, 12); memset(block, 0, 12); *shared = 0; return 0;
}""",
    "cudaGetDriverEntryPointByVersion": """(char *name, void **out, unsigned version, uint64_t flags, int *status) {
  *out = 0; if (status) *status = 1; return 0;
}""",
    "cublasGetMathMode": "(void *handle, int *out) { *out = 0; return 0; }",
    "cublasGetStatusName cublasGetStatusString cudnnGetErrorString": '(void) { return (long)"stand-in"; }',
    "cudnnGetVersion": "(void) { return 92800; }",
    "cudnnGetCudartVersion": "(void) { return 13000; }",
}
BODY_OF = {name: body for names, body in BODIES.items() for name in names.split()}

UNVERSIONED = ("libcuda.so.1", "libcurand.so.10", "libcudnn.so.9")


def provider() -> Path:
    """The library with ONNX Runtime's CUDA provider."""
    spec = find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        unavailable("ONNX Runtime is not installed")
    path = Path(spec.origin).parent / "capi" / "libonnxruntime_providers_cuda.so"
    if not path.is_file():
        unavailable("this ONNX Runtime has no CUDA provider (onnxruntime-gpu has, on Linux)")
    return path


def unavailable(reason: str) -> NoReturn:
    sys.stdout.write(reason)
    sys.exit(3)


def wanted(path: Path) -> dict[str, set[str]]:
    """Library → the functions that the provider takes from it, by linking or, for cuDNN, by name."""
    libraries: dict[str, set[str]] = {
        "libcurand.so.10": set(),
        "libcuda.so.1": {"cuInit", "cuDeviceGet", "cuDeviceGetCount", "cuDeviceTotalMem_v2", "cuDriverGetVersion"},
        "libcudnn.so.9": {name.decode() for name in re.findall(rb"\bcudnn[A-Z]\w+", path.read_bytes())},
    }
    listed = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True)
    for symbol in re.findall(r" U (\w*cu\S+)", listed.stdout):
        name, _, library = symbol.partition("@")
        if library or name.startswith("cu"):
            libraries.setdefault(library or "libcuda.so.1", set()).add(name)
    return {library: names for library, names in libraries.items() if library.startswith("libcu")}


def source(name: str) -> str:
    """A function in C; those of which nothing is known succeed and do nothing."""
    if name in HANDLES:
        return f"long {name}(void **out) {{ return handle(out); }}"
    if name in NUMBERS:
        return f"long {name}(int *out) {{ *out = {NUMBERS[name]}; return 0; }}"
    return f"long {name}{BODY_OF.get(name, '(void) { return 0; }')}"


def build(folder: Path) -> None:
    """Compile all libraries into a folder."""
    for tool in ("gcc", "nm"):
        if shutil.which(tool) is None:
            unavailable(f"{tool} is not installed")
    for library, names in wanted(provider()).items():
        code, versions = folder / f"{library}.c", folder / f"{library}.map"
        code.write_text(COMMON + "\n".join(map(source, sorted(names))) + "\n", encoding="utf-8")
        versions.write_text(f"{library} {{ global: *; }};\n", encoding="utf-8")
        versioned = [] if library in UNVERSIONED else [f"-Wl,--version-script={versions}"]
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-w", "-o", folder / library, code, f"-Wl,-soname,{library}", *versioned],
            check=True,
        )


if __name__ == "__main__":
    build(Path(sys.argv[1]))
