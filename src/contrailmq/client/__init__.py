"""Producers and consumers, asyncio first."""
