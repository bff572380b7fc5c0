"""The session: the loop that lets a model edit, judge and improve a candidate, and the stream that records it."""
