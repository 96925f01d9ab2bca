"""Remove secrets and personal data from text that leaves the machine."""
