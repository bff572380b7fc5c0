"""What is drawn, as styled rows of text: pure functions of the session's state, with no widget in sight."""
