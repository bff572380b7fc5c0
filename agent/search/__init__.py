"""Several agents side by side from one base, each in a session of its own, the judge as referee."""
