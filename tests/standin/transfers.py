"""Counts of the copies between host and device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

# Copies that a program asks for by name. All others hide in an index, an assignment, an `if`, a `float()`.
ASKED_FOR = ("asarray", "csr_matrix", "get")


@dataclass
class Ledger:
    """Copies since the last `clear`, by what caused them."""

    to_device: Counter[str] = field(default_factory=Counter)
    to_host: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        self.to_device.clear()
        self.to_host.clear()

    def totals(self) -> tuple[int, int]:
        """Copies to the device, copies to the host."""
        return self.to_device.total(), self.to_host.total()

    def hidden(self) -> dict[str, int]:
        """Copies that no one asked for by name."""
        both = self.to_device + self.to_host
        return {cause: count for cause, count in both.items() if cause not in ASKED_FOR}


LEDGER = Ledger()
