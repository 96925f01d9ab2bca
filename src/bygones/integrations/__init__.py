"""Integration with Claude Code: settings, hooks, plugin files and the status line."""
