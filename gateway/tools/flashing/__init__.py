"""Cards for Pis: a base image is written, read back, and given one device's first boot."""
