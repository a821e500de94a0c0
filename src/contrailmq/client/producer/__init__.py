"""The sending half of the client."""
