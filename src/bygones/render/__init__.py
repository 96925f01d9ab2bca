"""RENDER: values to text of some format; no files, no SQL, no terminal."""
