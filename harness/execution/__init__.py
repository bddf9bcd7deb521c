"""Execution plane: processes, clocks, devices. It runs things and says what happened."""
