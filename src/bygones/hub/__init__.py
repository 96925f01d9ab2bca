"""HUB: a face for many: takes what machines push, serves what each person may see."""
