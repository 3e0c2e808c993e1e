"""Words by the grammar of each form: shell, Python, YAML and JSON, list items."""
