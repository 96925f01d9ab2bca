"""Settings, hooks and status line of Claude Code."""
