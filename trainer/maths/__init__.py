"""Functions of tensors that the stages are made of; no state, no input or output."""
