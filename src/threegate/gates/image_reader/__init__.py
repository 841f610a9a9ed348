"""Image files of runs become plain pixels here, in a box of their own."""
