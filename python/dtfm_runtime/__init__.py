"""Trains what a plan of dtfm says, with PyTorch."""

__version__ = "0.1.0"
