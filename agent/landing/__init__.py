"""Landing: putting an accepted state into the developer's tree, and taking it out again."""
