"""What the model is shown: how long a request is, what goes when it gets too long, and each request made again."""
