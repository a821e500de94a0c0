"""The load of ``contrail bench``."""
