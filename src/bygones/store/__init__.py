"""The archive, its index, and the engines below them."""
