"""What CORE says to a model server, and what it hears."""
