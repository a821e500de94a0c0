"""The tables of HPACK (RFC 7541): the static headers, and Huffman's code as an automaton.

The code is canonical, so the lengths of its 257 symbols say all: within one length codes count up
in the order of the symbols.  The automaton reads four bits at a time.  Its states are the inner
nodes of the tree; no code is shorter than five bits, so a step ends at most one symbol.
"""

from __future__ import annotations

from typing import Final

# Each letter is the length of one symbol's code, 0 to 255 and the end mark: digits, then a = 10.
_LENGTHS: Final = (
    "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6cad67777777777777777777777878djde6"
    "f56565666577666567655677777fbedskmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmm"
    "nqqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrqu"
)
_END_MARK: Final = 256

STATIC: Final = (
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    *((":status", status) for status in ("200", "204", "206", "304", "400", "404", "500")),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    *(
        (name, "")
        for name in (
            "accept-language accept-ranges accept access-control-allow-origin age allow "
            "authorization cache-control content-disposition content-encoding content-language "
            "content-length content-location content-range content-type cookie date etag expect "
            "expires from host if-match if-modified-since if-none-match if-range "
            "if-unmodified-since last-modified link location max-forwards proxy-authenticate "
            "proxy-authorization range referer refresh retry-after server set-cookie "
            "strict-transport-security transfer-encoding user-agent vary via www-authenticate"
        ).split()
    ),
)


def codes() -> list[tuple[int, int]]:
    """The code of each symbol and its length in bits."""
    lengths = [int(letter, 36) for letter in _LENGTHS]
    found = [(0, 0)] * len(lengths)
    code = before = 0
    for symbol in sorted(range(len(lengths)), key=lambda one: (lengths[one], one)):
        code <<= lengths[symbol] - before
        before = lengths[symbol]
        found[symbol] = (code, before)
        code += 1
    return found


# What a step does, in ``STEP_DOES``.
GOES_ON: Final = 0
ENDS_SYMBOL: Final = 1
FAILS: Final = 2


def automaton() -> tuple[bytes, bytes, bytes, bytes]:
    """Per state and four bits: the next state, what the step does, its symbol; then which may end.

    A text may end where all bits since its last symbol are ones, and there are fewer than eight.
    """
    tree: list[list[int]] = [[-1, -1]]  # an inner node's number, or -2 - symbol
    for symbol, (code, length) in enumerate(codes()):
        node = 0
        for place in range(length - 1, -1, -1):
            bit = code >> place & 1
            if place == 0:
                tree[node][bit] = -2 - symbol
            else:
                if tree[node][bit] == -1:
                    tree.append([-1, -1])
                    tree[node][bit] = len(tree) - 1
                node = tree[node][bit]
    following, does, symbols = bytearray(), bytearray(), bytearray()
    for state in range(len(tree)):
        for nibble in range(16):
            node, doing, found = state, GOES_ON, 0
            for place in (3, 2, 1, 0):
                node = tree[node][nibble >> place & 1]
                if node == -2 - _END_MARK:
                    node, doing = 0, FAILS
                    break
                if node < 0:
                    doing, found, node = ENDS_SYMBOL, -2 - node, 0
            following.append(node)
            does.append(doing)
            symbols.append(found)
    may_end = bytearray(len(tree))
    node = 0
    for _ in range(8):
        may_end[node] = 1
        node = tree[node][1]
    return bytes(following), bytes(does), bytes(symbols), bytes(may_end)


STEP_NEXT, STEP_DOES, STEP_SYMBOL, MAY_END = automaton()
