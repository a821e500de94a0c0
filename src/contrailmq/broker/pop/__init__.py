"""POP consumption: messages taken one by one from queues that all members of a group share."""
