"""Compiles device.cpp once for each torch, Python and state of the source, with g++ alone."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import torch
from torch.utils import cpp_extension

SOURCE = Path(__file__).parent / "device.cpp"
NAME = "second_device_extension"
# Read when this module is imported: tests give the program a cache of its own.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "privbench" / "second-device"
FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-fvisibility=hidden")


class CannotBuild(Exception):
    """There is no compiler, or not what it needs."""


def built() -> ModuleType:
    """The extension, compiled at first use: about a minute, once."""
    return _imported(_compiled())


def _compiled() -> Path:
    source = SOURCE.read_bytes()
    version = f"{torch.__version__} {torch.version.git_version} {sysconfig.get_config_var('SOABI')} {FLAGS}"
    key = hashlib.sha256(source + version.encode()).hexdigest()[:16]
    target = CACHE / f"{NAME}-{torch.__version__}-{key}.so"
    if target.is_file():
        return target
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise CannotBuild("there is no C++ compiler: install g++, or set CXX")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        raise CannotBuild("there is no Python.h: install the headers of this Python (python3-dev)")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test processes must not both compile
        if not target.is_file():
            _compile(compiler, target)
    return target


def _compile(compiler: str, target: Path) -> None:
    """Write the shared library; whoever looks for it finds all of it or nothing."""
    includes = [*cpp_extension.include_paths(), sysconfig.get_path("include")]
    libraries = cpp_extension.library_paths()
    part = target.with_suffix(".part")
    command = [compiler, *FLAGS, f"-DTORCH_EXTENSION_NAME={NAME}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command += [word for folder in includes for word in ("-isystem", folder)]
    command += [str(SOURCE), "-o", str(part)]
    command += [word for folder in libraries for word in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
    command += ["-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{compiler} failed:\n{done.stderr[-2000:]}")
    part.replace(target)


def _imported(library: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(NAME, library)
    if spec is None or spec.loader is None:
        raise CannotBuild(f"{library} is not a module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
