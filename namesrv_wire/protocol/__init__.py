"""What RocketMQ says: frames, bodies, and what a request or an answer becomes."""
