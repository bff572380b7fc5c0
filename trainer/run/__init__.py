"""What every stage needs to run: presets, processes, checkpoints, metrics, guards and curves."""
