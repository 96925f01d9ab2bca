"""Versions of files: what a file contained at any turn, and who wrote each line.

Everything is derived from sessions when it is asked for; nothing is stored.
"""
