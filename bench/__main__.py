"""``python -m bench compare [options]``: our broker beside the Java one, in one run."""

from __future__ import annotations

import sys

from bench import compare, growth

COMMANDS = {"compare": compare.main, "growth": growth.main}


def main() -> int:
    """Run the named benchmark."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"python -m bench {'|'.join(COMMANDS)} [options]", file=sys.stderr)
        return 2
    return COMMANDS[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
