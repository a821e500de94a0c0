"""Bytes and values of the remoting protocol: no I/O, no clock, no logging."""
