"""Guest images on this machine: what one consists of, where it lies, whether it is intact."""
