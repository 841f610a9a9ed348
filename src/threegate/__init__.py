"""ThreeGate: a research assistant in which no component both decides and acts."""

__version__ = "0.1.0"
