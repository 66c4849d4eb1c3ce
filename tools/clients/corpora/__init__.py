"""Statements that others have collected, with their answers."""
