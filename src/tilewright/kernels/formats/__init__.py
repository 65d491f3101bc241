"""Number formats on tensors."""
