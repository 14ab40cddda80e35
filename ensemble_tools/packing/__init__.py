"""From a directory to the archive that SageMaker downloads: checked, listed, written."""
