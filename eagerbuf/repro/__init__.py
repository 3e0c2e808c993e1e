"""Our own small models of both faults, on real ranks."""
