"""What the bundled tools work on: services, folders and pages that know nothing of models."""
