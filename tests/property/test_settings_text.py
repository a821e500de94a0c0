"""What is written as a properties line is read as it was, whatever it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contrailmq.settings import is_guarded, parse_properties, property_line

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(
    "\\ =:#!\n\r\t\f\v\x00\x1c\x1d\x1e\x85\u2028\u2029\ufeff😀u0", max_size=20
)


@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=4))
def test_every_key_and_value_makes_the_round_trip(properties: dict[str, str]) -> None:
    text = "".join(property_line(*pair) for pair in properties.items())
    assert parse_properties(text) == properties
    assert parse_properties(text.encode().decode()) == properties


def test_guarded_keys() -> None:
    for name in ("brokerIP1", "useTLS", "haMasterAddress", "messageStorePlugIn", "aclEnable"):
        assert is_guarded(name), name
    for name in (
        "fileReservedTime",
        "autoCreateTopicEnable",
        "filterSupportRetry",
        "skipPreOnline",
    ):
        assert not is_guarded(name), name
