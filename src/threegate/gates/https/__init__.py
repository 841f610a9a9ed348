"""The client side of HTTPS through the one socket a box has: to a proxy, which decides."""
