"""The subcommands of ``warpsmith``, one module each: its options, and what it does with them."""
