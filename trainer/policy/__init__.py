"""The model in training: its weights, adapters and tokenizer, its critic, and log-probabilities of long sequences."""
