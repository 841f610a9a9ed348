"""What runs inside the guest; nothing here is imported by the rest of ThreeGate."""
