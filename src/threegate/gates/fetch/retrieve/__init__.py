"""Retrieve: asks one allowlisted URL after the other, through one socket, and keeps nothing."""
