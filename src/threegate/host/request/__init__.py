"""An operator's tool request: its code, inputs and options, and its creation."""
