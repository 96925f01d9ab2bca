python := if os() == "windows" { ".venv/Scripts/python" } else { ".venv/bin/python" }

# every gate, as in continuous integration
check:
    python3 start.py test

# the tests alone; words go to pytest
test *words:
    {{python}} -m pytest -n 2 {{words}}

# rewrite the stored outputs; read the diff before committing it
golden:
    {{python}} -m pytest --golden

# rewrite the generated reference pages
docs:
    {{python}} -m docs.make

# the benchmarks, printing ratios
bench *words:
    {{python}} -m benchmarks {{words}}

# pin the dependencies anew, for uv and for pip
lock:
    uv lock
    uv export --quiet --frozen --no-hashes --no-emit-project --no-header --no-annotate --output-file requirements-dev.txt

# the harnesses of docs/reliability.md at length; names choose some
torture *words:
    {{python}} -m tests.faults.torture {{words}}
