python := if os() == "windows" { ".venv/Scripts/python" } else { ".venv/bin/python" }

# all checks, as in continuous integration
check:
    python3 start.py test

# all checks with browsers, all engines and fault runs
full:
    python3 start.py test --full

# only the tests; arguments go to pytest
test *arguments:
    {{python}} -m pytest -n 2 --dist worksteal {{arguments}}

# rewrite the stored outputs; read the diff before you commit it
golden:
    {{python}} -m pytest --golden

# rewrite the generated reference pages
docs:
    {{python}} -m docs.make

# benchmarks, as ratios
bench *arguments:
    {{python}} -m benchmarks {{arguments}}

# pin the dependencies again, for uv and for pip
lock:
    uv lock
    uv export --quiet --frozen --no-hashes --no-emit-project --no-header --no-annotate --output-file requirements-dev.txt

# the fault harnesses of docs/reliability.md at length; arguments select some
torture *names:
    {{python}} -m tests.faults.torture {{names}}

# all scenarios with the real Claude Code; needs npm, and tmux for those in a terminal
client *arguments:
    {{python}} -m pytest -n 2 --full tests/client {{arguments}}

# measure what Claude Code charges, and print the differences from our prices
client-prices *models:
    {{python}} -m tests.client.prices {{models}}

# play all scenarios with the newest Claude Code, and print what it writes that is new
client-news *arguments:
    {{python}} -m tests.client.news {{arguments}}
