"""Change what measures: prepare.py, the table, git's configuration, a git hook."""

import json
import os
import sys

told = json.loads(sys.argv[1])
project = told["project"]
for name in ("prepare.py", "results.tsv", ".git/config", "runs/t/journal.jsonl"):
    try:
        os.close(os.open(f"{project}/{name}", os.O_WRONLY | os.O_APPEND))
        sys.exit(0)
    except OSError as error:
        print(error)
os.close(os.open(f"{project}/.git/hooks/post-commit", os.O_WRONLY | os.O_CREAT, 0o755))
