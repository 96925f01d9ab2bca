"""The database engines of team stores."""
