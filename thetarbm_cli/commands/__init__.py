"""One file a command: parse, call, print. Nothing is computed here."""
