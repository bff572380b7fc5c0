"""How long a call takes: clocks, placements, watches over the device, and what may be concluded from the samples."""
