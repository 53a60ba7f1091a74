"""What the tests share: servers, worlds and reviewers that stand for the outside."""
