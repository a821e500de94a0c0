"""The compiled core: everything else about the build is in pyproject.toml.

Each module of ``contrailmq._native`` is ordinary Python with a ``.pxd`` beside it that gives the
types. They are compiled by every install. There is no silent fall-back: a broker without its
compiled loops would run at a tenth of its speed, and nobody would know why.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# CONTRAIL_NATIVE=scan,log builds these modules alone, while one works on them; "none" builds none.
ONLY = set(filter(None, os.environ.get("CONTRAIL_NATIVE", "").split(",")))
NATIVE = sorted(
    path.with_suffix(".py")
    for path in Path("src/contrailmq/_native").rglob("*.pxd")
    if not path.read_text().startswith("# inline") and (not ONLY or path.stem in ONLY)
)

BUILD = Path("build/cython")
_CIMPORT = re.compile(r"^(?:from (\S+) )?cimport (.+)$", re.MULTILINE)


def _cimported(path: Path) -> set[Path]:
    """Return every .pxd of ours that a module's .pxd takes something from, itself included."""
    found: set[Path] = set()
    left = [path]
    while left:
        one = left.pop()
        if one in found:
            continue
        found.add(one)
        for package, names in _CIMPORT.findall(one.read_text()):
            for name in ("", *names.split(",")):
                parts = ".".join(filter(None, (package, name.split(" as ")[0].strip()))).split(".")
                candidate = Path("src", *parts).with_suffix(".pxd")
                if candidate.exists():
                    left.append(candidate)
    return found


def _forget_the_stale() -> None:
    """Delete C files older than a .pxd they were made from.

    Cython's own search does not follow ``from package cimport module``.
    """
    for path in NATIVE:
        made = BUILD / path.with_suffix(".c")
        newest = max(found.stat().st_mtime for found in _cimported(path.with_suffix(".pxd")))
        if made.exists() and made.stat().st_mtime < newest:
            made.unlink()


REMEDY = (
    "install one (Debian and Ubuntu: apt-get install gcc python3-dev; Fedora: dnf install gcc "
    "python3-devel; macOS: xcode-select --install) and run the same command again"
)


def _require_a_compiler() -> None:
    given = os.environ.get("CC", "").split()
    if given and shutil.which(given[0]) is None:
        sys.exit(
            f"contrailmq: CC={given[0]} names no C compiler that is here; unset CC, or {REMEDY}"
        )
    own = (sysconfig.get_config_var("CC") or "cc").split()[0]  # the one Python was built with
    if not given and shutil.which(own) is None:
        others = [name for name in ("cc", "gcc", "clang") if shutil.which(name)]
        if not others:
            sys.exit(f"contrailmq: no C compiler ({own}) was found; {REMEDY}")
        os.environ["CC"] = others[0]
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        sys.exit(f"contrailmq: the C headers of {python} (Python.h) were not found; {REMEDY}")


if not {"sdist", "egg_info", "--version", "--help", "clean"} & set(sys.argv[1:]):
    _require_a_compiler()
    _forget_the_stale()

setup(
    ext_modules=cythonize(
        [
            Extension(
                ".".join(path.with_suffix("").parts[1:]),
                [str(path)],
                extra_compile_args=["-O3", "-g0", "-fno-strict-aliasing"],
            )
            for path in NATIVE
        ],
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
            "annotation_typing": False,  # annotations are for mypy; C types are in the .pxd
        },
        build_dir=str(BUILD),
        quiet=True,
    ),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
