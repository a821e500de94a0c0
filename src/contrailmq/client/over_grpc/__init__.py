"""Clients of a gRPC port: their requests, translated to calls of the v2 service and back."""
