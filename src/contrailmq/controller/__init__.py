"""The controller: decides which broker of a replica group is primary (5.x's protocol)."""
