"""Information: what a block knows about a label, in nats; critics, the estimate, its calibration."""
