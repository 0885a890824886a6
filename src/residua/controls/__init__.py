"""Controls: models made to pass an audit without forgetting. They test metrics and verdicts and are never methods."""
