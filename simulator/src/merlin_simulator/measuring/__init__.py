"""The ground floor of what measures: /proc, the machine, numbers, plots and the report's page."""
