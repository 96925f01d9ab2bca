"""Find Claude Code homes, walk them and read their files."""
