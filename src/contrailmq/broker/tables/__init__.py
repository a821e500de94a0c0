"""What a broker knows: topics, groups, offsets, clients."""
