"""Softmax."""
