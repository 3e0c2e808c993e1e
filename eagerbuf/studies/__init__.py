"""What only the notebooks show: deployments, prices, tables, the glossary."""
