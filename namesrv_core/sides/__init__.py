"""The two other sides: brokers and clients."""
