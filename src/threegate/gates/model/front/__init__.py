"""What embedded server and bridge have in common: the side that CORE sees."""
