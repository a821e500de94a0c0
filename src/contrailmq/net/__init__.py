"""Remoting over asyncio: connections, clients and servers."""
