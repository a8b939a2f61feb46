"""The simulated exchange: an exact limit order book for one market or thousands, on CPU threads or
a GPU."""
