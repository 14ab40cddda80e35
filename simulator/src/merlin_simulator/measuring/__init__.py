"""The ground floor of what measures: the machine, numbers, values of files, plots, the page."""
