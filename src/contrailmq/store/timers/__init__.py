"""Timer messages of a store: the wheel, the timer log, and what recovers them."""
