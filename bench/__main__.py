"""``python -m bench FOLDER.NAME [options]`` runs one measurement; without a name it lists them.

The folders: ``broker`` (whole brokers under load, beside the Java one), ``store``, ``client``,
``spark`` and ``micro`` (single loops). The sources of the package need no installation.
"""

from __future__ import annotations

import ast
import runpy
import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))


def programs() -> dict[str, str]:
    """Return name and first line of every measurement that can be started."""
    found = {}
    for path in sorted(HERE.glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        if '\nif __name__ == "__main__":' in text:
            about = ast.get_docstring(ast.parse(text)) or ""
            found[f"{path.parent.name}.{path.stem}"] = about.partition("\n")[0]
    return found


def main(argv: list[str]) -> int:
    """Run the named measurement; servers it started are stopped however it ends."""
    known = programs()
    if not argv or argv[0] not in known:
        out = sys.stdout if argv in ([], ["-h"], ["--help"], ["--names"]) else sys.stderr
        if argv == ["--names"]:
            print(*known, sep="\n")
            return 0
        print("python -m bench NAME [options]; the names:", file=out)
        for name, about in known.items():
            print(f"  {name:<18} {about}", file=out)
        return 0 if out is sys.stdout else 2
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.argv = [f"python -m bench {argv[0]}", *argv[1:]]
    runpy.run_module(f"bench.{argv[0]}", run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
