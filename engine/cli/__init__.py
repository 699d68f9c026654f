"""Commands: parse, call the library, print."""
