"""Data that come with the package, their licence, and the script that made them."""
