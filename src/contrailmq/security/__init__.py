"""Accounts, what they may do, and how a request shows whose it is."""
