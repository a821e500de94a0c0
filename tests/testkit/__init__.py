"""What the tests share: golden data, both builds of the native modules, leak checks."""
