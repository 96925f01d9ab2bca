"""The values that the stages hand to each other; imports nothing of ours."""
