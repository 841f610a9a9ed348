"""A library, not a program: HTTP/1.1 of foreign servers, for the gates that ask them."""
