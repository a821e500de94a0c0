"""``python -m bench compare|growth|soak [options]``: whole brokers under load.

``compare`` runs our broker beside the Java one, ``growth`` shows how cost grows, ``soak`` loads one
for a long time with everything at once.
"""

from __future__ import annotations

import importlib
import signal
import sys

COMMANDS = ("compare", "growth", "soak")


def main() -> int:
    """Run the named benchmark; its brokers are stopped however it ends."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"python -m bench {'|'.join(COMMANDS)} [options]", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    return int(importlib.import_module(f"bench.{sys.argv[1]}").main(sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
