"""Kernels, each beside its plain reference. They need torch and know nothing of the workbench."""
