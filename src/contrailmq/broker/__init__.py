"""The broker: it takes messages, keeps them and hands them out."""
